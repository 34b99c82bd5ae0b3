"""Random steps on a local frontier with tiny limits, beside the frontier in memory: every answer is the same.

At random points the local one is closed and opened, or left as a kill would leave it; or the disk is full. What waits
is looked at now and then alone: a look brings lines into their files that would otherwise still be on their way.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.contracts.frontier_benches import TINY
from tests.thoroughness import examples
from webmill.crawl.frontier import url_queue_files
from webmill.crawl.frontier.base import (
    MOST_RANK,
    PAGE_RESOURCE,
    PINNED_RANK,
    SITEMAP,
    ClaimRequest,
    DomainTurn,
    FrontierUpdate,
    LastVisit,
    NotTried,
    Outcome,
    RetryLater,
    RobotsEntry,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier.hops import reached_by, unpack_hops
from webmill.crawl.frontier.local import LocalFrontier, restore
from webmill.crawl.frontier.memory import MemoryFrontier
from webmill.errors import Unavailable
from webmill.infra.files import write_at
from webmill.model import Link

DOMAINS = [f"d{number}.com" for number in range(4)]
LINKS = st.builds(
    lambda domain, path, depth, priority, hops: Link(
        f"https://{domain}/{'p' * (path * 7 % 90)}{path}", depth, priority, *unpack_hops(priority, hops)
    ),
    st.sampled_from(DOMAINS),
    st.integers(0, 60),
    st.integers(0, 3),
    st.sampled_from([PAGE_RESOURCE, PAGE_RESOURCE, 0, SITEMAP, 5, 5, 5, 9]),
    st.sampled_from([0, 0, 1, 255]),
)
SECONDS = st.sampled_from([0.0, 1.0, 3.0, 10.0, 31.0])


@contextmanager
def disk_that_takes(writes: int) -> Iterator[None]:
    """Of lines to their files; and half of the next one."""
    left = [writes]

    def limited(descriptor: int, data: bytes, offset: int) -> None:
        if not left[0]:
            write_at(descriptor, data[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        write_at(descriptor, data, offset)

    with patch.object(url_queue_files, "write_at", limited):
        yield


class FrontierMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.limits = TINY
        self.folder = tempfile.mkdtemp(prefix="webmill-test-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.generation = 0
        self.model, self.local = MemoryFrontier(), self.open()
        self.now = 1000.0
        self.turns: list[DomainTurn] = []
        self.urls: set[str] = set()

    def open(self) -> LocalFrontier:
        return LocalFrontier(self.place(), limits=self.limits)

    def place(self) -> Path:
        return Path(self.folder) / str(self.generation)

    @initialize(size=st.sampled_from([0, 300, url_queue_files.MAX_UNWRITTEN]))
    def limit_unwritten_lines(self, size: int) -> None:
        """Let lines of so many bytes wait until they are written to their files."""
        self.local.close()
        self.limits = msgspec.structs.replace(TINY, waiting=size)
        self.local = self.open()

    def teardown(self) -> None:
        self.all_that_waits_is_the_same()
        self.local.close()
        shutil.rmtree(self.folder)

    def both(self, name: str, *arguments: Any, **options: Any) -> Any:
        expected = getattr(self.model, name)(*arguments, **options)
        assert getattr(self.local, name)(*arguments, **options) == expected
        return expected

    @rule(links=st.lists(LINKS, max_size=12))
    def add(self, links: list[Link]) -> None:
        self.both("commit", FrontierUpdate(links=links), now=self.now)
        self.urls |= {link.url for link in links}

    @rule(visited=st.lists(LINKS, max_size=6), links=st.lists(LINKS, max_size=3), again=st.none() | SECONDS)
    def import_visits(self, visited: list[Link], links: list[Link], again: float | None) -> None:
        when = None if again is None else self.now + again
        visits = [LastVisit(url=link.url, time=self.now, depth=link.depth, **reached_by(link)) for link in visited]
        step = FrontierUpdate(links=links, visited=[VisitDone(visit, revisit_due=when) for visit in visits])
        self.both("commit", step, now=self.now)
        self.urls |= {link.url for link in visited + links}

    @rule(
        count=st.integers(1, 4),
        urls=st.integers(1, 5),
        lease=SECONDS,
        hold=SECONDS,
        revisits=st.booleans(),
        ranks_from=st.sampled_from([1, 3, PINNED_RANK]),
    )
    def claim(self, count: int, urls: int, lease: float, hold: float, revisits: bool, ranks_from: int) -> None:
        request = ClaimRequest(
            turns=count,
            urls_per_turn=urls,
            now=self.now,
            lease=lease + 1,
            hold=hold,
            revisits=revisits,
            ranks_from=ranks_from,
        )
        self.turns += self.both("claim", request)

    @rule(ranks=st.dictionaries(st.sampled_from([*DOMAINS, "never.com"]), st.integers(0, 4), max_size=3))
    def rank(self, ranks: dict[str, int]) -> None:
        self.both("commit", FrontierUpdate(ranks=ranks), now=self.now)

    @rule(domain=st.sampled_from([*DOMAINS, "never.com"]), rank=st.sampled_from([0, 2, PINNED_RANK, MOST_RANK]))
    def prioritise(self, domain: str, rank: int) -> None:
        self.both("prioritise", [domain], rank)

    @rule(count=st.integers(1, 4), urls=st.integers(1, 5), lease=SECONDS, hold=SECONDS)
    def claim_page_resources(self, count: int, urls: int, lease: float, hold: float) -> None:
        request = ClaimRequest(
            turns=count, urls_per_turn=urls, now=self.now, lease=lease + 1, hold=hold, resources_only=True
        )
        turns = self.both("claim", request)
        assert all(item.priority == PAGE_RESOURCE and item.last is None for turn in turns for item in turn.items)
        assert all(turn.items for turn in turns)
        self.turns += turns

    @rule(links=st.lists(LINKS, max_size=12), writes=st.integers(0, 3))
    def add_to_a_full_disk(self, links: list[Link], writes: int) -> None:
        """All of it, or nothing."""
        with disk_that_takes(writes):
            try:
                added = self.local.commit(FrontierUpdate(links=links), now=self.now)
            except Unavailable:
                return
        assert added == self.model.commit(FrontierUpdate(links=links), now=self.now)
        self.urls |= {link.url for link in links}

    @rule(count=st.integers(1, 4), urls=st.integers(1, 5), writes=st.integers(0, 3))
    def claim_from_a_full_disk(self, count: int, urls: int, writes: int) -> None:
        with disk_that_takes(writes):
            try:
                turns = self.local.claim(ClaimRequest(turns=count, urls_per_turn=urls, now=self.now, lease=1, hold=1))
            except Unavailable:
                return
        assert turns == self.model.claim(ClaimRequest(turns=count, urls_per_turn=urls, now=self.now, lease=1, hold=1))
        self.turns += turns

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), links=st.lists(LINKS, max_size=3))
    def settle(self, data: st.DataObject, links: list[Link]) -> None:
        settled = [self.draw_settled(data) for _ in range(data.draw(st.integers(1, 2)))]
        self.both("commit", FrontierUpdate(links=links, settled=settled), now=self.now)
        self.urls |= {link.url for link in links}

    def draw_settled(self, data: st.DataObject) -> TurnOutcomes:
        turn = data.draw(st.sampled_from(self.turns[-6:]))
        outcomes: list[Outcome] = []
        for item in turn.items:
            later = self.now + data.draw(SECONDS)
            match data.draw(st.sampled_from(["done", "again", "later", "unused", "soon", "nothing"])):
                case "done" | "again" as how:
                    visit = LastVisit(url=item.url, time=self.now, status=200, depth=item.depth, **reached_by(item))
                    outcomes.append(
                        VisitDone(visit, revisit_due=later if how == "again" else None, is_page=item.depth != 1)
                    )
                case "later":
                    outcomes.append(RetryLater(item.url, later, "x"))
                case "unused":
                    outcomes.append(NotTried(item.url))
                case "soon":
                    outcomes.append(NotTried(item.url, later))
        next_ = data.draw(st.none() | SECONDS)
        return TurnOutcomes(turn.token, outcomes, None if next_ is None else self.now + next_)

    @precondition(lambda self: self.turns)
    @rule(lease=SECONDS)
    def extend(self, lease: float) -> None:
        self.both("extend", [turn.token for turn in self.turns[-4:]], now=self.now, lease=lease + 1)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(domain=st.sampled_from([*DOMAINS, "never.com"]), name=st.sampled_from(["exclude", "include", "include"]))
    def exclude(self, domain: str, name: str) -> None:
        self.both(name, [domain])

    @rule(key=st.sampled_from("abc"), value=st.integers(0, 9))
    def note(self, key: str, value: int) -> None:
        robots = [RobotsEntry(origin=key, fetched=value, expires=self.now, body=bytes([value]))]
        self.both("commit", FrontierUpdate(notes={key: str(value)}, robots=robots), now=self.now)
        self.both("robots", key)
        self.both("notes")

    @rule()
    def compact(self) -> None:
        self.local.compact()

    @rule()
    def close_and_open(self) -> None:
        self.local.close()
        self.restart()

    @rule()
    def die(self) -> None:
        """The next one sees the files as they are: without a checkpoint, with what is half merged."""
        before = self.place()
        self.generation += 1
        shutil.copytree(before, self.place())
        self.local.close()
        shutil.rmtree(before)
        self.restart()

    @rule()
    def lose_power(self) -> None:
        """Nothing is in the domain files but what a checkpoint has synced. With a table this small: all or nothing."""
        before = self.place()
        self.generation += 1
        shutil.copytree(before, self.place())
        if not self.local._seen._runs:  # no checkpoint yet
            shutil.rmtree(self.place() / "domains")
        self.local.close()
        shutil.rmtree(before)
        self.restart()

    @rule()
    def go_on_from_a_backup(self) -> None:
        before = self.place()
        backup = before.with_name(f"{self.generation}-backup")
        self.local.back_up(backup)
        self.local.commit(FrontierUpdate(links=[Link(f"https://d0.com/after/{self.generation}")]), now=self.now)
        self.local.close()
        self.generation += 1
        self.restore(backup)
        shutil.rmtree(before)
        shutil.rmtree(backup)
        self.restart()

    def restore(self, backup: Path) -> None:
        restore(backup, self.place(), limits=TINY)

    def restart(self) -> None:
        self.local = self.open()
        self.model._end_leases(float("inf"), since=0.0)

    @invariant()
    def all_that_can_be_asked_is_the_same(self) -> None:
        self.both("stats")
        self.both("next_turn")
        self.both("next_turn", revisits=True)
        self.both("next_turn", resources_only=True)

    @invariant()
    def every_known_url_is_somewhere(self) -> None:
        stats = self.local.stats()
        assert stats.waiting + stats.in_hand + stats.visited <= len(self.urls)  # some were excluded
        assert list(self.local.visits()) == list(self.model.visits())
        assert list(self.local.excluded()) == list(self.model.excluded())

    @rule()
    def all_that_waits_is_the_same(self) -> None:
        assert Counter(self.local.waiting()) == Counter(self.model.waiting())


TestFrontier = FrontierMachine.TestCase
TestFrontier.settings = settings(deadline=None, max_examples=examples(150), stateful_step_count=40)
