"""URLs of links that went into the frontier a short while ago. Most links of a page stand on the page before it, too.

Such a link need not be looked at again: the page that had it first is settled together with it, or is fetched again.
"""

from __future__ import annotations

from collections.abc import Iterable

KEPT_URLS = 100_000  # at least, and at most twice as many: some 30 MB
MEAN_LENGTH = 200  # characters; longer URLs are kept for less long


class RecentLinks:
    def __init__(self, kept: int = KEPT_URLS) -> None:
        self._kept = kept
        self._young: set[str] = set()
        self._old: set[str] = set()
        self._characters = 0  # of the young ones

    def __contains__(self, url: str) -> bool:
        return url in self._young or url in self._old

    def drop_known(self, urls: Iterable[str]) -> list[str]:
        """Return the URLs that are not among the recent ones."""
        young, old = self._young, self._old
        return [url for url in urls if url not in young and url not in old]

    def add(self, url: str) -> None:
        if url not in self._young:
            self._young.add(url)
            self._characters += len(url)
        if len(self._young) >= self._kept or self._characters >= self._kept * MEAN_LENGTH:
            self._young, self._old, self._characters = set(), self._young, 0
