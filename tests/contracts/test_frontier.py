"""What every frontier promises (`crawl/frontier/base.py`), on each backend."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.contracts.frontier_benches import BENCHES, Bench
from webmill.crawl.frontier.base import (
    MOST_RANK,
    OLDEST_ONE_IN,
    PAGE_RESOURCE,
    PINNED_RANK,
    SITEMAP,
    ClaimRequest,
    CommitResult,
    DomainTurn,
    Frontier,
    FrontierUpdate,
    LastVisit,
    NotTried,
    Outcome,
    RetryLater,
    RevisitRule,
    RobotsEntry,
    TurnOutcomes,
    VisitDone,
    domain_of,
)
from webmill.errors import BadInput
from webmill.model import Link

NOW = 1_700_000_000.0
LEASE, HOLD = 60.0, 70.0


@pytest.fixture(params=sorted(BENCHES))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = BENCHES[request.param](tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def frontier(bench: Bench) -> Frontier:
    return bench.frontier


@pytest.fixture
def durable(bench: Bench) -> Bench:
    if not bench.durable:
        pytest.skip("nothing outlives it")
    return bench


def add(frontier: Frontier, *links: Link | str, now: float = NOW) -> CommitResult:
    return frontier.commit(
        FrontierUpdate(links=[Link(link) if isinstance(link, str) else link for link in links]), now=now
    )


def claim(
    frontier: Frontier,
    count: int = 10,
    *,
    urls: int = 1,
    now: float = NOW,
    revisits: bool = False,
    requisites: bool = False,
) -> list[DomainTurn]:
    return frontier.claim(
        ClaimRequest(
            turns=count,
            urls_per_turn=urls,
            now=now,
            lease=LEASE,
            hold=HOLD,
            revisits=revisits,
            resources_only=requisites,
        )
    )


def take(frontier: Frontier, *, urls: int = 1, now: float = NOW, revisits: bool = False) -> DomainTurn:
    (turn,) = claim(frontier, 1, urls=urls, now=now, revisits=revisits)
    return turn


def urls_of(turn: DomainTurn) -> list[str]:
    return [item.url for item in turn.items]


def settle(frontier: Frontier, *settled: TurnOutcomes, now: float = NOW) -> CommitResult:
    return frontier.commit(FrontierUpdate(settled=settled), now=now)


def visited(url: str, *, time: float = NOW, again: float | None = None, status: int = 200) -> VisitDone:
    return VisitDone(LastVisit(url=url, time=time, status=status), revisit_due=again)


def finish(frontier: Frontier, turn: DomainTurn, *, now: float = NOW, next_: float | None = None) -> None:
    outcomes: list[Outcome] = [visited(item.url, time=now) for item in turn.items]
    assert not settle(frontier, TurnOutcomes(turn.token, outcomes, now if next_ is None else next_), now=now).lost


def everything(frontier: Frontier, *, now: float) -> list[str]:
    """All that waits, in the order in which it is offered; settled."""
    found = []
    while turns := claim(frontier, 100, urls=3, now=now):
        for turn in turns:
            found += urls_of(turn)
            finish(frontier, turn, now=now)
    return found


# What is added


def test_links_are_offered_first_in_first_out(frontier: Frontier) -> None:
    links = [f"https://example.com/{number}" for number in (3, 1, 2, 9, 4)]
    assert add(frontier, *links) == CommitResult(added=5)
    assert urls_of(take(frontier, urls=10)) == links


def test_a_link_that_is_known_is_counted_and_not_taken(frontier: Frontier) -> None:
    add(frontier, "https://example.com/a")
    assert add(frontier, "https://example.com/a", "https://example.com/b", "https://example.com/b") == CommitResult(
        1, 2
    )
    assert urls_of(take(frontier, urls=10)) == ["https://example.com/a", "https://example.com/b"]


def test_a_link_is_known_in_hand_and_when_it_was_visited(frontier: Frontier) -> None:
    add(frontier, "https://example.com/a")
    turn = take(frontier)
    assert add(frontier, "https://example.com/a").known == 1
    finish(frontier, turn)
    assert add(frontier, "https://example.com/a").known == 1
    assert frontier.stats().waiting == 0


def test_the_lower_priority_number_comes_first(frontier: Frontier) -> None:
    priorities = [5, 9, 0, 5, 0, 7, 1]
    add(frontier, *(Link(f"https://example.com/{at}", 0, priority) for at, priority in enumerate(priorities)))
    turn = take(frontier, urls=5)
    assert [(item.priority, item.url[-1]) for item in turn.items] == [(0, "2"), (0, "4"), (1, "6"), (5, "0"), (5, "3")]


def test_a_link_of_high_priority_overtakes_those_that_wait(frontier: Frontier) -> None:
    add(frontier, *(f"https://example.com/{number}" for number in range(5)))
    finish(frontier, take(frontier, urls=2))
    add(frontier, Link("https://example.com/now", 1, 0))
    assert urls_of(take(frontier, urls=2)) == ["https://example.com/now", "https://example.com/2"]


def test_depth_and_priority_come_back_with_the_url(frontier: Frontier) -> None:
    add(frontier, Link("https://example.com/", 3, 7))
    (item,) = take(frontier).items
    assert (item.url, item.depth, item.priority, item.attempts, item.last) == ("https://example.com/", 3, 7, 1, None)


@pytest.mark.parametrize(
    "link",
    [
        Link("https://a.com/", 0, 10),
        Link("https://a.com/", 0, -2),
        Link("https://a.com/", -1),
        Link("https://a.com/", 1 << 24),
        Link("https://a.com/", redirects=256),
        Link("https://a.com/", priority=SITEMAP, sitemap_depth=256),
        Link("https://a.com/", priority=PAGE_RESOURCE, resource_steps=16),
        Link("ftp://a.com/"),
    ],
    ids=[
        "priority 10",
        "priority -2",
        "depth -1",
        "depth 2^24",
        "256 redirects",
        "sitemap depth 256",
        "16 resource steps",
        "not http",
    ],
)
def test_a_link_that_cannot_be_kept_refuses_the_whole_step(frontier: Frontier, link: Link) -> None:
    with pytest.raises(BadInput):
        add(frontier, "https://a.com/good", link)
    assert frontier.stats().waiting == 0
    assert add(frontier, "https://a.com/good").added == 1


def test_a_lone_surrogate_is_refused(frontier: Frontier) -> None:
    with pytest.raises(BadInput):
        add(frontier, "https://a.com/\ud800")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tails=st.lists(TEXTS, unique=True, max_size=8))
@example(
    tails=["|", "\n", "\r\n", "\0", "'\"", "\u2028", "a b", "\t1\t2", "%00", "../../etc", "\U0001f600", "x" * 8000]
)
@example(tails=["y" * 65536])
def test_any_text_of_a_url_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, tails: list[str]) -> None:
    for name, make in BENCHES.items():
        bench = make(tmp_path_factory.mktemp(name))
        links = [f"https://example.com/{tail}" for tail in tails]
        assert add(bench.frontier, *links).added == len(links)
        if bench.durable:
            bench.reopen()
        assert add(bench.frontier, *links).known == len(links)
        assert everything(bench.frontier, now=NOW) == links
        assert [bench.frontier.visit(link) is not None for link in links] == [True] * len(links)
        bench.close()


def test_hosts_that_look_like_paths_stay_apart(frontier: Frontier, tmp_path: Path) -> None:
    hosts = ["..", "con", "a" * 255, "A.com", "a.com", "-", "0", "[::1]", "xn--bcher-kva.example", "%2e%2e"]
    add(frontier, *(f"https://{host}/" for host in hosts))
    assert {turn.domain for turn in claim(frontier, 20)} == {domain_of(f"https://{host}/") for host in hosts}
    assert {path.name for path in tmp_path.iterdir()} <= {"frontier"}


# Turns


def test_a_domain_has_one_turn_at_a_time(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://www.a.com/2", "https://b.com/1")
    turns = claim(frontier)
    assert [turn.domain for turn in turns] == ["a.com", "b.com"]
    assert claim(frontier, now=NOW + LEASE - 1) == []
    assert len({turn.token for turn in turns}) == 2
    assert turns[0].until == NOW + LEASE


def test_domains_come_in_the_order_in_which_they_may_be_asked(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2", "https://b.com/1", "https://b.com/2", "https://c.com/1")
    a, b = claim(frontier, 2)
    finish(frontier, b, next_=NOW + 5)
    finish(frontier, a, next_=NOW + 3)
    add(frontier, "https://d.com/", now=NOW + 4)
    assert [turn.domain for turn in claim(frontier, now=NOW + 10)] == ["c.com", "a.com", "d.com", "b.com"]


def names_of(turns: list[DomainTurn]) -> list[str]:
    return [turn.domain for turn in turns]


def ranked_claim(frontier: Frontier, count: int = 10, *, now: float = NOW, ranks_from: int = 1) -> list[DomainTurn]:
    return frontier.claim(
        ClaimRequest(turns=count, urls_per_turn=1, now=now, lease=LEASE, hold=HOLD, ranks_from=ranks_from)
    )


def test_domains_of_a_higher_rank_come_first(frontier: Frontier) -> None:
    add(frontier, *(f"https://{name}.com/" for name in "abcd"))
    ranks = {"b.com": 1, "d.com": 3, "never.com": 5}
    frontier.commit(FrontierUpdate(links=[Link("https://e.com/")], ranks={**ranks, "e.com": 2}), now=NOW + 1)
    turns = ranked_claim(frontier, 4, now=NOW + 1)
    assert [(turn.domain, turn.rank) for turn in turns] == [("d.com", 3), ("e.com", 2), ("b.com", 1), ("a.com", 0)]
    assert names_of(ranked_claim(frontier, now=NOW + 1)) == ["c.com"]
    assert not frontier.stats().domains_waiting  # and a domain that nothing is known of was not made


def test_ranks_that_a_crawl_finds_count_for_those_who_ask_for_them(frontier: Frontier) -> None:
    add(frontier, *(f"https://{name}.com/" for name in "abcd"))
    frontier.commit(FrontierUpdate(ranks={"c.com": 5, "d.com": 2}), now=NOW)
    assert names_of(ranked_claim(frontier, 1, ranks_from=3)) == ["c.com"]
    assert names_of(claim(frontier)) == ["a.com", "b.com", "d.com"]


def test_a_rank_that_a_person_gives_counts_in_every_order_and_stays(durable: Bench) -> None:
    frontier = durable.frontier
    add(frontier, *(f"https://{name}.com/" for name in "abc"))
    assert frontier.prioritise(["c.com", "later.com", "c.com"], PINNED_RANK) == 2
    assert frontier.prioritise(["c.com"], PINNED_RANK) == 0
    frontier.commit(FrontierUpdate(ranks={"c.com": 1}), now=NOW)
    frontier = durable.reopen()
    add(frontier, "https://later.com/", now=NOW + 1)
    turns = claim(frontier, now=NOW + 1)
    assert names_of(turns) == ["c.com", "later.com", "a.com", "b.com"]
    assert frontier.prioritise(["c.com"], 0) == 1
    with pytest.raises(BadInput, match="no rank"):
        frontier.prioritise(["a.com"], MOST_RANK + 1)


def test_a_rank_shortens_no_wait(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2")
    finish(frontier, take(frontier), next_=NOW + 70)
    frontier.prioritise(["a.com"], MOST_RANK)
    assert not claim(frontier, now=NOW + 69)
    assert frontier.next_turn() == NOW + 70
    assert names_of(claim(frontier, now=NOW + 70)) == ["a.com"]


def test_domains_of_a_low_rank_do_not_starve(frontier: Frontier) -> None:
    add(frontier, "https://low.com/", *(f"https://a.com/{number}" for number in range(40)), now=NOW)
    frontier.prioritise(["a.com"], PINNED_RANK)
    asked = []
    for step in range(OLDEST_ONE_IN):
        (turn,) = ranked_claim(frontier, 1, now=NOW + step)
        finish(frontier, turn, now=NOW + step)
        asked.append(turn.domain)
    assert asked.count("low.com") == 1


def test_ranks_come_before_times_for_revisits_too(frontier: Frontier) -> None:
    visits = [visited(f"https://{name}.com/", again=NOW + at) for at, name in enumerate("abc")]
    frontier.commit(FrontierUpdate(visited=visits, ranks={"c.com": 1}), now=NOW)
    request = ClaimRequest(turns=2, urls_per_turn=1, now=NOW + 9, lease=LEASE, hold=HOLD, revisits=True, ranks_from=1)
    assert names_of(frontier.claim(request)) == ["c.com", "a.com"]


def test_a_large_domain_does_not_starve_others(frontier: Frontier) -> None:
    add(frontier, *(f"https://large.com/{number}" for number in range(50)), "https://small.com/")
    seen = []
    for second in range(3):
        (turn,) = claim(frontier, 1, urls=5, now=NOW + second)
        seen.append(turn.domain)
        finish(frontier, turn, now=NOW + second, next_=NOW + second + 1)
    assert seen == ["large.com", "small.com", "large.com"]


def test_a_domain_is_not_asked_again_before_its_next_time(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2")
    finish(frontier, take(frontier), next_=NOW + 30)
    assert frontier.next_turn() == NOW + 30
    assert claim(frontier, now=NOW + 29.9) == []
    assert urls_of(take(frontier, now=NOW + 30)) == ["https://a.com/2"]


def test_a_link_that_comes_meanwhile_does_not_shorten_the_wait(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1")
    finish(frontier, take(frontier), next_=NOW + 30)
    add(frontier, "https://a.com/2", now=NOW + 1)
    assert claim(frontier, now=NOW + 29) == []
    assert urls_of(take(frontier, now=NOW + 30)) == ["https://a.com/2"]


def test_a_link_for_a_domain_in_hand_waits_for_the_turn_to_end(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1")
    turn = take(frontier)
    add(frontier, "https://a.com/2")
    assert claim(frontier) == []
    finish(frontier, turn)
    assert urls_of(take(frontier)) == ["https://a.com/2"]


def test_the_hold_lasts_when_the_turn_ends_with_its_last_url(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2", "https://a.com/3")
    turn = take(frontier, urls=2)
    settle(frontier, TurnOutcomes(turn.token, [visited("https://a.com/1")]))
    assert frontier.stats().in_hand == 1
    assert frontier.stats().domains_in_hand == 1
    settle(frontier, TurnOutcomes(turn.token, [visited("https://a.com/2")]))
    assert frontier.stats().domains_in_hand == 0
    assert claim(frontier, now=NOW + HOLD - 1) == []
    assert urls_of(take(frontier, now=NOW + HOLD)) == ["https://a.com/3"]


def test_what_has_no_outcome_when_the_turn_ends_is_unused(frontier: Frontier) -> None:
    add(frontier, *(f"https://a.com/{number}" for number in range(4)))
    turn = take(frontier, urls=3)
    settle(frontier, TurnOutcomes(turn.token, [visited("https://a.com/1")], NOW))
    items = take(frontier, urls=5).items
    assert [(item.url[-1], item.attempts) for item in items] == [("0", 1), ("2", 1), ("3", 1)]


def test_unused_comes_back_at_its_old_place_and_costs_no_attempt(frontier: Frontier) -> None:
    add(frontier, *(f"https://a.com/{number}" for number in range(5)))
    turn = take(frontier, urls=3)
    outcomes: list[Outcome] = [
        NotTried("https://a.com/2"),
        NotTried("https://a.com/0", NOW + 5),
        visited("https://a.com/1"),
    ]
    settle(frontier, TurnOutcomes(turn.token, outcomes, NOW))
    turn = take(frontier, urls=2)
    assert [(item.url[-1], item.attempts) for item in turn.items] == [("2", 1), ("3", 1)]
    settle(frontier, TurnOutcomes(turn.token, [], NOW))
    turn = take(frontier, urls=9, now=NOW + 5)
    assert [item.url[-1] for item in turn.items] == ["0", "2", "3", "4"]


def test_later_is_offered_when_its_time_has_come_with_one_attempt_more(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2")
    turn = take(frontier)
    settle(frontier, TurnOutcomes(turn.token, [RetryLater("https://a.com/1", NOW + 50, "timeout")], NOW))
    turn = take(frontier, urls=5)
    assert urls_of(turn) == ["https://a.com/2"]
    finish(frontier, turn)
    assert frontier.stats().waiting == 1
    assert frontier.next_turn() == NOW + 50
    assert claim(frontier, now=NOW + 49) == []
    (item,) = take(frontier, now=NOW + 50).items
    assert (item.url, item.attempts) == ("https://a.com/1", 2)


def test_an_outcome_for_a_url_that_is_not_in_hand_changes_nothing(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2")
    turn = take(frontier)
    outcomes: list[Outcome] = [visited("https://a.com/2"), visited("https://a.com/never"), visited("https://a.com/1")]
    settle(frontier, TurnOutcomes(turn.token, [*outcomes, RetryLater("https://a.com/1", 0.0, "again")], NOW))
    assert (frontier.stats().visited, frontier.stats().waiting) == (1, 1)
    assert frontier.visit("https://a.com/2") is None


def test_one_step_may_settle_a_turn_in_parts(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2")
    turn = take(frontier, urls=2)
    parts = [TurnOutcomes(turn.token, [visited(url)]) for url in urls_of(turn)]
    assert settle(frontier, *parts, TurnOutcomes(turn.token, [], NOW)) == CommitResult()
    assert frontier.stats().visited == 2


# Leases


def test_a_lease_that_is_over_offers_its_urls_again_in_their_order(frontier: Frontier) -> None:
    add(frontier, *(f"https://a.com/{number}" for number in range(5)))
    turn = take(frontier, urls=3)
    settle(frontier, TurnOutcomes(turn.token, [visited("https://a.com/1")]))
    again = take(frontier, urls=9, now=NOW + HOLD)
    assert [item.url[-1] for item in again.items] == ["0", "2", "3", "4"]
    assert [item.attempts for item in again.items] == [1, 1, 1, 1]
    assert frontier.stats().expired == 1


def test_the_hold_outlasts_a_shorter_lease(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1")
    take(frontier)
    assert frontier.next_turn() == NOW + HOLD
    assert claim(frontier, now=NOW + LEASE + 1) == []
    assert len(claim(frontier, now=NOW + HOLD)) == 1


def test_a_lease_outlasts_a_shorter_hold(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1")
    frontier.claim(ClaimRequest(turns=1, urls_per_turn=1, now=NOW, lease=60, hold=1))
    assert frontier.next_turn() == NOW + 60
    assert claim(frontier, now=NOW + 59) == []
    assert len(claim(frontier, now=NOW + 60)) == 1


def test_an_outcome_after_the_lease_changes_nothing_and_is_told(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1")
    turn = take(frontier)
    late = TurnOutcomes(turn.token, [visited("https://a.com/1")], NOW + 500)
    assert settle(frontier, late, now=NOW + LEASE).lost == {turn.token}
    again = take(frontier, now=NOW + HOLD)
    assert urls_of(again) == ["https://a.com/1"]
    assert settle(frontier, late, now=NOW + HOLD).lost == {turn.token}
    assert frontier.visit("https://a.com/1") is None
    finish(frontier, again, now=NOW + HOLD)
    assert settle(frontier, late, TurnOutcomes(999, []), now=NOW + HOLD).lost == {turn.token, 999}
    assert frontier.stats().pages == 1


def test_the_rest_of_a_step_with_a_lost_token_counts(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://b.com/1")
    a, b = claim(frontier)
    frontier.extend([b.token], now=NOW + 1, lease=LEASE)
    step = FrontierUpdate(
        settled=[TurnOutcomes(turn.token, [visited(turn.items[0].url)], NOW) for turn in (a, b)],
        links=[Link("https://c.com/")],
        notes={"k": "v"},
    )
    assert frontier.commit(step, now=NOW + LEASE) == CommitResult(1, 0, 0, frozenset({a.token}))
    assert frontier.visit("https://b.com/1") is not None
    assert frontier.notes() == {"k": "v"}


def test_a_lease_can_be_extended_while_it_lasts(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://b.com/1")
    a, b = claim(frontier)
    assert frontier.extend([a.token, 77], now=NOW + 50, lease=LEASE) == {77}
    assert frontier.extend([b.token], now=NOW + LEASE, lease=LEASE) == {b.token}
    done = settle(frontier, *(TurnOutcomes(turn.token, [], NOW + 80) for turn in (a, b)), now=NOW + 70)
    assert done.lost == {b.token}


def test_tokens_are_never_given_twice(durable: Bench) -> None:
    add(durable.frontier, "https://a.com/1", "https://a.com/2")
    first = take(durable.frontier)
    finish(durable.frontier, first)
    second = take(durable.reopen())
    assert second.token > first.token


# What was visited


def test_a_visit_is_found_by_its_url_and_by_its_time(frontier: Frontier) -> None:
    urls = [f"https://site{number}.com/" for number in range(30)]
    add(frontier, *urls)
    full = {}
    for number, turn in enumerate(claim(frontier, 50)):
        visit = LastVisit(
            url=turn.items[0].url,
            time=NOW + 100 - number,
            status=200,
            depth=2,
            filename="crawl-data/x.warc.gz",
            offset=5_000_000_000,
            length=12,
            record_id="<urn:uuid:1>",
            digest="sha1:X",
            etag='"é"',
            modified="yesterday",
            interval=3.5,
            error="timeout: connect",
        )
        full[visit.url] = visit
        settle(frontier, TurnOutcomes(turn.token, [VisitDone(visit)]))
    assert all(frontier.visit(url) == full[url] for url in urls)
    assert frontier.visit("https://site0.com/other") is None
    times = [visit.time for visit in frontier.visits()]
    assert times == sorted(times)
    assert len(times) == 30
    assert [visit.time for visit in frontier.visits(since=NOW + 80, until=NOW + 83)] == [NOW + 80, NOW + 81, NOW + 82]


def test_what_is_no_page_is_visited_but_not_counted_as_a_page(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2")
    turn = take(frontier, urls=2)
    first, second = (LastVisit(url=url, time=NOW, error="robots: disallowed") for url in urls_of(turn))
    settle(frontier, TurnOutcomes(turn.token, [VisitDone(first, is_page=False), VisitDone(second)]))
    assert (frontier.stats().visited, frontier.stats().pages) == (2, 1)


def test_a_revisit_is_offered_only_to_those_who_ask_for_it(frontier: Frontier) -> None:
    add(frontier, Link("https://a.com/1", 4, 3))
    turn = take(frontier)
    done = VisitDone(LastVisit(url="https://a.com/1", time=NOW, depth=4, etag="x"), revisit_due=NOW + 100)
    settle(frontier, TurnOutcomes(turn.token, [done], NOW))
    assert frontier.stats().revisits == 1
    assert frontier.next_turn() is None
    assert frontier.next_turn(revisits=True) == NOW + 100
    assert claim(frontier, now=NOW + 200) == []
    assert claim(frontier, now=NOW + 99, revisits=True) == []
    (item,) = take(frontier, now=NOW + 100, revisits=True).items
    assert (item.url, item.depth, item.priority, item.attempts, item.last) == ("https://a.com/1", 4, 3, 1, done.visit)
    assert (frontier.stats().in_hand, frontier.stats().visited, frontier.stats().revisits) == (1, 0, 0)


def test_a_second_visit_takes_the_place_of_the_first(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1")
    settle(frontier, TurnOutcomes(take(frontier).token, [visited("https://a.com/1", again=NOW + 10)], NOW))
    turn = take(frontier, now=NOW + 10, revisits=True)
    settle(
        frontier, TurnOutcomes(turn.token, [visited("https://a.com/1", time=NOW + 10, status=304)], NOW), now=NOW + 10
    )
    assert [(visit.status, visit.time) for visit in frontier.visits()] == [(304, NOW + 10)]
    stats = frontier.stats()
    assert (stats.visited, stats.pages, stats.revisits, stats.waiting, stats.in_hand) == (1, 2, 0, 0, 0)
    assert claim(frontier, now=NOW + 1000, revisits=True) == []


def visit_all(frontier: Frontier, *urls: str, again: float | None) -> None:
    add(frontier, *urls)
    for turn in claim(frontier, urls=len(urls)):
        settle(frontier, TurnOutcomes(turn.token, [visited(item.url, again=again) for item in turn.items], NOW))


def test_a_run_brings_revisits_forward_by_its_rule(frontier: Frontier) -> None:
    visit_all(frontier, "https://a.com/1", "https://b.com/2", again=NOW + 100)
    visit_all(frontier, "https://c.com/never", again=None)
    rule = RevisitRule(shortest=100, longest=700, slack=75)
    assert frontier.bring_forward(rule, now=NOW + 24) == 0
    assert claim(frontier, now=NOW + 24, revisits=True) == []
    assert frontier.bring_forward(rule, now=NOW + 25) == 2
    assert frontier.bring_forward(rule, now=NOW + 25) == 2, "they are due"
    assert frontier.next_turn(revisits=True) == NOW + 25
    turns = claim(frontier, now=NOW + 25, revisits=True)
    assert [urls_of(turn) for turn in turns] == [["https://a.com/1"], ["https://b.com/2"]]
    for turn in turns:
        settle(frontier, TurnOutcomes(turn.token, [visited(turn.items[0].url, time=NOW + 25, again=NOW + 5000)], NOW))
    assert frontier.bring_forward(rule, now=NOW + 25 + 624) == 0
    assert frontier.bring_forward(rule, now=NOW + 25 + 625) == 2, "not later than the longest interval"


@pytest.mark.parametrize(
    "alone",
    [
        LastVisit(url="https://a.com/alone", time=NOW, interval=800, status=404, gone=True),
        LastVisit(url="https://a.com/alone", time=NOW, interval=800, error="robots"),
        LastVisit(url="https://a.com/alone", time=NOW, interval=800, error="excluded"),
    ],
)
def test_a_page_that_is_left_alone_is_brought_forward_after_its_own_interval(
    frontier: Frontier, alone: LastVisit
) -> None:
    add(frontier, alone.url)
    (turn,) = claim(frontier)
    settle(frontier, TurnOutcomes(turn.token, [VisitDone(alone, revisit_due=NOW + 9000, is_page=False)], NOW))
    rule = RevisitRule(shortest=100, longest=100, slack=75)
    assert frontier.bring_forward(rule, now=NOW + 724) == 0
    assert frontier.bring_forward(rule, now=NOW + 725) == 1


def test_excluded_domains_have_no_due_revisits(frontier: Frontier) -> None:
    visit_all(frontier, "https://a.com/1", "https://b.com/2", again=NOW + 10)
    frontier.exclude(["a.com"])
    assert frontier.bring_forward(RevisitRule(1, 1, 0), now=NOW + 10) == 1
    assert [turn.domain for turn in claim(frontier, now=NOW + 10, revisits=True)] == ["b.com"]


@pytest.mark.parametrize("again", [NOW + 1000, None])
def test_what_failed_can_be_asked_for_again(frontier: Frontier, again: float | None) -> None:
    urls = ["https://a.com/failed", "https://a.com/archived", "https://a.com/in-hand", "https://a.com/waits"]
    add(frontier, *urls[:3])
    (turn,) = claim(frontier, urls=3)
    failed = VisitDone(LastVisit(url=urls[0], time=NOW, error="timeout", depth=2), revisit_due=again, is_page=False)
    archived = VisitDone(LastVisit(url=urls[1], time=NOW, status=200, record_id="<1>"), revisit_due=again)
    settle(frontier, TurnOutcomes(turn.token, [failed, archived]))
    add(frontier, urls[3])
    assert frontier.retry([*urls, "https://a.com/unknown"]) == 2
    assert frontier.retry(urls) == 1, "one waits now"
    assert frontier.visit(urls[0]) is None
    assert [visit.url for visit in frontier.visits()] == [urls[1]]
    settle(frontier, TurnOutcomes(turn.token, [visited(urls[2])], NOW))
    stats = frontier.stats()
    assert (stats.waiting, stats.visited, stats.revisits) == (2, 2, 1)
    (turn,) = claim(frontier, urls=5, revisits=True)
    assert {item.url: item.last for item in turn.items} == {
        urls[0]: None,
        urls[1]: archived.visit,
        urls[3]: None,
    }
    assert add(frontier, *urls).known == 4
    finish(frontier, turn)
    assert sorted(visit.url for visit in frontier.visits()) == sorted(urls)


@pytest.mark.parametrize("again", [NOW + 1000, None])
def test_news_of_a_known_page_makes_it_due(frontier: Frontier, again: float | None) -> None:
    visit_all(frontier, "https://a.com/1", "https://b.com/2", again=again)
    add(frontier, "https://c.com/waits")
    news = [Link(url, modified=NOW) for url in ("https://b.com/2", "https://c.com/waits")]
    assert frontier.commit(FrontierUpdate(links=news), now=NOW + 5) == CommitResult(known=2)
    news = [Link(url, modified=NOW + 1) for url in ("https://b.com/2", "https://c.com/waits", "https://d.com/new")]
    result = frontier.commit(FrontierUpdate(links=news), now=NOW + 5)
    assert (result.added, result.known, result.brought_forward) == (1, 2, 1)
    assert frontier.stats().revisits == (1 if again is None else 2)
    turns = claim(frontier, now=NOW + 5, revisits=True)
    assert {url: turn.items[0].last for turn in turns for url in urls_of(turn)} == {
        "https://b.com/2": visited("https://b.com/2").visit,
        "https://c.com/waits": None,
        "https://d.com/new": None,
    }


@pytest.mark.parametrize("how", ["later", "unused", "lease over"])
def test_a_revisit_that_did_not_come_about_stays_a_revisit(frontier: Frontier, how: str) -> None:
    add(frontier, "https://a.com/1")
    settle(frontier, TurnOutcomes(take(frontier).token, [visited("https://a.com/1", again=NOW + 10)], NOW))
    turn = take(frontier, now=NOW + 10, revisits=True)
    outcomes: dict[str, list[Outcome]] = {
        "later": [RetryLater("https://a.com/1", NOW + 300, "x")],
        "unused": [NotTried("https://a.com/1", NOW + 300)],
    }
    if how in outcomes:
        settle(frontier, TurnOutcomes(turn.token, outcomes[how], NOW), now=NOW + 10)
        assert frontier.next_turn(revisits=True) == NOW + 300
    assert claim(frontier, now=NOW + 300) == []
    (item,) = take(frontier, now=NOW + 300, revisits=True).items
    assert item.attempts == (2 if how == "later" else 1)
    assert item.last is not None


def test_order_within_a_priority_is_retries_then_revisits_then_new_ones(frontier: Frontier) -> None:
    links = {"retry": 5, "old": 5, "older": 5, "new": 5, "urgent": 4}
    add(frontier, *(Link(f"https://a.com/{name}", 0, priority) for name, priority in links.items() if name != "new"))
    turn = take(frontier, urls=9)
    outcomes: list[Outcome] = [
        visited("https://a.com/old", again=NOW + 6),
        visited("https://a.com/older", again=NOW + 5),
        visited("https://a.com/urgent", again=NOW + 7),
        RetryLater("https://a.com/retry", NOW + 8, "x"),
    ]
    settle(frontier, TurnOutcomes(turn.token, outcomes, NOW))
    add(frontier, "https://a.com/new")
    found = [item.url.rpartition("/")[2] for item in take(frontier, urls=9, now=NOW + 9, revisits=True).items]
    assert found == ["urgent", "retry", "older", "old", "new"]


def test_revisits_are_first_where_that_is_asked_for(frontier: Frontier) -> None:
    visit_all(frontier, "https://a.com/old", "https://a.com/later", again=NOW + 5)
    add(frontier, Link("https://a.com/urgent", 0, 3))
    request = ClaimRequest(
        turns=9, urls_per_turn=2, now=NOW + 9, lease=LEASE, hold=HOLD, revisits=True, revisits_first=True
    )
    (turn,) = frontier.claim(request)
    assert set(urls_of(turn)) == {"https://a.com/old", "https://a.com/later"}


# What else is kept


def test_an_excluded_domain_is_neither_taken_nor_offered(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://b.com/1")
    assert frontier.exclude(["a.com", "c.com"]) == 2
    assert frontier.exclude(["a.com", "d.com"]) == 1
    assert list(frontier.excluded()) == ["a.com", "c.com", "d.com"]
    links = ["https://a.com/2", "https://www.c.com/1", "https://b.com/2", "https://a.com/2"]
    assert add(frontier, *links) == CommitResult(1, 0, 3)
    assert [turn.domain for turn in claim(frontier)] == ["b.com"]
    assert frontier.include(["a.com", "c.com", "never.com"]) == 2
    assert [turn.domain for turn in claim(frontier)] == ["a.com"]
    assert add(frontier, "https://a.com/2") == CommitResult(1)


def test_a_turn_of_a_domain_that_is_excluded_meanwhile_can_be_settled(frontier: Frontier) -> None:
    add(frontier, "https://a.com/1", "https://a.com/2")
    turn = take(frontier)
    frontier.exclude(["a.com"])
    finish(frontier, turn)
    assert claim(frontier, now=NOW + 1000) == []
    assert frontier.next_turn() is None
    assert (frontier.stats().waiting, frontier.stats().visited) == (1, 1)


def test_robots_are_kept_by_origin(frontier: Frontier) -> None:
    first = RobotsEntry(origin="https://a.com", fetched=NOW, expires=NOW + 5, status=200, body=b"User-agent: *\x00\xff")
    frontier.commit(FrontierUpdate(robots=[first]), now=NOW)
    assert frontier.robots("https://a.com") == first
    assert frontier.robots("http://a.com") is None
    second = RobotsEntry(origin="https://a.com", fetched=NOW + 9, expires=NOW + 10, failing_since=NOW)
    frontier.commit(FrontierUpdate(robots=[second]), now=NOW)
    assert frontier.robots("https://a.com") == second


def test_notes_are_kept_under_their_names(frontier: Frontier) -> None:
    frontier.commit(FrontierUpdate(notes={"a": "1", "b": "2"}), now=NOW)
    frontier.commit(FrontierUpdate(notes={"b": "é\n|"}), now=NOW)
    assert frontier.notes() == {"a": "1", "b": "é\n|"}


def test_stats_count_every_url_once(frontier: Frontier) -> None:
    add(frontier, *(f"https://site{number % 3}.com/{number}" for number in range(12)))
    a, b, c = claim(frontier, urls=2)
    settle(
        frontier,
        TurnOutcomes(a.token, [visited(a.items[0].url, again=NOW + 9), RetryLater(a.items[1].url, NOW, "x")], NOW),
    )
    settle(frontier, TurnOutcomes(b.token, [visited(b.items[0].url)]))
    stats = frontier.stats()
    assert (stats.waiting, stats.in_hand, stats.visited, stats.revisits) == (7, 3, 2, 1)
    assert (stats.domains, stats.domains_waiting, stats.domains_in_hand) == (3, 1, 2)
    assert c.items


def test_an_empty_frontier_has_no_next_turn(frontier: Frontier) -> None:
    assert frontier.next_turn() is None
    assert frontier.next_turn(revisits=True) is None
    assert claim(frontier, revisits=True) == []
    assert frontier.commit(FrontierUpdate(), now=NOW) == CommitResult()
    assert list(frontier.visits()) == []


def test_next_turn_tells_how_long_a_domain_has_been_due(frontier: Frontier) -> None:
    add(frontier, "https://a.com/", now=NOW + 3)
    add(frontier, "https://b.com/", now=NOW + 1)
    assert frontier.next_turn() == NOW + 1


# Over restarts


def test_all_is_there_after_a_restart(durable: Bench) -> None:
    frontier = durable.frontier
    add(frontier, *(Link(f"https://site{number % 4}.com/{number}", number, number % 10) for number in range(40)))
    turns = claim(frontier, urls=2)
    frontier.commit(FrontierUpdate(notes={"n": "v"}, robots=[RobotsEntry(origin="o", fetched=1, expires=2)]), now=NOW)
    for turn in turns:
        outcomes: list[Outcome] = [
            visited(turn.items[0].url, again=NOW + 500),
            RetryLater(turn.items[1].url, NOW + 300, "x"),
        ]
        settle(frontier, TurnOutcomes(turn.token, outcomes, NOW + 7))
    frontier.exclude(["site0.com"])
    before = frontier.stats(), list(frontier.visits()), frontier.next_turn(), frontier.next_turn(revisits=True)
    frontier = durable.reopen()
    assert (
        frontier.stats(),
        list(frontier.visits()),
        frontier.next_turn(),
        frontier.next_turn(revisits=True),
    ) == before
    assert (frontier.notes(), list(frontier.excluded())) == ({"n": "v"}, ["site0.com"])
    assert frontier.robots("o") == RobotsEntry(origin="o", fetched=1, expires=2)
    assert claim(frontier, now=NOW + 6) == []
    assert len(everything(frontier, now=NOW + 400)) == 27


def test_a_restart_does_not_ask_a_domain_before_its_hold(durable: Bench) -> None:
    add(durable.frontier, "https://a.com/1")
    take(durable.frontier)
    frontier = durable.reopen()
    assert claim(frontier, now=NOW + HOLD - 1) == []
    assert urls_of(take(frontier, now=NOW + HOLD)) == ["https://a.com/1"]


def test_fifty_workers_get_every_url_once(frontier: Frontier) -> None:
    """50 logical workers on 100 domains with 2 URLs each, in turns that a fixed die chooses."""
    links = [f"https://site{number % 100}.com/{number}" for number in range(200)]
    add(frontier, *links)
    dice, now, got = random.Random(5), NOW, list[str]()
    hands: dict[int, DomainTurn] = {}
    while len(got) < 200 or hands:
        worker = dice.randrange(50)
        now += 1
        if turn := hands.pop(worker, None):
            finish(frontier, turn, now=now, next_=now + dice.randrange(20))
        elif turns := frontier.claim(ClaimRequest(turns=1, urls_per_turn=1, now=now, lease=1e6, hold=1e6)):
            hands[worker] = turns[0]
            got += urls_of(turns[0])
    assert sorted(got) == sorted(links)
    assert frontier.stats().visited == 200


def test_threads_get_every_url_once(frontier: Frontier) -> None:
    links = [f"https://site{number % 40}.com/{number}" for number in range(160)]
    add(frontier, *links)
    got: list[str] = []

    def work() -> None:
        while turns := claim(frontier, 3, urls=2, now=NOW):
            for turn in turns:
                got.extend(urls_of(turn))
                finish(frontier, turn, now=NOW)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(got) == sorted(links)


def test_compaction_changes_no_answer(bench: Bench) -> None:
    frontier = bench.frontier
    links = [
        Link(f"https://site{number % 3}.com/{'x' * (number % 50)}{number}", 0, number % 2) for number in range(200)
    ]
    for start in range(0, 200, 20):
        add(frontier, *links[start : start + 20])
    for turn in claim(frontier, urls=30):
        finish(frontier, turn)
    frontier.compact()
    if bench.durable:
        frontier = bench.reopen()
    assert add(frontier, *links).known == 200
    rest = everything(frontier, now=NOW + 1)
    visits = [visit.url for visit in frontier.visits()]
    assert len(rest) == 110
    assert sorted(visits) == sorted(link.url for link in links)


# --- requisites ---


def test_what_belongs_to_a_page_comes_before_all_else_and_can_be_claimed_alone(frontier: Frontier) -> None:
    add(frontier, Link("https://a.com/first", priority=0), Link("https://b.com/page"))
    add(frontier, Link("https://a.com/picture", 3, PAGE_RESOURCE, resource_steps=1, resource_share=4))
    assert frontier.next_turn(resources_only=True) == NOW
    (turn,) = claim(frontier, urls=5, requisites=True)
    (item,) = turn.items
    assert (item.url, item.depth, item.priority) == ("https://a.com/picture", 3, PAGE_RESOURCE)
    assert (item.resource_steps, item.resource_share, item.redirects, item.sitemap_depth) == (1, 4, 0, 0)
    settle(frontier, TurnOutcomes(turn.token, [NotTried("https://a.com/picture")], NOW))
    assert [urls_of(turn) for turn in claim(frontier, urls=5)] == [
        ["https://a.com/picture", "https://a.com/first"],
        ["https://b.com/page"],
    ]
    assert claim(frontier, requisites=True) == []


def test_a_requisite_that_came_back_is_waited_for(durable: Bench) -> None:
    frontier = durable.frontier
    add(frontier, "https://a.com/page", Link("https://a.com/picture", priority=PAGE_RESOURCE))
    (turn,) = claim(frontier, requisites=True)
    settle(frontier, TurnOutcomes(turn.token, [RetryLater("https://a.com/picture", NOW + 30, "x")], NOW + 5))
    frontier = durable.reopen()
    assert frontier.next_turn() == NOW + 5
    assert frontier.next_turn(resources_only=True) == NOW + 30
    assert claim(frontier, now=NOW + 29, requisites=True) == []
    assert urls_of(take(frontier, now=NOW + 29)) == ["https://a.com/page"]
    frontier = durable.reopen()  # which ends the lease
    (turn,) = claim(frontier, now=NOW + 200, requisites=True)
    assert [(item.url, item.attempts) for item in turn.items] == [("https://a.com/picture", 2)]
    settle(frontier, TurnOutcomes(turn.token, [visited("https://a.com/picture")], NOW + 200), now=NOW + 200)
    assert frontier.next_turn(resources_only=True) is None


def test_requisites_of_excluded_domains_and_revisits_are_not_claimed(frontier: Frontier) -> None:
    add(frontier, *(Link(f"https://{name}.com/picture", priority=PAGE_RESOURCE) for name in "ab"))
    frontier.exclude(["a.com"])
    (turn,) = claim(frontier, requisites=True)
    settle(frontier, TurnOutcomes(turn.token, [visited("https://b.com/picture", again=NOW)], NOW))
    assert frontier.next_turn(resources_only=True) is None
    assert claim(frontier, requisites=True, revisits=True) == []
    (again,) = take(frontier, revisits=True).items
    assert (again.url, again.priority) == ("https://b.com/picture", PAGE_RESOURCE)
    frontier.include(["a.com"])
    assert [urls_of(turn) for turn in claim(frontier, requisites=True)] == [["https://a.com/picture"]]


def test_a_visit_without_a_claim_is_what_the_next_one_continues_from(frontier: Frontier) -> None:
    visit_all(frontier, "https://a.com/1", "https://b.com/1", again=NOW + 5)
    add(frontier, "https://c.com/in-hand")
    turn = take(frontier, now=NOW + 1)
    add(frontier, "https://w.com/waits", now=NOW + 1)
    pages = {"a.com/1": False, "w.com/waits": True, "c.com/in-hand": True, "d.com/new": True}
    saved = [
        VisitDone(LastVisit(url=f"https://{url}", time=NOW + 3, status=200, record_id="<2>"), NOW + 500, is_page)
        for url, is_page in pages.items()
    ]
    before = frontier.stats()
    for _ in range(2):  # the command may come twice
        frontier.record(saved, now=NOW + 3)
    stats = frontier.stats()
    assert frontier.visit("https://a.com/1") == saved[0].visit
    assert frontier.visit("https://d.com/new") == saved[3].visit
    assert frontier.visit("https://c.com/in-hand") is None
    assert (stats.pages, stats.visited, stats.revisits) == (before.pages + 1, before.visited + 1, before.revisits + 1)
    assert (stats.waiting, stats.in_hand) == (before.waiting, before.in_hand)
    finish(frontier, turn)
    # Nothing of a.com and d.com is due before its new time, though a.com was to come up for it.
    turns = claim(frontier, now=NOW + 30, revisits=True, urls=9)
    assert sorted(url for turn in turns for url in urls_of(turn)) == ["https://b.com/1", "https://w.com/waits"]
    assert frontier.stats().domains_in_hand == 2
    turns = claim(frontier, now=NOW + 501, revisits=True, urls=9)
    due = {item.url: item.last for turn in turns for item in turn.items}
    assert [due["https://a.com/1"], due["https://d.com/new"]] == [saved[0].visit, saved[3].visit]
    assert add(frontier, "https://d.com/new").known == 1
