"""Passwords and keys of real servers are neither printed, logged nor stored, when all goes well and when it does not.

Only `webmill.toml` and `frontier/flags.json` may hold one, and those are for the user alone (R-S01, R-S02).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
import redis

from tests.pipeline.crawling import Linked
from tests.services import rabbitmq
from tests.services.redis_kinds import private_redis
from tests.unit.cli.command import Ended, webmill
from webmill.testing import TestWeb

pytestmark = [pytest.mark.timeout(600)]
SECRET = "pl4nted-s3cret"
MAY_HOLD = {"webmill.toml", "flags.json"}


def with_password(url: str, password: str, *, user: str = "") -> str:
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{where}"))


class Told:
    """What commands have said, with logs of everything; and the folder in which they write."""

    def __init__(self, folder: Path, secret: str = SECRET) -> None:
        self.folder, self.secret = folder, secret
        self.codes: list[int] = []

    def run(self, *arguments: str | Path) -> Ended:
        ended = webmill("-vv", *arguments)
        assert self.secret not in ended.err, arguments
        assert self.secret.encode() not in ended.out, arguments
        self.codes.append(ended.code)
        return ended

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
def test_the_password_of_a_broker_is_told_to_nobody(broker: str, sample_root: Path, tmp_path: Path) -> None:
    told = Told(tmp_path)
    base = ("--base-url", str(sample_root), "--no-metrics")
    batch = told.run("cc", "batch", "--crawl", "TOWN-2024", "--queue", broker, *base)
    assert batch.code == 0, batch.err
    work = told.run("cc", "work", "-o", tmp_path / "out", "--queue", broker, "--until-empty", *base)
    assert work.code in (0, 3), work.err
    told.run("dead", "list", "--queue", broker)
    told.run("dead", "requeue", "--queue", broker, "--all")
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
