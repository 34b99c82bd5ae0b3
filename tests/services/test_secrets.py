"""Passwords and keys of real servers are neither printed, logged nor stored, when all goes well and when it does not.

Only `webmill.toml` and `frontier/flags.json` may hold one, and those are for the user alone (R-S01, R-S02).
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
import redis
from msgspec.structs import replace

from tests.contracts.search_benches import discard_search
from tests.pipeline.crawling import Linked
from tests.pipeline.test_alerts import FIRST, SECOND, collection
from tests.published_pages import publish_pages
from tests.receivers import mail_server
from tests.serve.asgi_client import asgi_client
from tests.serve.conftest import site_of
from tests.services import rabbitmq
from tests.services.redis_kinds import private_redis
from tests.unit.cli.command import Ended, webmill
from webmill.infra.retry import BackoffPolicy
from webmill.serve.app import application
from webmill.settings import AlertsSettings, QueueSettings, SearchSettings, Settings
from webmill.settings.alerts_section import parse_rules
from webmill.testing import TestWeb

pytestmark = [pytest.mark.timeout(600)]
SECRET = "pl4nted-s3cret"
PASSWORD = "right/word"  # of the mail server
MAY_HOLD = {"webmill.toml", "flags.json"}
PAGES = (
    *("/", "/crawl", "/crawl/reports", "/tasks", "/problems", "/api/problems", "/search", "/documents"),
    *("/versions", "/versions/diff", "/settings", "/metrics", "/save", "/nothing"),
)


def with_password(url: str, password: str, *, user: str = "") -> str:
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{where}"))


class Told:
    """What commands and pages have said, with logs of everything; and the folder in which they write."""

    def __init__(self, folder: Path, secret: str = SECRET) -> None:
        self.folder, self.secret = folder, secret
        self.codes: list[int] = []

    def run(self, *arguments: str | Path) -> Ended:
        ended = webmill("-vv", *arguments)
        assert self.secret not in ended.err, arguments
        assert self.secret.encode() not in ended.out, arguments
        self.codes.append(ended.code)
        return ended

    def read_pages(self, root: Path, settings: Settings) -> None:
        statuses = set()
        with asgi_client(application(site_of(root, settings))) as ask:
            for path in PAGES:
                reply = ask(path, query="q=mill" if path == "/search" else "")
                assert self.secret.encode() not in reply.body, path
                assert self.secret not in str(reply.pairs), path
                statuses.add(reply.status)
        assert 200 in statuses

    def check_files(self) -> None:
        held = {path for path in self.folder.rglob("*") if path.is_file() and self.secret.encode() in path.read_bytes()}
        assert {path.name for path in held} <= MAY_HOLD
        assert {stat.S_IMODE(path.stat().st_mode) for path in held} <= {0o600}


@pytest.mark.server("redis")
def test_the_password_of_a_redis_is_told_to_nobody(tmp_path: Path) -> None:
    with private_redis() as server, TestWeb(hosts=0, sites={"www.a.test": Linked(3)}) as web:
        with redis.Redis.from_url(server.url) as client:
            client.config_set("requirepass", SECRET)
        url = with_password(server.url, SECRET)
        address, port = web.resolve["www.a.test"]
        flags = ["--contact", "me@example.org", "--allow-private", "--delay", "0", "--no-languages", "--shards", "1"]
        flags += ["--resolve", f"www.a.test={address}:{port}"]
        told, root = Told(tmp_path), tmp_path / "c"
        assert told.run("crawl", root, "http://www.a.test/0", "--frontier", url, "--name", "c", *flags).code == 0
        for command in ("status", "problems", "doctor", "frontier stats", "frontier export"):
            assert told.run(*command.split(), root).code == 0, command
        told.run("frontier", "why", root, "http://www.a.test/0")
        told.run("status", root, "--json")
        told.run("index", root)
        told.read_pages(root, Settings(crawl=replace(Settings().crawl, frontier=url)))
        wrong = f"{SECRET}-wrong"
        other = told.run(
            "crawl", tmp_path / "d", "http://www.a.test/0", "--frontier", with_password(url, wrong), *flags
        )
        assert other.code == 1, "the password is asked for"
        told.run("cdxj", "paths", "redis", "--url", with_password(url, wrong), "-k", "k", root / "none")
        told.check_files()
        assert (root / "frontier" / "flags.json").read_bytes().count(SECRET.encode()) == 1, "it is known there"
        kept = [path for path in server.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert not kept, "nor in Redis, where other nodes and their users read"


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A RabbitMQ of our own, with a user and a password."""
    folder = tmp_path_factory.mktemp("rabbitmq")
    (folder / "rabbitmq.conf").write_text(f"default_user = mill\ndefault_pass = {SECRET}\n")
    node = rabbitmq.start(folder)
    try:
        yield with_password(node.url, SECRET, user="mill")
    finally:
        node.stop()


@pytest.mark.server("rabbitmq")
def test_the_password_of_a_broker_is_told_to_nobody(
    broker: str, sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # `cc batch` keeps its checkpoint in the present folder
    told = Told(tmp_path)
    base = ("--base-url", str(sample_root), "--no-metrics")
    batch = told.run("cc", "batch", "--crawl", "TOWN-2024", "--queue", broker, *base)
    assert batch.code == 0, batch.err
    work = told.run("cc", "work", "-o", tmp_path / "out", "--queue", broker, "--until-empty", *base)
    assert work.code in (0, 3), work.err
    told.run("dead", "list", "--queue", broker)
    told.run("dead", "requeue", "--queue", broker, "--all")
    told.read_pages(sample_root, Settings(queue=QueueSettings(url=broker)))
    wrong = with_password(broker, f"{SECRET}-wrong", user="mill")
    assert told.run("cc", "batch", "--crawl", "TOWN-2024", "--queue", wrong, *base).code == 1
    assert told.run("cc", "work", "-o", tmp_path / "out2", "--queue", wrong, "--until-empty", *base).code == 1
    told.check_files()


@pytest.mark.server("s3")
def test_the_keys_of_a_bucket_are_told_to_nobody(s3_url: str, sample_root: Path, tmp_path: Path) -> None:
    secret = urlsplit(s3_url).password
    assert secret
    told = Told(tmp_path, secret)
    bucket, _, query = s3_url.partition("?")
    place = f"{bucket}/secrets?{query}"
    published = told.run("publish", "documents", sample_root, "--storage", place, "--force")
    assert published.code == 0, published.err
    for command in ("publish list", "publish show", "publish verify"):
        assert told.run(*command.split(), sample_root, "--storage", place).code == 0, command
    told.run("cc", "crawls", "--base-url", place)
    told.read_pages(sample_root, Settings(commoncrawl=replace(Settings().commoncrawl, base_url=place)))
    told.run("publish", "documents", sample_root, "--from", f"{bucket}/nothing?{query}", "--storage", place)
    wrong = place.replace(f":{secret}@", f":{secret}-wrong@")
    assert told.run("publish", "list", sample_root, "--storage", wrong).code == 1
    assert told.run("cc", "paths", "TOWN-2024", "--base-url", wrong).code == 1
    told.check_files()


@pytest.mark.server("postgres")
def test_the_password_of_a_database_is_told_to_nobody(postgres_url: str, tmp_path: Path) -> None:
    told, url = Told(tmp_path), with_password(postgres_url, SECRET, user="webmill")
    for address in (url, f"{url}-none", f"{url}?password={SECRET}", with_password(url, SECRET, user="nobody")):
        ended = told.run("frontier", "import-postgres", tmp_path / "c", "--url", address)
        assert ended.code == 1, "there is no frontier in it"
    told.check_files()


@pytest.mark.server("meilisearch")
@pytest.mark.xdist_group("meilisearch")
def test_the_key_of_a_search_server_is_told_to_nobody(meilisearch_url: str, sample_root: Path, tmp_path: Path) -> None:
    key = urlsplit(meilisearch_url).netloc.partition("@")[0]
    told, root = Told(tmp_path, key), tmp_path / "town"
    shutil.copytree(sample_root, root)
    index = f"{meilisearch_url}/secrets-{os.getpid()}"
    updated = told.run("search", "update", root, "--index", index)
    assert updated.code == 0, updated.err
    try:
        for command in (("find", root, "mill"), ("check", root, "--dry-run"), ("rebuild", root)):
            ended = told.run("search", *command, "--index", index)
            assert ended.code == 0, ended.err
        told.read_pages(root, Settings(search=SearchSettings(url=index)))
        wrong = index.replace(key, f"{key}-wrong")
        for command in (("update", root), ("find", root, "mill"), ("check", root), ("rebuild", root)):
            assert told.run("search", *command, "--index", wrong).code == 1, command
        told.read_pages(root, Settings(search=SearchSettings(url=wrong)))
        told.check_files()
    finally:
        discard_search(index)


def test_the_password_of_a_mail_server_is_told_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.pipeline.alerts.outbox.AT_ONCE", BackoffPolicy(attempts=1))
    root, told = tmp_path / "news", Told(tmp_path, PASSWORD)
    with mail_server() as server:
        good = with_password(server.address, quote(PASSWORD, safe=""), user="me")
        collection(root, {"to": "mailto:me@example.org", "match": "price"})
        for address in (good, good.replace("right", "wrong-right"), f"{good}:nonsense", f"nonsense:{PASSWORD}"):
            monkeypatch.setenv("WEBMILL_ALERTS_MAIL_SERVER", address)
            tested = told.run("alerts", "test", root)
            assert (tested.code == 0) == (address == good), tested.err
            told.run("run", root, "--stage", "alert")
            publish_pages(root, FIRST if address == good else SECOND)
            told.run("run", root, "--stage", "alert")
            for command in ("alerts list", "problems", "status", "doctor"):
                told.run(*command.split(), root)
                told.run(*command.split(), root, "--json")
            alerts = AlertsSettings(mail_server=address, rules=parse_rules([{"to": "mailto:me@example.org"}]))
            told.read_pages(root, Settings(alerts=alerts))
        assert (b"me", PASSWORD.encode()) in server.logins
        assert server.mails
    told.check_files()
