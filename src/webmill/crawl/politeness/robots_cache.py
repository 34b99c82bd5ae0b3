"""The robots.txt files that this process knows, in memory or from its store. Any other must be fetched."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from webmill.crawl.frontier.base import RobotsEntry, domain_of
from webmill.crawl.politeness.robots import ParsedFiles, RobotsPolicy, RobotsVerdict, decide
from webmill.infra.clock import SteadyClock

MOST_ENTRIES = 50_000  # about 1 KiB each without the rules
PARSED_BYTES = 16 << 20  # of files whose rules are kept in memory; parsed they take several times that


class RobotsStore(Protocol):
    """Where robots.txt files are kept across restarts: a frontier."""

    def robots(self, origin: str) -> RobotsEntry | None: ...

    def excluded(self) -> Iterator[str]:
        """Yield the domains that are never asked for anything."""
        ...


class RobotsCache:
    def __init__(self, store: RobotsStore, policy: RobotsPolicy, *, clock: SteadyClock) -> None:
        self._store, self._policy, self._clock = store, policy, clock
        self._files = ParsedFiles(most_bytes=PARSED_BYTES)
        self._entries: OrderedDict[str, RobotsEntry] = OrderedDict()
        self._unused: set[str] = set()  # origins that were asked for nothing since their file was fetched

    async def find(self, origin: str) -> RobotsVerdict | None:
        """Return the verdict of an origin, or None when its file must be fetched (again)."""
        if origin not in self._entries:
            entry = await asyncio.to_thread(self._store.robots, origin)
            if entry is None:
                return None
            self._remember(entry)
        entry = self._entries[origin]
        self._entries.move_to_end(origin)
        return self._verdict(entry) if self._clock() < self._valid_until(entry) else None

    def _valid_until(self, entry: RobotsEntry) -> float:
        """A file is valid for the page that it was fetched for, however long that must wait: up to a day."""
        return entry.fetched + self._policy.max_age if entry.origin in self._unused else entry.expires

    def mark_used(self, origin: str) -> None:
        """A page of the origin is requested now."""
        self._unused.discard(origin)

    async def is_excluded(self, url: str) -> bool:
        """Tell whether the URL's domain is never asked for anything, its robots.txt included."""
        domain = domain_of(url)
        return await asyncio.to_thread(lambda: domain in self._store.excluded())

    def entry(self, origin: str) -> RobotsEntry | None:
        """Return the file as it was last fetched, also when it has expired."""
        return self._entries.get(origin)

    def add(self, entry: RobotsEntry) -> RobotsVerdict:
        """Remember a file that was fetched now, and return its verdict."""
        self._remember(entry)
        verdict = self._verdict(entry)
        if verdict.state != "unreachable":
            self._unused.add(entry.origin)
        return verdict

    def _remember(self, entry: RobotsEntry) -> None:
        self._entries[entry.origin] = entry
        if len(self._entries) > MOST_ENTRIES:
            self._unused.discard(self._entries.popitem(last=False)[0])

    def _verdict(self, entry: RobotsEntry) -> RobotsVerdict:
        return decide(entry, now=self._clock(), policy=self._policy, files=self._files)
