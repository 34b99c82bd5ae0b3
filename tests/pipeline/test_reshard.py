"""A crawl is divided into another number of shards: nothing is lost, nothing is there twice, whenever it is killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record
from tests.pipeline.crawling import captures, counts, crawl_here, crawl_until, seen_by, smallest_gaps, visits
from tests.pipeline.reshard_checker import CrawlFound
from tests.pipeline.test_frontier_backup import DELAY, PAGES, tree, url_of
from tests.unit.cli.command import webmill
from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier.base import (
    ClaimRequest,
    FrontierUpdate,
    LastVisit,
    Outcome,
    RetryLater,
    RobotsEntry,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier, crawl_frontier
from webmill.crawl.frontier_admin.reshard import STAGING, reshard
from webmill.crawl.layout import CrawlLayout, load_or_create_layout, record_files, write_layout
from webmill.crawl.scheduler.budgets import SCHEMA as QUOTA
from webmill.crawl.scheduler.commands import ExcludeDomains, PauseCrawl, RetryUrls
from webmill.crawl.scheduler.domain_scores import SCHEMA as SCORES
from webmill.crawl.scheduler.inbox import group_by_shard, publish_command, publish_links, shard_of
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.infra.sqlite import Database
from webmill.model import Link

NOW = 1e9
DOMAINS = [f"site{number}.com" for number in range(24)]
POINTS = int(os.environ.get("WEBMILL_TEST_KILLS", "4")) * 3


@pytest.fixture
def base() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def place_at(root: Path) -> CrawlFrontier:
    return crawl_frontier(root, crawl_backends(), frontier_backend(), name="crawl")


def filled(root: Path, *, shards: int) -> CrawlFrontier:
    """A crawl with something of every kind."""
    place = place_at(root)
    atomic.make_folder(place.folder)
    load_or_create_layout(place.paths, shards)
    urls = [f"http://www.{domain}/{number}" for domain in DOMAINS for number in range(12)]
    links = [Link(url, depth=at % 5, priority=at % 4 + 3, redirects=at % 3) for at, url in enumerate(urls)]
    for shard, own in group_by_shard(links, shards).items():
        fill_shard(place, shard, own)
    for number in range(shards):
        with place.inbox(number) as inbox, Database(place.paths.shard(number) / "quota.sqlite", schema=QUOTA) as quota:
            names = [domain for domain in DOMAINS if shard_of(f"http://{domain}/", shards) == number]
            publish_links(inbox, [Link(f"http://www.{domain}/sent", depth=2) for domain in names])
            publish_command(inbox, ExcludeDomains(tuple(names[:1])))
            publish_command(inbox, RetryUrls(("http_500",)))
            publish_command(inbox, PauseCrawl())
            with quota.write():
                quota.many("INSERT INTO domain VALUES (?, ?)", [(name, 7) for name in names])
                quota.many("INSERT INTO domain VALUES (?, ?)", [(f"{name} *.com", 3) for name in names])
        with Database(place.paths.shard(number) / "scores.sqlite", schema=SCORES) as scores, scores.write():
            scores.many("INSERT INTO score VALUES (?, ?, ?)", [(name, 0.5, 2) for name in names])
    return place


def fill_shard(place: CrawlFrontier, shard: int, links: list[Link]) -> None:
    with place.frontier(shard) as frontier:
        robots = [
            RobotsEntry(origin=url.rpartition("/")[0], fetched=NOW, expires=NOW + 9, status=200, body=b"x")
            for url in {link.url for link in links if link.url.endswith("/0")}
        ]
        notes = {"clock": '{"now":%f,"since_boot":1.0,"boot":""}' % (NOW + shard), "again": links[0].url}
        frontier.commit(FrontierUpdate(links=links, robots=robots, notes=notes), now=NOW)
        frontier.exclude(["nowhere.org"])
        frontier.exclude([DOMAINS[3]])  # in all shards, as --exclude-domains does it
        shards = place.shards()
        frontier.prioritise([name for name in DOMAINS[4:6] if shard_of(f"http://{name}/", shards) == shard], 15)
        for step in range(3):
            turns = frontier.claim(
                ClaimRequest(turns=50, urls_per_turn=3, now=NOW + 100 * step, lease=1e6, hold=7.0 + shard)
            )
            for turn in turns[step:]:
                outcomes: list[Outcome] = [
                    VisitDone(
                        LastVisit(url=one.url, time=NOW + step, status=200), revisit_due=NOW + 999 if at else None
                    )
                    for at, one in enumerate(turn.items[:2])
                ]
                outcomes += [RetryLater(one.url, NOW + 5000, "timeout") for one in turn.items[2:]]
                frontier.commit(FrontierUpdate(settled=[TurnOutcomes(turn.token, outcomes, NOW + 50)]), now=NOW + 1)
    with place.frontier(shard):  # ends what was in hand, as any start of a crawl does
        pass


def content_of(root: Path) -> dict[str, object]:
    return CrawlFound(root / "frontier").content()


@pytest.mark.parametrize("numbers", [(1, 4, 1), (3, 2, 7, 3), (2, 2)])
def test_what_the_shards_hold_is_divided_and_nothing_else(base: Path, numbers: tuple[int, ...]) -> None:
    place = filled(base / "crawl", shards=numbers[0])
    before = content_of(base / "crawl")
    assert all(before[name] for name in ("domains", "waiting", "retries", "visits", "robots", "messages", "tables"))
    for number in numbers[1:]:
        done = reshard(place, number)
        assert content_of(base / "crawl") == before
        assert place.shards() == number
        assert done.visited == len(before["visits"])  # type: ignore[arg-type]
        assert not (place.folder / STAGING).exists()
        assert len(list(place.folder.glob("shard-*"))) == number


def test_a_divided_frontier_works(base: Path) -> None:
    place = filled(base / "crawl", shards=2)
    reshard(place, 3)
    with place.frontiers() as frontiers:
        assert any(frontier.notes()["clock"].startswith(f'{{"now":{NOW + 1:.1f}'[:16]) for frontier in frontiers)
        for shard, frontier in enumerate(frontiers):
            turns = frontier.claim(
                ClaimRequest(turns=99, urls_per_turn=99, now=NOW + 1e5, lease=9.0, hold=9.0, revisits=True)
            )
            for turn in turns:
                assert turn.rank == (15 if turn.domain in DOMAINS[4:6] else 0)
                assert shard_of(f"http://{turn.domain}/", 3) == shard
            known = [Link(item.url) for turn in turns for item in turn.items]
            assert frontier.commit(FrontierUpdate(links=known), now=NOW + 1e5).added == 0
            assert frontier.next_turn() is not None
            assert {turn.domain for turn in turns}.isdisjoint(frontier.excluded())


def test_the_command_prints_what_it_did(base: Path) -> None:
    filled(base / "crawl", shards=2)
    ended = webmill("frontier", "reshard", base / "crawl", "5", "--json")
    assert ended.code == 0, ended.err
    done = msgspec.json.decode(ended.out)
    assert (done["before"], done["shards"], done["finished"]) == (2, 5, False)
    assert done["domains"] == len(DOMAINS) + 1  # and one that is only excluded
    assert done["waiting"] + done["visited"] == 12 * len(DOMAINS)
    again = webmill("frontier", "reshard", base / "crawl", "5")
    assert again.code == 0
    assert "5 shards (before: 5)" in again.err


def test_a_crawl_that_runs_is_left_alone(base: Path) -> None:
    place = filled(base / "crawl", shards=2)
    before = content_of(base / "crawl")
    with exclusive(place.folder, "crawl", doing="crawling"):
        ended = webmill("frontier", "reshard", base / "crawl", "3")
    assert ended.code == 1
    assert "stop it (Ctrl-C there), then run this again" in ended.err
    assert content_of(base / "crawl") == before
    assert place.shards() == 2


def test_a_crawl_that_has_lost_a_file_is_left_alone(base: Path) -> None:
    place = filled(base / "crawl", shards=2)
    record_files(place.paths)
    (place.paths.shard(1) / "state.sqlite").unlink()
    shutil.rmtree(place.paths.shard(1) / "seen")
    ended = webmill("frontier", "reshard", base / "crawl", "3")
    assert ended.code == 1
    assert "shard-01/state.sqlite is missing or empty: `webmill frontier restore`" in ended.err
    assert not (place.paths.shard(1) / "state.sqlite").exists()


def test_a_failure_leaves_the_crawl_as_it_was(base: Path) -> None:
    place = filled(base / "crawl", shards=2)
    before = content_of(base / "crawl")
    queue = next(place.folder.glob("shard-00/domains/*/*"))
    whole = queue.read_bytes()
    queue.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    ended = webmill("frontier", "reshard", base / "crawl", "3")
    assert ended.code == 1
    assert queue.name in ended.err or "damaged" in ended.err
    queue.write_bytes(whole)
    assert place.shards() == 2
    assert content_of(base / "crawl") == before
    assert not (place.folder / STAGING).exists()


@needs_killer
@pytest.mark.crash
@pytest.mark.parametrize("points", [POINTS, pytest.param(10_000, marks=pytest.mark.soak)])
def test_killed_at_any_call_it_is_repeated_and_nothing_is_lost(base: Path, points: int) -> None:
    origin = base / "origin" / "crawl"
    filled(origin, shards=2)
    expected = content_of(origin)
    deaths = 0
    with Stage("tests.pipeline.reshard_program", under=base / "to") as stage:
        shutil.copytree(origin.parent, base / "to" / "warm")
        whole = stage.warm_up(base / "to" / "warm" / "crawl", "3")
        assert whole.code == 0, whole.output
        calls = len(whole.calls)
        step = max(1, calls // points)
        for at in [*range(1, calls + 1, step), *range(max(1, calls - min(points, 24)), calls + 1)]:
            root = base / "to" / str(at) / "crawl"
            shutil.copytree(origin.parent, root.parent, dirs_exist_ok=True)
            ended = stage.run(root, "3", at=at)
            if ended.killed:
                deaths += 1
                place = place_at(root)
                if not (place.folder / STAGING).exists():  # before it began, or after it was done
                    assert content_of(root) == expected
                else:
                    again = stage.run(root, "3")
                    assert again.code == 0, again.output
            assert stage.run(root, "3").code == 0
            assert CrawlFound(root / "frontier").shards == 3
            assert content_of(root) == expected
            assert not (root / "frontier" / STAGING).exists()
            shutil.rmtree(root.parent)
    record("frontier reshard", "kill -9 before a durable call", injected=deaths, acknowledged=288, lost=0)
    assert deaths >= min(points, calls) // 2


def test_until_it_is_done_the_crawl_is_refused(base: Path) -> None:
    place = filled(base / "crawl", shards=2)
    layout = place.paths.layout
    write_layout(place.paths, CrawlLayout(2, "crawl", resharding=3))
    for command in (("stats",), ("add", "http://x.com/"), ("export", "--waiting")):
        ended = webmill("frontier", command[0], base / "crawl", *command[1:])
        assert ended.code == 1
        assert f"webmill frontier reshard {layout.parent.parent} 3" in ended.err
    ended = webmill("frontier", "reshard", base / "crawl", "2")  # as it was
    assert ended.code == 0, ended.err
    assert place.shards() == 2


@pytest.mark.parametrize("shards", [1, 3])
def test_a_crawl_that_goes_on_asks_each_remaining_page_once_and_keeps_delays(base: Path, shards: int) -> None:
    root = base / "crawl"
    with tree() as (web, setup):
        crawl_until(root, setup, lambda progress: progress.pages >= 60)
        place = crawl_frontier(root, crawl_backends(), frontier_backend(), name="TEST-2024")
        before = {url for url, visit in visits(root).items() if visit.status == 200}
        assert 0 < len(before) < PAGES
        reshard(place, shards)
        assert {url for url, visit in visits(root).items() if visit.status == 200} == before
        assert crawl_here(root, msgspec.structs.replace(setup, processes=shards)).end == "finished"
        web.log.settle()
        seen = [one for one in seen_by(web.log.visits()) if not one.is_robots]
    assert set(counts(seen)) == {url_of(number) for number in range(PAGES)}
    assert set(counts(seen).values()) == {1}
    assert {url for _, url, _ in captures(root)} >= {url_of(number) for number in range(PAGES)}
    assert min(smallest_gaps(seen, by="domain").values()) >= DELAY * 0.9
