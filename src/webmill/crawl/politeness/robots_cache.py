"""What is known of robots.txt files: by this process, or by its store. What neither knows must be asked for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from webmill.crawl.frontier.base import RobotsEntry, domain_of
from webmill.crawl.politeness.robots import ParsedFiles, Policy, Verdict, decide
from webmill.infra.clock import SteadyClock

KEPT = 50_000  # entries with their verdicts, about 1 KiB each without the rules
PARSED = 16 << 20  # bytes of files whose rules are kept in memory; parsed they take several times that


class RobotsStore(Protocol):
    """What is asked of a frontier here."""

    def robots(self, origin: str) -> RobotsEntry | None: ...

    def excluded(self) -> Iterator[str]:
        """Domains of which nothing is ever asked."""
        ...


class RobotsKeeper:
    def __init__(self, store: RobotsStore, policy: Policy, *, clock: SteadyClock) -> None:
        self._store, self._policy, self._clock = store, policy, clock
        self._files = ParsedFiles(most_bytes=PARSED)
        self._entries: OrderedDict[str, RobotsEntry] = OrderedDict()
        self._unused: set[str] = set()  # origins of which nothing was asked since their file was

    async def find(self, origin: str) -> Verdict | None:
        """None when it must be asked for (again)."""
        if origin not in self._entries:
            entry = await asyncio.to_thread(self._store.robots, origin)
            if entry is None:
                return None
            self._remember(entry)
        entry = self._entries[origin]
        self._entries.move_to_end(origin)
        return self._verdict(entry) if self._clock() < self._good_until(entry) else None

    def _good_until(self, entry: RobotsEntry) -> float:
        """A file is good for the page that it was asked for, however long that must wait: not for more than a day."""
        return entry.fetched + self._policy.max_age if entry.origin in self._unused else entry.expires

    def use(self, origin: str) -> None:
        """Something of it is asked now."""
        self._unused.discard(origin)

    async def excludes(self, url: str) -> bool:
        """Nothing of its domain is ever asked, its robots.txt neither."""
        domain = domain_of(url)
        return await asyncio.to_thread(lambda: domain in self._store.excluded())

    def last(self, origin: str) -> RobotsEntry | None:
        return self._entries.get(origin)

    def keep(self, entry: RobotsEntry) -> Verdict:
        self._remember(entry)
        verdict = self._verdict(entry)
        if verdict.state != "unreachable":
            self._unused.add(entry.origin)
        return verdict

    def _remember(self, entry: RobotsEntry) -> None:
        self._entries[entry.origin] = entry
        if len(self._entries) > KEPT:
            self._unused.discard(self._entries.popitem(last=False)[0])

    def _verdict(self, entry: RobotsEntry) -> Verdict:
        return decide(entry, now=self._clock(), policy=self._policy, files=self._files)
