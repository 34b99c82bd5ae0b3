"""URLs of links that were handed on a short while ago. Most links of a page stand on the page before it, too.

Such a link needs no second look: the page that had it first is settled together with it, or is fetched again.
"""

from __future__ import annotations

KEPT = 100_000  # at least, and at most twice as many: some 30 MB


class Recent:
    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._young: set[str] = set()
        self._old: set[str] = set()

    def __contains__(self, url: str) -> bool:
        return url in self._young or url in self._old

    def add(self, url: str) -> None:
        self._young.add(url)
        if len(self._young) >= self._kept:
            self._young, self._old = set(), self._young
