"""A frontier in a real PostgreSQL is taken over: every row counted, every URL once, whatever is killed on the way."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from tests.faults import killer, needs_killer
from tests.faults.matrix import record
from tests.pipeline.crawling import Linked, frontiers, seen_by
from tests.services.crawler_database import EXPIRES, ODD_WAITING, crawler_database
from tests.unit.cli.command import Ended, webmill
from webmill.crawl.backends import open_host_schedule
from webmill.crawl.frontier.base import ClaimRequest
from webmill.infra.host_schedule.fixed_delays import Reservation
from webmill.testing import TestWeb

pytestmark = pytest.mark.server("postgres")
Make = Callable[..., str]
REJECTED = {"bad_depth": 1, "bad_host": 1, "bad_url": 1, "scheme": 1, "url_too_long": 1}
DOMAINS = 200


@pytest.fixture
def make(postgres_url: str, request: pytest.FixtureRequest) -> Iterator[Make]:
    """`make(waiting=…, visited=…)` gives the URL of a database of its own."""
    opened: list[AbstractContextManager[str]] = []

    def build(*, waiting: int, visited: int) -> str:
        name = f"webmill_import_{os.getpid()}_{len(opened)}"
        database = crawler_database(postgres_url, name, waiting=waiting, visited=visited, domains=DOMAINS)
        opened.append(database)
        return database.__enter__()

    yield build
    for database in opened:
        database.__exit__(None, None, None)


def imported(root: Path, url: str, *options: str) -> Ended:
    return webmill("-q", "frontier", "import-postgres", root, "--url", url, *options)


def counts(ended: Ended) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = msgspec.json.decode(ended.out)
    return found


def expected_waiting(waiting: int) -> list[str]:
    odd = ["https://d2.org/twice", "https://d2.org/%C3%BCn%C3%AFcode|pipe"]
    return sorted([f"https://www.d{n % DOMAINS}.org/w/{n}" for n in range(1, waiting + 1)] + odd)


def expected_visited(visited: int) -> list[str]:
    return sorted(f"https://www.d{n % DOMAINS}.org/v/{n}" for n in range(1, visited + 1))


def check(root: Path, found: dict[str, dict[str, Any]], *, waiting: int, visited: int) -> None:
    assert found["visited_urls"] == {"imported": visited, "known": 0, "excluded": 0, "rejected": {"bad_host": 1}}
    all_waiting = {"imported": waiting + ODD_WAITING, "known": 2, "excluded": 0, "rejected": REJECTED}
    assert found["frontier"] == all_waiting
    domains = {"imported": DOMAINS + 1, "known": 0, "excluded": 0, "rejected": {"not_a_domain": 1}}
    assert found["domain_metadata"] == domains
    with frontiers(root) as shards:
        assert sorted(link.url for one in shards for link in one.waiting()) == expected_waiting(waiting)
        assert sorted(visit.url for one in shards for visit in one.visits()) == expected_visited(visited)
        stats = [one.stats() for one in shards]
    assert all(one.waiting and one.visited for one in stats)  # both shards have a part
    assert sum(one.pages for one in stats) == 0  # of this crawl
    lines = [line for file in (root / "rejected").iterdir() for line in file.read_bytes().splitlines()]
    reasons = sorted(msgspec.json.decode(line)["reason"] for line in lines)
    assert reasons == ["bad_depth", "bad_host", "bad_host", "bad_url", "not_a_domain", "scheme", "url_too_long"]


def test_every_row_is_imported_known_or_rejected_and_told_apart(tmp_path: Path, make: Make) -> None:
    url = make(waiting=3000, visited=600)
    ended = imported(tmp_path / "c", url, "--processes", "2", "--batch", "700", "--json")
    assert ended.code == 3, ended.err
    assert "7 rejected" in ended.err
    check(tmp_path / "c", counts(ended), waiting=3000, visited=600)
    again = imported(tmp_path / "c", url, "--json")
    assert counts(again) == counts(ended)


def test_what_the_old_crawler_knew_of_domains_is_kept(tmp_path: Path, make: Make) -> None:
    root = tmp_path / "c"
    assert imported(root, make(waiting=1000, visited=10), "--processes", "2").code == 3
    with frontiers(root) as shards:
        excluded = sorted(name for one in shards for name in one.excluded())
        assert excluded == ["alone.net", "d102.org", "d2.org"]
        for origin in ("https://d1.org", "http://d1.org"):
            found = [robots for one in shards if (robots := one.robots(origin))]
            assert [(one.body, one.status) for one in found] == [(b"User-agent: *\nDisallow: /no/1", 200)]
            assert time.time() < found[0].expires <= time.time() + 86400  # no copy is used for longer
        assert not any(one.robots("https://d0.org") for one in shards)  # empty: maybe it was an error
        assert {
            item.domain
            for one in shards
            for item in one.claim(ClaimRequest(turns=1000, urls_per_turn=1, now=4e9, lease=9, hold=0))
        }.isdisjoint(excluded)
        assert sum(one.include(["d2.org"]) for one in shards) == 1
        back = [
            turn
            for one in shards
            for turn in one.claim(ClaimRequest(turns=1000, urls_per_turn=99, now=5e9, lease=9, hold=0))
        ]
        assert {turn.domain for turn in back} >= {"d2.org"}  # what waited of it was kept
    gates = open_host_schedule(root / "frontier" / "gates.sqlite")
    now = gates.clock(None)()
    booking = {n: Reservation(now=now, window=1.0, delays={f"domain:d{n}.org": 1.0}) for n in (3, 4)}
    assert set(gates.reserve(booking, now=now, longest=86400.0)) == {3}  # it was not to be asked yet
    gates.close()


def reference_migration(visited: list[str], frontier: list[str]) -> list[str]:
    """As its document has it: mark all as seen, then add what was not seen. A set for its Bloom filter."""
    seen: set[str] = set()
    for url in visited:
        seen.add(url)
    for url in frontier:
        seen.add(url)
    files = []
    for url in frontier:
        if url not in seen:
            seen.add(url)
            files.append(url)
    return files


def test_the_reference_would_add_none_of_what_waits_and_we_add_all(tmp_path: Path, make: Make) -> None:
    url = make(waiting=1000, visited=200)
    with psycopg.connect(url) as database:
        visited = [row[0] for row in database.execute("SELECT url FROM visited_urls")]
        waiting = [row[0] for row in database.execute("SELECT url FROM frontier WHERE url LIKE '%/w/%'")]
    assert len(waiting) == 1000
    assert reference_migration(visited, waiting) == []
    found = counts(imported(tmp_path / "c", url, "--json"))
    assert found["frontier"]["imported"] == 1000 + ODD_WAITING


def test_a_database_that_changed_meanwhile_is_an_error_and_again_repairs_it(tmp_path: Path, make: Make) -> None:
    url = make(waiting=500, visited=100)
    assert imported(tmp_path / "c", url).code == 3
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("INSERT INTO frontier VALUES (0, 'https://new.org/', 'new.org', 1, 1)")
    ended = imported(tmp_path / "c", url)
    assert ended.code == 1
    assert "--from-scratch" in ended.err
    repaired = imported(tmp_path / "c", url, "--again", "--json")
    assert counts(repaired)["frontier"]["imported"] == 1
    assert counts(repaired)["frontier"]["known"] == 500 + ODD_WAITING + 2


def test_times_may_be_timestamps(tmp_path: Path, make: Make) -> None:
    url = make(waiting=50, visited=20)
    with psycopg.connect(url, autocommit=True) as database:
        change = "ALTER TABLE {} ALTER {} TYPE timestamptz USING to_timestamp({})"
        database.execute(change.format("frontier", *["added_timestamp"] * 2))
        database.execute(change.format("visited_urls", *["crawled_timestamp"] * 2))
    assert imported(tmp_path / "c", url).code == 3
    with frontiers(tmp_path / "c") as shards:
        assert {visit.time for one in shards for visit in one.visits()} >= {1_700_000_000.0, 1_700_000_002.0}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("DROP TABLE frontier", "right database"),
        ("ALTER TABLE frontier DROP COLUMN depth", "no column depth"),
    ],
)
def test_another_database_is_refused_with_a_sentence(tmp_path: Path, make: Make, spoil: str, words: str) -> None:
    url = make(waiting=10, visited=10)
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(spoil)
    ended = imported(tmp_path / "c", url)
    assert ended.code == 1
    assert words in ended.err
    started = webmill("crawl", tmp_path / "c", "--contact", "me@example.org")
    assert started.code == 2  # half of a frontier is not crawled by mistake


@pytest.mark.parametrize(
    "url",
    ["postgresql://nobody:geheim@127.0.0.1:1/none", "nonsense", "postgresql://x:geheim@127.0.0.1:1/none?bad=geheim"],
)
def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path, url: str) -> None:
    ended = imported(tmp_path / "c", url)
    assert ended.code == 1
    assert "PostgreSQL" in ended.err
    assert "geheim" not in ended.err


def test_a_missing_driver_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    ended = imported(tmp_path / "c", "postgresql://127.0.0.1/none")
    assert ended.code == 1
    assert "webmill[postgres]" in ended.err


def test_the_crawl_goes_on_with_what_was_imported(tmp_path: Path, make: Make) -> None:
    """What waits is asked once; what was visited, is excluded, or robots.txt forbids is not asked at all."""
    url = make(waiting=0, visited=0)
    sites = {name: Linked(0) for name in ("www.a.test", "www.b.test", "c.test")}
    with TestWeb(hosts=0, sites=sites) as web:
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("TRUNCATE frontier, visited_urls, domain_metadata")
            for number in range(10):
                for name in sites:
                    row = (f"http://{name}/{number}", name.removeprefix("www."))
                    database.execute(
                        "INSERT INTO frontier (url, domain, depth, added_timestamp) VALUES (%s, %s, 0, 0)", row
                    )
            database.execute("INSERT INTO frontier (url, domain) VALUES ('http://c.test/no/1', 'c.test')")
            database.execute("INSERT INTO visited_urls VALUES ('x', 'http://www.a.test/3', 'a.test', 1, 200)")
            robots = "User-agent: *\nDisallow: /no"
            sql = "INSERT INTO domain_metadata VALUES ('b.test', 0, '', 0, 1), ('c.test', 0, %s, %s, 0)"
            database.execute(sql, (robots, EXPIRES))
        assert imported(tmp_path / "c", url, "--processes", "2").code == 0
        resolve = [part for name, (ip, port) in web.resolve.items() for part in ("--resolve", f"{name}={ip}:{port}")]
        flags = ("--scope", "any", "--contact", "me@example.org", "--delay", "0s", "--address-delay", "0s")
        ended = webmill("-q", "crawl", tmp_path / "c", *flags, "--allow-private", *resolve)
        assert ended.code == 0, ended.err
        web.log.settle()
        asked = sorted(one.url for one in seen_by(web.log.visits()))
    pages = [f"http://www.a.test/{n}" for n in range(10) if n != 3] + [f"http://c.test/{n}" for n in range(10)]
    assert asked == sorted([*pages, "http://www.a.test/robots.txt"])


# --- kills ---


def start(root: Path, url: str, environment: dict[str, str], *options: str) -> int:
    command = [sys.executable, "-m", "webmill", "-q", "frontier", "import-postgres", str(root), "--url", url]
    with (root.parent / "out").open("wb") as out, (root.parent / "err").open("ab") as err:
        done = subprocess.run(
            [*command, "--processes", "2", "--json", *options],
            env={**os.environ, "LD_PRELOAD": str(killer()), "KILLER_UNDER": str(root), **environment},
            stdout=out,
            stderr=err,
            check=False,
        )
    return done.returncode


def import_killed_three_times(tmp_path: Path, url: str, *, batch: int) -> dict[str, dict[str, Any]]:
    options = ("--batch", str(batch))
    log = tmp_path / "calls"
    assert start(tmp_path / "whole", url, {"KILLER_LOG": str(log)}, *options) == 3, (tmp_path / "err").read_text()
    with log.open("rb") as lines:
        calls = sum(1 for _ in lines)
    for part in (4, 3, 4):
        assert start(tmp_path / "c", url, {"KILLER_AT": str(calls // part)}, *options) == -9
    assert start(tmp_path / "c", url, {}, *options) == 3, (tmp_path / "err").read_text()
    found: dict[str, dict[str, Any]] = msgspec.json.decode((tmp_path / "out").read_bytes())
    return found


@needs_killer
@pytest.mark.crash
def test_killed_three_times_it_goes_on_and_every_row_counts_once(tmp_path: Path, make: Make) -> None:
    url = make(waiting=20_000, visited=4_000)
    found = import_killed_three_times(tmp_path, url, batch=1000)
    with frontiers(tmp_path / "c") as shards:
        here = [link.url for one in shards for link in one.waiting()]
        here += [visit.url for one in shards for visit in one.visits()]
    wanted = {*expected_waiting(20_000), *expected_visited(4_000)}
    numbers = {"lost": len(wanted - set(here)), "duplicated": len(here) - len(set(here))}
    numbers["quarantined"] = sum(sum(part["rejected"].values()) for part in found.values())
    record("frontier (embedded)", "import killed", injected=3, acknowledged=len(wanted), **numbers)
    check(tmp_path / "c", found, waiting=20_000, visited=4_000)


@needs_killer
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_rows_killed_three_times(tmp_path: Path, make: Make) -> None:
    url = make(waiting=1_000_000, visited=200_000)
    began = time.monotonic()
    found = import_killed_three_times(tmp_path, url, batch=10_000)
    seconds, peak = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"two imports, one of them killed three times: {seconds:.0f} s, {peak} MiB at most")
    check(tmp_path / "c", found, waiting=1_000_000, visited=200_000)
