"""A node is gone with its files: another goes on with what Redis knows, and with what a backup has of them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.frontier_benches import TINY
from tests.contracts.frontier_program import LIMITS, PAGES, page
from tests.contracts.frontier_redis_bench import forget, new_prefix
from tests.faults.matrix import record
from tests.services.frontier_redis_checker import RedisFound
from tests.services.redis_proxy import proxied
from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    ClaimRequest,
    CommitResult,
    FrontierUpdate,
    LastVisit,
    RetryLater,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.redis.backup import restore
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.redis.server import read_script as script
from webmill.crawl.frontier.redis.takeover import TakeoverResult, take_over
from webmill.errors import Conflict, Misconfigured, NotFound, Unavailable
from webmill.model import Link

pytestmark = pytest.mark.server("redis")

NOW, HOLD = 1_700_000_000.0, 70.0
APPLY = hashlib.sha1(script("apply").encode(), usedforsecurity=False).hexdigest().encode()


@pytest.fixture
def prefix(redis_url: str) -> Iterator[str]:
    prefix = new_prefix()
    yield prefix
    forget(redis_url, prefix)


def links(count: int, *, start: int = 0) -> list[Link]:
    return [
        Link(f"https://site{at % 7}.com/{'x' * (at % 30)}{at}", at % 3, at % 4) for at in range(start, start + count)
    ]


class Crawl:
    """On a frontier whose node will be gone."""

    def __init__(self, url: str, folder: Path, prefix: str, *, limits: FrontierLimits | None = TINY) -> None:
        self.url, self.folder, self.prefix, self.limits = url, folder, prefix, limits
        self.frontier = RedisFrontier(url, folder / "old", prefix=prefix, limits=limits)

    def step(self, *, start: int, now: float = NOW) -> None:
        """New links; of each domain one URL visited, one to be asked later, two in hand."""
        self.frontier.commit(FrontierUpdate(links=links(60, start=start)), now=now)
        for turn in self.frontier.claim(ClaimRequest(turns=10, urls_per_turn=4, now=now, lease=600, hold=HOLD)):
            first, second, *_ = turn.items
            outcomes = [
                VisitDone(LastVisit(url=first.url, time=now), revisit_due=now + 9e5),
                RetryLater(second.url, now + 5, "x"),
            ]
            self.frontier.commit(FrontierUpdate(settled=[TurnOutcomes(turn.token, outcomes)]), now=now)

    def die(self) -> None:
        self.frontier._stack.close()  # as a kill leaves it: without a checkpoint
        shutil.rmtree(self.folder / "old")

    def take_over(self, *, source: Path | None = None) -> TakeoverResult:
        return take_over(self.url, self.folder / "new", prefix=self.prefix, source=source, limits=self.limits)

    def go_on(self) -> RedisFrontier:
        return RedisFrontier(self.url, self.folder / "new", prefix=self.prefix, limits=self.limits)


def visit_all(frontier: RedisFrontier, *, now: float) -> list[str]:
    found: list[str] = []
    while turns := frontier.claim(ClaimRequest(turns=100, urls_per_turn=10, now=now, lease=60, hold=0)):
        urls = {turn.token: [item.url for item in turn.items] for turn in turns}
        done = [
            TurnOutcomes(token, [VisitDone(LastVisit(url=url, time=now)) for url in some], now)
            for token, some in urls.items()
        ]
        assert not frontier.commit(FrontierUpdate(settled=done), now=now).lost
        found += [url for some in urls.values() for url in some]
    return found


@pytest.mark.parametrize("limits", [TINY, None], ids=["tiny", "usual"])
@pytest.mark.parametrize("has_backup", [True, False], ids=["backup", "no backup"])
def test_only_what_came_since_the_backup_is_lost_and_it_can_be_found_again(
    redis_url: str, prefix: str, tmp_path: Path, has_backup: bool, limits: FrontierLimits | None
) -> None:
    crawl = Crawl(redis_url, tmp_path, prefix, limits=limits)
    crawl.step(start=0)
    if has_backup:
        crawl.frontier.back_up(tmp_path / "backup")
    before = set(crawl.frontier.waiting())
    for number in range(1, 5):
        crawl.step(start=60 * number, now=NOW + number * 1000)
    crawl.frontier.exclude(["site3.com"])
    waited, visits = set(crawl.frontier.waiting()), list(crawl.frontier.visits())
    in_hand = crawl.frontier.stats().in_hand
    crawl.die()
    taken = crawl.take_over(source=tmp_path / "backup" if has_backup else None)
    with crawl.go_on() as frontier:
        waits = set(frontier.waiting())
        lost = waited - waits
        assert waits <= waited
        assert taken == TakeoverResult(kept=len(waits) - in_hand, lost=len(lost))
        assert frontier.stats().waiting == len(waits)
        if has_backup:
            assert not lost & before
        if limits is TINY:
            assert lost
        assert list(frontier.visits()) == visits
        assert frontier.commit(FrontierUpdate(links=links(300)), now=NOW + 9000).known + len(lost) == 300
        assert set(frontier.waiting()) == waits | {link for link in lost if "site3.com" not in link.url}
        frontier.include(["site3.com"])
        rest = visit_all(frontier, now=NOW + 99_000)
        assert Counter(rest) == Counter({link.url for link in waits | lost if link in waits or "site3" not in link.url})
        assert (frontier.stats().waiting, frontier.stats().in_hand) == (0, 0)


def test_a_domain_whose_urls_are_all_lost_is_not_offered_but_for_its_revisits(
    redis_url: str, prefix: str, tmp_path: Path
) -> None:
    crawl = Crawl(redis_url, tmp_path, prefix)
    visited = [VisitDone(LastVisit(url=f"https://a.com/{at}", time=NOW), revisit_due=NOW + 500) for at in range(20)]
    crawl.frontier.commit(
        FrontierUpdate(visited=visited, links=[Link("https://a.com/x"), Link("https://b.com/x")]), now=NOW
    )
    crawl.frontier.close()  # with a checkpoint: nothing is in the journal
    shutil.rmtree(tmp_path / "old")
    assert crawl.take_over() == TakeoverResult(kept=0, lost=2)
    with crawl.go_on() as frontier:
        assert (frontier.next_turn(), frontier.next_turn(revisits=True)) == (None, NOW + 500)
        assert (frontier.stats().domains_waiting, frontier.stats().visited) == (0, 20)
        assert (
            frontier.commit(FrontierUpdate(links=[Link("https://a.com/x"), Link("https://a.com/3")]), now=NOW).added
            == 1
        )
        (turn,) = frontier.claim(
            ClaimRequest(turns=5, urls_per_turn=50, now=NOW + 500, lease=60, hold=0, revisits=True)
        )
        assert len(turn.items) == 21


@pytest.mark.parametrize("priority", [PAGE_RESOURCE, 5], ids=["requisites", "pages"])
def test_a_domain_of_which_only_what_came_back_is_left_is_not_offered_before_that(
    redis_url: str, prefix: str, tmp_path: Path, priority: int
) -> None:
    crawl = Crawl(redis_url, tmp_path, prefix)
    crawl.frontier.commit(
        FrontierUpdate(links=[Link(f"https://a.com/{at}", priority=priority) for at in range(2)]), now=NOW
    )
    (turn,) = crawl.frontier.claim(ClaimRequest(turns=1, urls_per_turn=1, now=NOW, lease=60, hold=0))
    later = TurnOutcomes(turn.token, [RetryLater(turn.items[0].url, NOW + 300, "x")], NOW + 5)
    crawl.frontier.commit(FrontierUpdate(settled=[later]), now=NOW)
    crawl.frontier.close()
    shutil.rmtree(tmp_path / "old")
    assert crawl.take_over() == TakeoverResult(kept=1, lost=1)
    requisites = priority == PAGE_RESOURCE
    with crawl.go_on() as frontier:
        assert {frontier.next_turn(), frontier.next_turn(resources_only=requisites)} == {NOW + 300}
        assert frontier.stats().domains_waiting == 1
        assert (
            frontier.claim(
                ClaimRequest(turns=1, urls_per_turn=5, now=NOW + 299, lease=60, hold=0, resources_only=requisites)
            )
            == []
        )
        (turn,) = frontier.claim(
            ClaimRequest(turns=1, urls_per_turn=5, now=NOW + 300, lease=60, hold=0, resources_only=requisites)
        )
        assert [item.attempts for item in turn.items] == [2]


@pytest.mark.crash
def test_a_node_that_was_killed_is_taken_over_and_every_page_is_visited_once(
    redis_url: str, prefix: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    arguments = [redis_url, prefix, str(tmp_path / "old"), str(log), "100"]
    node = subprocess.Popen([sys.executable, "-m", "tests.services.frontier_redis_program", *arguments])
    deadline = time.monotonic() + 100
    while log.read_bytes().count(b"\n") < 60:
        assert time.monotonic() < deadline
        assert node.poll() is None
        time.sleep(0.002)
    node.kill()
    node.wait(60)
    shutil.rmtree(tmp_path / "old")
    take_over(redis_url, tmp_path / "new", prefix=prefix, limits=LIMITS)
    with RedisFrontier(redis_url, tmp_path / "new", prefix=prefix, limits=LIMITS) as frontier:
        found = RedisFound(redis_url, prefix, tmp_path / "new")
        printed = [line.split(" ") for line in log.read_text().splitlines()]
        done = {page(int(words[1])) for words in printed if words[0] == "done"}
        lost = done - found.visited.keys()
        record("frontier (Redis)", "files lost", injected=1, acknowledged=len(done), lost=len(lost))
        assert not lost
        known = found.check()
        assert len(known) == frontier.stats().visited + frontier.stats().waiting
        every = [Link(page(number)) for number in range(PAGES)]
        assert frontier.commit(FrontierUpdate(links=every), now=1e6) == CommitResult(
            added=PAGES - len(known), known=len(known)
        )
        visit_all(frontier, now=1e6)
        assert Counter(visit.url for visit in frontier.visits()) == Counter(link.url for link in every)


def test_the_hold_of_a_domain_outlives_its_node(redis_url: str, prefix: str, tmp_path: Path) -> None:
    crawl = Crawl(redis_url, tmp_path, prefix)
    crawl.step(start=0)
    crawl.die()
    crawl.take_over()
    with crawl.go_on() as frontier:
        assert frontier.claim(ClaimRequest(turns=50, urls_per_turn=1, now=NOW + HOLD - 1, lease=60, hold=HOLD)) == []
        assert frontier.claim(ClaimRequest(turns=50, urls_per_turn=1, now=NOW + HOLD, lease=60, hold=HOLD))


def test_who_was_taken_for_dead_is_shut_out_with_its_folder(redis_url: str, prefix: str, tmp_path: Path) -> None:
    crawl = Crawl(redis_url, tmp_path, prefix)
    crawl.step(start=0)
    crawl.take_over()
    with pytest.raises(Conflict):
        crawl.frontier.commit(FrontierUpdate(links=links(5, start=500)), now=NOW)
    crawl.frontier.close()
    with pytest.raises(Misconfigured, match="name their folder"):
        RedisFrontier(redis_url, tmp_path / "old", prefix=prefix, limits=TINY)
    crawl.go_on().close()


def test_what_cannot_be_taken_over_is_refused(redis_url: str, prefix: str, tmp_path: Path) -> None:
    crawl, other = Crawl(redis_url, tmp_path, prefix), Crawl(redis_url, tmp_path / "b", prefix + "b")
    crawl.step(start=0)
    other.step(start=0)
    other.frontier.back_up(tmp_path / "of another")
    crawl.frontier.back_up(tmp_path / "old backup")
    with pytest.raises(Misconfigured, match="no backup of this frontier"):
        crawl.take_over(source=tmp_path / "of another")
    assert not (tmp_path / "new").exists()
    crawl.frontier.commit(FrontierUpdate(notes={"a": "b"}), now=NOW)  # who lives is not disturbed by what is refused
    crawl.die()
    with pytest.raises(NotFound):
        take_over(redis_url, tmp_path / "new", prefix=prefix + "none")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    with pytest.raises(Conflict, match="in use"):
        take_over(redis_url, tmp_path / "used", prefix=prefix)
    crawl.take_over(source=tmp_path / "old backup")
    with pytest.raises(Misconfigured, match="taken over"):  # positions have changed
        take_over(redis_url, tmp_path / "third", prefix=prefix, source=tmp_path / "old backup", limits=TINY)
    other.frontier.close()
    forget(redis_url, prefix + "b")


@pytest.mark.parametrize("spare", range(5))
def test_taking_over_can_be_cut_short_anywhere_and_done_again(
    redis_url: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    """Redis makes the change after `spare` others, and its answer gets lost."""
    monkeypatch.setattr("webmill.crawl.frontier.redis.takeover.AT_ONCE", 3)  # domains in one change
    with proxied(redis_url) as proxy:
        crawl = Crawl(proxy.url, tmp_path, prefix, limits=LIMITS)
        crawl.step(start=0)
        crawl.frontier.back_up(tmp_path / "backup")
        for number in range(1, 5):
            crawl.step(start=60 * number, now=NOW + number * 1000)
        waited, in_hand = set(crawl.frontier.waiting()), crawl.frontier.stats().in_hand
        crawl.die()
        proxy.mark, proxy.spare, proxy.lose = APPLY, spare, 4
        with pytest.raises(Unavailable):
            crawl.take_over(source=tmp_path / "backup")
        if spare < 4:  # the last of them makes it whole
            with pytest.raises(Misconfigured, match="take it over again"):
                crawl.go_on()
        taken = crawl.take_over(source=tmp_path / "backup")
        with crawl.go_on() as frontier:
            waits = set(frontier.waiting())
            assert (taken.kept, taken.lost) == (len(waits) - in_hand, len(waited - waits))
            assert taken.lost > 0
            assert frontier.stats().waiting == len(waits)
        RedisFound(redis_url, prefix, tmp_path / "new").check()


# Restoring


def test_a_prefix_that_is_used_is_refused(redis_url: str, prefix: str, tmp_path: Path) -> None:
    crawl = Crawl(redis_url, tmp_path, prefix)
    crawl.step(start=0)
    crawl.frontier.back_up(tmp_path / "backup")
    with pytest.raises(Conflict, match="another prefix"):
        restore(redis_url, tmp_path / "backup", tmp_path / "new", prefix=prefix)
    crawl.frontier.close()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("spare", [0, 1])
def test_a_restore_can_be_cut_short_and_done_again(redis_url: str, prefix: str, tmp_path: Path, spare: int) -> None:
    with proxied(redis_url) as proxy:
        crawl = Crawl(proxy.url, tmp_path, prefix)
        crawl.step(start=0)
        crawl.frontier.back_up(tmp_path / "backup")
        waiting, visits = Counter(crawl.frontier.waiting()), list(crawl.frontier.visits())
        crawl.die()
        forget(redis_url, prefix)  # all is gone
        proxy.mark, proxy.spare, proxy.lose = APPLY, spare, 4
        with pytest.raises(Unavailable):
            restore(proxy.url, tmp_path / "backup", tmp_path / "new", prefix=prefix, limits=TINY)
        if not spare:  # else it is whole
            with pytest.raises(Misconfigured, match="cut short"):
                crawl.go_on()
            shutil.rmtree(tmp_path / "new")
            restore(proxy.url, tmp_path / "backup", tmp_path / "new", prefix=prefix, limits=TINY)
        with crawl.go_on() as frontier:
            assert (Counter(frontier.waiting()), list(frontier.visits())) == (waiting, visits)
