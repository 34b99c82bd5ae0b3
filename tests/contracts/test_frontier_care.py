"""What every frontier promises besides turns: hops of redirects, visits from elsewhere, listings, backups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contracts.frontier_benches import BENCHES, Bench
from tests.contracts.test_frontier import (
    HOLD,
    NOW,
    add,
    claim,
    everything,
    finish,
    settle,
    take,
    urls_of,
    visited,
)
from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    SITEMAP,
    CommitResult,
    Frontier,
    FrontierUpdate,
    LastVisit,
    NotTried,
    Outcome,
    RetryLater,
    RobotsEntry,
    TurnOutcomes,
    VisitDone,
)
from webmill.errors import BadInput, Conflict, Misconfigured
from webmill.model import Link


@pytest.fixture(params=sorted(BENCHES))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = BENCHES[request.param](tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def frontier(bench: Bench) -> Frontier:
    return bench.frontier


# Redirects


@pytest.mark.parametrize("how", ["unused", "later", "lease over", "again"])
def test_redirects_stay_with_a_url_whatever_becomes_of_it(bench: Bench, how: str) -> None:
    url = "https://a.com/1"
    add(bench.frontier, Link(url, 3, 4, 7))
    turn = take(bench.frontier)
    (item,) = turn.items
    assert (item.depth, item.redirects) == (3, 7)
    visit = LastVisit(url=url, time=NOW, depth=item.depth, redirects=item.redirects)
    outcomes: dict[str, list[Outcome]] = {
        "unused": [NotTried(url)],
        "later": [RetryLater(url, NOW, "x")],
        "again": [VisitDone(visit, revisit_due=NOW)],
    }
    if how in outcomes:
        settle(bench.frontier, TurnOutcomes(turn.token, outcomes[how], NOW))
    frontier = bench.reopen() if bench.durable else bench.frontier
    (item,) = take(frontier, now=NOW + HOLD, revisits=True).items
    assert (item.url, item.depth, item.priority, item.redirects) == (url, 3, 4, 7)


def test_a_chain_of_redirects_is_counted_over_restarts(bench: Bench) -> None:
    """Each page leads to another one that nobody knows, and the process dies after every step."""
    add(bench.frontier, "https://a.com/0")
    frontier, now, redirects = bench.frontier, NOW, []
    for number in range(1, 8):
        turn = take(frontier, now=now)
        redirects.append(turn.items[0].redirects)
        found = Link(f"https://{'ab'[number % 2]}.com/{number}", redirects=turn.items[0].redirects + 1)
        step = FrontierUpdate(links=[found], settled=[TurnOutcomes(turn.token, [visited(turn.items[0].url)], now)])
        frontier.commit(step, now=now)
        frontier, now = bench.reopen() if bench.durable else frontier, now + HOLD
    assert redirects == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("is_visited", [False, True], ids=["message", "visit"])
@pytest.mark.parametrize(
    ("priority", "expected"), [(5, (35, 0, 0, 0)), (SITEMAP, (0, 35, 0, 0)), (PAGE_RESOURCE, (0, 0, 2, 4))]
)
def test_the_hops_of_an_earlier_webmill_are_read_by_priority(
    bench: Bench, priority: int, expected: tuple[int, int, int, int], is_visited: bool
) -> None:
    """It had one number for all three, in messages as in visits."""
    url = "https://a.com/1"
    old = {"url": url, "depth": 3, "hops": 35}
    add(bench.frontier, msgspec.convert(old | {"priority": priority}, Link))
    turn = take(bench.frontier)
    if is_visited:
        visit = msgspec.json.decode(msgspec.json.encode(old | {"time": NOW}), type=LastVisit)
        settle(bench.frontier, TurnOutcomes(turn.token, [VisitDone(visit, revisit_due=NOW)], NOW))
        turn = take(bench.frontier, now=NOW + HOLD, revisits=True)
    (item,) = turn.items
    assert (item.redirects, item.sitemap_depth, item.resource_steps, item.resource_share) == expected


# Visits from elsewhere


def test_a_visit_from_elsewhere_is_there_as_if_it_had_been_made_here(bench: Bench) -> None:
    frontier = bench.frontier
    old = LastVisit(url="https://a.com/old", time=NOW - 1e6, status=200, depth=2, etag="x")
    gone = LastVisit(url="https://b.com/gone", time=NOW - 1e5, status=410)
    step = FrontierUpdate(visited=[VisitDone(old, revisit_due=NOW + 10), VisitDone(gone, is_page=False)])
    assert frontier.commit(step, now=NOW) == CommitResult(imported=2)
    assert frontier.commit(step, now=NOW) == CommitResult(known=2)
    if bench.durable:
        frontier = bench.reopen()
    assert add(frontier, old.url, gone.url) == CommitResult(known=2)
    assert list(frontier.visits()) == [old, gone]
    assert (frontier.visit(old.url), frontier.visit(gone.url)) == (old, gone)
    stats = frontier.stats()
    assert (stats.visited, stats.pages, stats.revisits, stats.waiting, stats.domains) == (2, 1, 1, 0, 2)
    assert (frontier.next_turn(), frontier.next_turn(revisits=True)) == (None, NOW + 10)
    assert claim(frontier, now=NOW + 10) == []
    (item,) = take(frontier, now=NOW + 10, revisits=True).items
    assert (item.url, item.depth, item.last) == (old.url, 2, old)


def test_a_visit_from_elsewhere_changes_nothing_of_a_url_that_is_known(frontier: Frontier) -> None:
    add(frontier, "https://a.com/waits", "https://a.com/in-hand", "https://b.com/visited")
    a, b = claim(frontier)
    finish(frontier, b)
    before = frontier.stats(), list(frontier.visits()), Counter(frontier.waiting())
    visits = [visited(url, time=5.0, again=6.0) for url in (*urls_of(a), "https://a.com/in-hand", *urls_of(b))]
    assert frontier.commit(FrontierUpdate(visited=visits), now=NOW) == CommitResult(known=3)
    assert (frontier.stats(), list(frontier.visits()), Counter(frontier.waiting())) == before


def test_within_a_step_a_visit_comes_before_a_link_and_the_first_of_two_counts(frontier: Frontier) -> None:
    visits = [visited("https://a.com/1", status=200), visited("https://a.com/1", status=500)]
    step = FrontierUpdate(links=[Link("https://a.com/1"), Link("https://a.com/2")], visited=visits)
    assert frontier.commit(step, now=NOW) == CommitResult(added=1, known=2, imported=1)
    assert [visit.status for visit in frontier.visits()] == [200]
    assert everything(frontier, now=NOW) == ["https://a.com/2"]


def test_a_visit_from_elsewhere_of_an_excluded_domain_is_kept_and_not_repeated(frontier: Frontier) -> None:
    frontier.exclude(["a.com"])
    step = FrontierUpdate(links=[Link("https://a.com/2")], visited=[visited("https://a.com/1", again=NOW)])
    assert frontier.commit(step, now=NOW) == CommitResult(excluded=1, imported=1)
    assert claim(frontier, now=NOW + 5, revisits=True) == []
    frontier.include(["a.com"])
    assert urls_of(take(frontier, now=NOW + 5, revisits=True)) == ["https://a.com/1"]


@pytest.mark.parametrize("url", ["ftp://a.com/", "https://a.com/\ud800"])
def test_a_visit_from_elsewhere_that_cannot_be_kept_refuses_the_whole_step(frontier: Frontier, url: str) -> None:
    with pytest.raises(BadInput):
        frontier.commit(FrontierUpdate(visited=[visited("https://a.com/"), visited(url)]), now=NOW)
    assert frontier.stats().visited == 0


# Listings


def test_all_that_waits_or_is_in_hand_is_listed_once(bench: Bench) -> None:
    frontier = bench.frontier
    links = [Link(f"https://site{at % 4}.com/{at}", at % 3, at % 10, at % 2) for at in range(60)]
    add(frontier, *links)
    assert Counter(frontier.waiting()) == Counter(links)
    done = fill(frontier, now=NOW)
    frontier.exclude(["site3.com"])
    assert Counter(frontier.waiting()) == Counter(link for link in links if link.url not in done)
    assert len(list(frontier.waiting())) == frontier.stats().waiting + frontier.stats().in_hand
    if bench.durable:
        assert Counter(bench.reopen().waiting()) == Counter(link for link in links if link.url not in done)


def test_a_revisit_in_hand_is_among_the_visits(frontier: Frontier) -> None:
    frontier.commit(FrontierUpdate(visited=[visited("https://a.com/", again=NOW)]), now=NOW)
    take(frontier, revisits=True)
    assert list(frontier.waiting()) == []
    assert [visit.url for visit in frontier.visits()] == ["https://a.com/"]


def test_a_listing_can_be_read_while_the_crawl_goes_on(frontier: Frontier) -> None:
    links = [Link(f"https://a.com/{number}") for number in range(3000)]
    add(frontier, *links)
    listing = iter(frontier.waiting())
    first = next(listing)
    for second in range(40):
        finish(frontier, take(frontier, urls=50, now=NOW + second), now=NOW + second)
    rest = set(listing)
    assert set(links[2000:]) <= rest | {first} <= set(links)


def fill(frontier: Frontier, *, now: float) -> set[str]:
    """Of each domain one URL visited (to be repeated), one to be asked later, one unused, one in hand; the visited."""
    done = set[str]()
    for turn in claim(frontier, urls=4, now=now):
        first, second, third, _ = turn.items
        again = VisitDone(
            LastVisit(url=first.url, time=now, depth=first.depth, redirects=first.redirects), revisit_due=now + 500
        )
        outcomes: list[Outcome] = [again, RetryLater(second.url, now + 300, "x"), NotTried(third.url)]
        settle(frontier, TurnOutcomes(turn.token, outcomes), now=now)
        done.add(first.url)
    return done


# Backups


def answers(frontier: Frontier) -> tuple[Any, ...]:
    """All that a frontier says of itself, once nothing is in hand."""
    notes = frontier.notes(), list(frontier.excluded()), frontier.robots("https://a.com")
    times = frontier.next_turn(), frontier.next_turn(revisits=True)
    return frontier.stats(), list(frontier.visits()), Counter(frontier.waiting()), notes, times


def filled(frontier: Frontier) -> None:
    add(frontier, *(Link(f"https://site{at % 5}.com/{'x' * at}{at}", at % 3, at % 10, at % 2) for at in range(80)))
    fill(frontier, now=NOW)
    robots = [RobotsEntry(origin="https://a.com", fetched=1, expires=2, body=b"x")]
    visits = [visited(f"https://site{at}.com/old", time=NOW - at, again=NOW + 700) for at in range(7)]
    frontier.commit(FrontierUpdate(notes={"n": "v"}, robots=robots, visited=visits), now=NOW)
    frontier.exclude(["site1.com"])


def test_a_backup_is_the_frontier_as_it_was(bench: Bench, tmp_path: Path) -> None:
    filled(bench.frontier)
    for turn in claim(bench.frontier, now=NOW + HOLD, urls=2):
        finish(bench.frontier, turn, now=NOW + HOLD, next_=NOW + HOLD + 9)
    before = answers(bench.frontier)
    bench.frontier.back_up(tmp_path / "backup")
    everything(bench.frontier, now=NOW + 400)
    add(bench.frontier, *(f"https://site{at % 9}.com/new{at}" for at in range(100)), now=NOW + 400)
    bench.frontier.exclude(["site2.com"])
    bench.frontier.compact()
    after = answers(bench.frontier)
    other = bench.restored(tmp_path / "backup")
    assert answers(other.frontier) == before
    links = [Link(visit.url) for visit in other.frontier.visits()] + list(other.frontier.waiting())
    assert add(other.frontier, *links, now=NOW + 400).added == 0
    turns = claim(other.frontier, 3, urls=50, now=NOW + 400, revisits=True)
    assert min(turn.token for turn in turns) > 5
    assert answers(bench.frontier) == after
    other.close()


def test_what_is_in_hand_when_a_backup_is_made_is_offered_again_after_its_hold(bench: Bench, tmp_path: Path) -> None:
    filled(bench.frontier)
    waiting = Counter(bench.frontier.waiting())
    bench.frontier.back_up(tmp_path / "backup")
    turns = [turn.token for turn in claim(bench.frontier, now=NOW + HOLD - 1)]
    other = bench.restored(tmp_path / "backup")
    assert Counter(other.frontier.waiting()) == waiting
    assert other.frontier.stats().in_hand == 0
    assert [turn.token for turn in claim(other.frontier, now=NOW + HOLD - 1)] == turns == []
    found = everything(other.frontier, now=NOW + 400)
    assert set(found) == {link.url for link in waiting if "site1.com" not in link.url}
    other.close()


def test_one_backup_after_the_other_can_be_taken_and_a_folder_that_is_there_is_refused(
    bench: Bench, tmp_path: Path
) -> None:
    filled(bench.frontier)
    for number in range(3):
        add(bench.frontier, *(f"https://b{number}.com/{at}" for at in range(20)))
        bench.frontier.back_up(tmp_path / "backups" / str(number))
    with pytest.raises(Conflict, match="in use"):
        bench.frontier.back_up(tmp_path / "backups" / "1")
    assert sorted(path.name for path in (tmp_path / "backups").iterdir()) == ["0", "1", "2"]
    other = bench.restored(tmp_path / "backups" / "1")
    assert add(other.frontier, "https://b1.com/3", "https://b2.com/3") == CommitResult(added=1, known=1)
    other.close()


def test_a_backup_that_is_damaged_is_refused_and_the_damage_named(bench: Bench, tmp_path: Path) -> None:
    filled(bench.frontier)
    bench.frontier.back_up(tmp_path / "backup")
    files = [path for path in sorted((tmp_path / "backup").rglob("*")) if path.is_file()]
    for path in files:
        whole = path.read_bytes()
        path.unlink()
        path.write_bytes(whole[: len(whole) // 2] + b"\xff\xfe" + whole[len(whole) // 2 + 2 :])
        with pytest.raises(BadInput) as reported:
            bench.restored(tmp_path / "backup")
        assert reported.value.source == str(path)
        path.unlink()
        with pytest.raises((BadInput, Misconfigured), match=path.name):
            bench.restored(tmp_path / "backup")
        path.write_bytes(whole)
    bench.restored(tmp_path / "backup").close()
