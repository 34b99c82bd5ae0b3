"""A university's boards, from a board list to versions, by the commands; politeness is judged by the server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.boards.publishing import checked_items
from tests.boards.readers import scratch
from tests.pipeline.crawl_manners import check_manners, keep_journal
from tests.pipeline.crawling import seen_by
from webmill.cli.main import webmill
from webmill.infra.storage.local import LocalStorage
from webmill.publish.verify import verify
from webmill.testing import TestWeb
from webmill.testing.features import university
from webmill.testing.features.university import ADDED, BREAKING, BROKEN, CHANGED, EMPTY, FORBIDDEN, REMOVED

ROOT = Path(__file__).parent.parent.parent
DELAY = 0.05
BOARDS = university.boards()
INTERESTING = {board for board, _ in CHANGED | REMOVED | ADDED} | BREAKING | BROKEN | EMPTY | FORBIDDEN
FEW = frozenset(INTERESTING | {number for number in range(0, 48, 3) if number // 3 % 3 != 1} | {50})
ALL = frozenset(range(len(BOARDS)))


@pytest.fixture(scope="module")
def web() -> Iterator[TestWeb]:
    with TestWeb(hosts=0) as web:
        yield web


class Publisher:
    """The commands on one collection, and what is in it."""

    def __init__(self, root: Path, web: TestWeb, chosen: frozenset[int]) -> None:
        self.root, self.place, self.web, self.chosen = root, root / "notices", web, chosen
        self.board_list = root / "siteMap.json"
        self.board_list.write_bytes(part_of(chosen))
        (self.place / "frontier").mkdir(parents=True)
        (root / "frontier").rmdir()
        (root / "frontier").symlink_to(self.place / "frontier")  # where `crawl_manners` looks
        keep_journal(root)
        self.storage = LocalStorage(self.place)

    def command(self, *arguments: str | Path) -> str:
        done = CliRunner().invoke(webmill, ["-q", "publish", *map(str, arguments)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    def run(self, *more: str, code: int) -> Any:
        """In a process of its own, as it starts and ends others."""
        hosts = [f"--resolve={host}={self.web.resolve[host][0]}:{self.web.port}" for host in university.HOSTS]
        flags = ["--contact=me@example.org", "--allow-private", f"--delay={DELAY}s", "--json", *hosts, *more]
        line = [
            sys.executable,
            "-m",
            "webmill",
            "-q",
            "publish",
            "run",
            self.place,
            "--board-list",
            self.board_list,
            *flags,
        ]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def file(self, version: str, key: str) -> Any:
        return json.loads(self.storage.read(f"snapshots/{version}/{key}"))

    def live(self) -> str:
        return str(json.loads(self.storage.read("latest.json"))["version"])

    def ids(self, notices: frozenset[tuple[int, int]]) -> list[str]:
        return sorted(f"{BOARDS[board].source}/{number}" for board, number in notices if board in self.chosen)

    def sources(self, *numbers: frozenset[int]) -> set[str]:
        return {BOARDS[number].source for number in frozenset().union(*numbers) & self.chosen}

    def expected(self, version: int) -> set[str]:
        """What stands on the first pages of boards that answer."""
        silent = BROKEN | FORBIDDEN
        return {
            f"{board.source}/{one.number}"
            for board in BOARDS
            if board.number in self.chosen - silent
            for one in first_page(board, version)
        }


def first_page(board: university.BoardSite, version: int) -> list[university.NoticeText]:
    shown = university.notices(board, version)
    return [one for number, one in enumerate(shown) if number < university.PER_PAGE or one.pinned]


def part_of(chosen: frozenset[int]) -> bytes:
    """The university's board list with these boards alone."""
    wanted = {BOARDS[number].url for number in chosen}
    found = json.loads(university.board_list())
    for campus in found:
        for college in (*campus["colleges"], campus):
            for department in college["departments"]:
                department["boards"] = [board for board in department["boards"] if board["url"] in wanted]
    return json.dumps(found).encode()


def live_through(publisher: Publisher) -> None:
    """Run, change, run again, roll back, collect."""
    publisher.web.version = 1
    broken, breaking = publisher.sources(BROKEN, FORBIDDEN), publisher.sources(BREAKING)
    first = publisher.run(code=3)
    items = checked_items(publisher.storage)
    assert set(items) == publisher.expected(1)
    assert set(first["failed"]) == broken
    assert first["counts"]["counts"]["content_blobs_written"] == len(items)

    publisher.web.version = 2
    second = publisher.run(code=3)
    diff = publisher.file(second["version"], "aux/diff.json")
    assert [one["id"] for one in diff["added"]] == publisher.ids(ADDED)
    assert [one["id"] for one in diff["changed"]] == publisher.ids(CHANGED)
    assert [one["id"] for one in diff["removed"]] == publisher.ids(REMOVED)
    assert diff["relabelled"] == []
    assert all(one["old"] != one["new"] for one in diff["changed"])
    reported = publisher.command("diff", publisher.place, "previous", "live").splitlines()
    assert sorted(line[0] for line in reported) == sorted("+" * 2 + "~" * 3 + "-")
    counts = second["counts"]["counts"]
    after = checked_items(publisher.storage)
    assert set(after) == (publisher.expected(1) | set(publisher.ids(ADDED))) - set(publisher.ids(REMOVED))
    stale = {id_ for id_ in after if id_.rpartition("/")[0] in breaking}
    assert counts["content_blobs_written"] == 5  # three changed, two new
    assert counts["unchanged"] == len(after) - len(stale) - 5
    assert set(second["failed"]) == broken | breaking
    sources = {one["source"]: one for one in publisher.file(second["version"], "meta/sources.json")}
    assert {name for name, one in sources.items() if one["status"] == "stale"} == breaking
    made = publisher.file(first["version"], "aux/stats.json")["finished_at"]
    assert {sources[name]["since"] for name in breaking} == {made}
    assert second["counts"]["stale"] == len(stale)
    told_errors = {one["source"] for one in publisher.file(second["version"], "aux/errors.json")}
    assert told_errors == broken | breaking
    dead = publisher.command("dead", "list", publisher.place).splitlines()
    assert {line.rpartition("\t")[2] for line in dead} == (broken | breaking) - publisher.sources(FORBIDDEN)

    publisher.command("rollback", publisher.place, "previous")
    assert checked_items(publisher.storage) == items
    publisher.command("rollback", publisher.place, second["version"])
    publisher.command("gc", publisher.place, "--keep", "1", "--grace", "0s")
    assert [line.split()[0] for line in publisher.command("list", publisher.place).splitlines()] == [second["version"]]
    assert checked_items(publisher.storage) == after
    blobs = {stat.key[13:77] for stat in publisher.storage.list("blobs/")}
    assert {item["hash"] for item in after.values()} <= blobs
    assert not {item["hash"] for item in items.values()} - {item["hash"] for item in after.values()} & blobs
    assert verify(publisher.storage, read_data=True).findings == ()
    assert publisher.command("verify", publisher.place, "--read-data") == ""


def lose_too_much(publisher: Publisher) -> None:
    """Every third board is empty, which nobody would do."""
    live, items = publisher.live(), checked_items(publisher.storage)
    publisher.web.version = 4
    refused = publisher.run(code=1)
    assert "more than 20%" in refused["refused"]
    assert publisher.live() == live
    assert checked_items(publisher.storage) == items


def check_politeness(publisher: Publisher) -> None:
    assert publisher.web.log.settle(seconds=60)
    seen = seen_by(visit for visit in publisher.web.log if visit.host in university.HOSTS)
    check_manners(publisher.root, seen, host=DELAY)


@pytest.mark.timeout(600)
def test_a_part_of_the_university_is_published_as_it_changes_and_asked_politely(web: TestWeb) -> None:
    with scratch() as root:
        publisher = Publisher(root, web, FEW)
        live_through(publisher)
        check_politeness(publisher)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_whole_university_is_published_as_it_changes() -> None:
    with scratch() as root, TestWeb(hosts=0) as own:
        publisher = Publisher(root, own, ALL)
        live_through(publisher)
        lose_too_much(publisher)
        check_politeness(publisher)
