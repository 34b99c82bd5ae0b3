"""`webmill frontier`, as a person sees it: what it prints, what it refuses, exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.crawling import frontiers
from tests.unit.cli.command import Ended, commands_of, webmill
from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier.base import ClaimRequest, FrontierUpdate, LastVisit, TurnOutcomes, VisitDone
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_frontier
from webmill.crawl.layout import load_or_create_layout
from webmill.crawl.scheduler.commands import CompactFrontier, ExcludeDomains, IncludeDomains
from webmill.crawl.scheduler.inbox import ShardMessages, shard_of
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.model import Link

NOW = 1_700_000_000.0


@pytest.fixture
def place(tmp_path: Path) -> CrawlFrontier:
    """A crawl of two processes that has visited one page."""
    found = crawl_frontier(tmp_path / "news", crawl_backends(), frontier_backend())
    atomic.make_folder(found.folder)
    load_or_create_layout(found.paths, 2)
    assert shard_of("http://a.test/", 2) == 1
    with found.frontiers() as shards:
        shards[1].commit(FrontierUpdate(links=[Link("http://a.test/"), Link("http://a.test/2", depth=1)]), now=NOW)
        turn = shards[1].claim(ClaimRequest(turns=1, urls_per_turn=1, now=NOW, lease=9.0, hold=0.0))[0]
        done = VisitDone(LastVisit(url="http://a.test/", time=NOW, status=200), revisit_due=NOW + 9)
        shards[1].commit(FrontierUpdate(settled=[TurnOutcomes(turn.token, [done], next=NOW)]), now=NOW)
    return found


@pytest.fixture
def running(place: CrawlFrontier) -> Iterator[CrawlFrontier]:
    with exclusive(place.folder, "crawl", doing="crawling"):
        yield place


def frontier(*arguments: str | Path) -> Ended:
    return webmill("frontier", *arguments)


def letters(place: CrawlFrontier) -> list[object]:
    """What the owners of the boxes find there."""
    found: list[object] = []
    for shard in range(2):
        mail = ShardMessages(
            [place.paths.inbox(number) for number in range(2)],
            shard,
            open_inbox=place.backends.open_inbox,
        )
        found += [*sorted(mail.receive_links(), key=lambda link: link.url), *mail.received_commands()]
        mail.close()
    return found


def waiting(place: CrawlFrontier) -> dict[str, Link]:
    with frontiers(place.root) as shards:
        return {link.url: link for one in shards for link in one.waiting()}


@pytest.mark.parametrize("command", commands_of("frontier"), ids=" ".join)
def test_every_command_explains_itself_with_an_example_in_80_columns(command: tuple[str, ...]) -> None:
    ended = webmill(*command, "--help")
    assert ended.code == 0
    text = ended.out.decode()
    assert "Example" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("is_running", [False, True])
def test_stats_tell_of_each_shard_and_of_all(place: CrawlFrontier, is_running: bool) -> None:
    with exclusive(place.folder, "crawl" if is_running else "nothing", doing="crawling"):
        shown = frontier("stats", place.root).out.decode().splitlines()
        reported = msgspec.json.decode(frontier("stats", place.root, "--json").out)
    rows = {line[:18].strip(): line[18:].split() for line in shown}
    assert rows["URLs waiting"] == ["1", "0", "1"]
    assert rows["visited"] == ["1", "0", "1"]
    assert rows["known in total"] == ["2", "0", "2"]
    assert rows["to revisit"] == ["1", "0", "1"]
    assert max(map(len, shown)) <= 80
    assert reported["total"]["known"] == 2
    assert [one["stats"]["pages"] for one in reported["shards"]] == [0, 1]
    assert reported["total"]["bytes"] > 0
    assert reported["total"]["oldest"] > 86400  # by a clock that is not of 2023


def test_urls_are_added_at_once_when_nobody_crawls(place: CrawlFrontier, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("http://b.test/  # a comment\n\nftp://c.test/\nhttp://a.test/2\n")
    ended = frontier("add", place.root, "http://b.test/1", "--file", file, "--priority", "0", "--depth", "7")
    assert ended.code == 3
    assert "2 URLs added, 1 already known" in ended.err
    assert "1 rejected" in ended.err
    assert "[scheme]" in ended.err
    found = waiting(place)
    assert found["http://b.test/"] == Link("http://b.test/", depth=7, priority=0)
    assert set(found) == {"http://a.test/2", "http://b.test/", "http://b.test/1"}


def test_urls_and_orders_go_to_the_boxes_of_a_crawl_that_runs(running: CrawlFrontier) -> None:
    assert frontier("add", running.root, "http://b.test/", "http://b.test/2").code == 0
    assert frontier("exclude", running.root, "c.test").code == 0
    assert frontier("include", running.root, "c.test").code == 0
    assert "the running crawl does it next" in frontier("compact", running.root).err
    found = letters(running)
    links = [Link("http://b.test/", priority=3), Link("http://b.test/2", priority=3)]
    assert [one for one in found if isinstance(one, Link)] == links
    assert [one for one in found if isinstance(one, ExcludeDomains | IncludeDomains)] == [
        ExcludeDomains(("c.test",)),
        IncludeDomains(("c.test",)),
    ]
    assert found.count(CompactFrontier()) == 2


def test_domains_are_excluded_and_included_at_once_when_nobody_crawls(place: CrawlFrontier, tmp_path: Path) -> None:
    file = tmp_path / "domains.txt"
    file.write_text("b.test\n*.c.test\n")
    assert "3 domains excluded" in frontier("exclude", place.root, "a.test", "--file", file).err
    with frontiers(place.root) as shards:
        assert sorted(name for one in shards for name in one.excluded()) == ["a.test", "b.test", "c.test"]
    assert (
        "1 URL added, 0 already known, 1 in excluded"
        in frontier("add", place.root, "http://d.test/", "http://b.test/").err
    )
    assert "1 domain included" in frontier("include", place.root, "b.test").err
    assert "1 URL added" in frontier("add", place.root, "http://b.test/").err


@pytest.mark.parametrize("bad", ["www.sub.a.test", "co.uk", "not a domain"])
def test_a_slip_of_the_pen_excludes_nothing(place: CrawlFrontier, bad: str) -> None:
    ended = frontier("exclude", place.root, "b.test", bad)
    assert ended.code == 2
    with frontiers(place.root) as shards:
        assert not [name for one in shards for name in one.excluded()]


def test_what_waits_and_what_was_visited_is_exported(place: CrawlFrontier, tmp_path: Path) -> None:
    assert frontier("export", place.root, "--format", "txt").out == b"http://a.test/2\n"
    assert msgspec.json.decode(frontier("export", place.root).out, type=Link) == Link("http://a.test/2", depth=1)
    file = tmp_path / "visited.jsonl"
    assert "1 URL in" in frontier("export", place.root, "--visited", "-o", file).err
    assert frontier("export", place.root, "--waiting").out == frontier("export", place.root).out
    assert frontier("export", place.root, "--waiting", "--visited").code == 2
    assert msgspec.json.decode(file.read_bytes())["status"] == 200


def test_a_reader_that_goes_away_ends_an_export_without_a_word(place: CrawlFrontier) -> None:
    giving = [f"http://many.test/{number}" for number in range(5000)]
    assert frontier("add", place.root, *giving).code == 0
    command = [sys.executable, "-m", "webmill", "-q", "frontier", "export", str(place.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(120) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("stats",), "begin one with"),
        (("add", "http://a.test/"), "begin one with"),
        (("exclude", "a.test"), "begin one with"),
        (("compact",), "begin one with"),
        (("export",), "begin one with"),
        (("backup", "target"), "begin one with"),
    ],
)
def test_a_folder_without_a_crawl_is_told_so(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    ended = webmill("frontier", arguments[0], tmp_path, *arguments[1:])
    assert ended.code == 1
    assert words in ended.err
    assert not list(tmp_path.iterdir())  # nothing was made


def test_nothing_to_add_is_wrong_usage(place: CrawlFrontier) -> None:
    for command in ("add", "exclude", "include"):
        assert frontier(command, place.root).code == 2


def test_a_dry_run_of_compact_leaves_every_file_as_it_is(place: CrawlFrontier) -> None:
    before = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
    ended = frontier("compact", place.root, "--dry-run")
    assert ended.code == 0
    assert "1 URL waiting or in progress and all visits would be kept" in ended.err
    assert {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()} == before
