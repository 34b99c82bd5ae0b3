"""Pages that were met where a picture should be, as old pictures are often redirected to one, and to which links lead.

What is asked for as a picture brings nothing more: a site may answer with a page for each picture that it lacks. But a
page to which a link leads is one like any other, whichever was met first, and what it needs is brought. So both are
remembered, as far as this process has met them of late; it is all in a crawl of one site.

Such a page counts as none, so --max-pages does not end a chain of them, each a picture of the one before and linked
by it. Therefore no more of them bring what they need than there were pages that count, and a few.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from webmill.crawl.page.resources import Requisite
from webmill.crawl.visit.recent_links import Recent

MOST = 20 << 20  # characters in the requisites of pages that were read and not linked yet
FEW = 100


class Bare(msgspec.Struct, frozen=True):
    """A page without its requisites."""

    depth: int
    requisites: list[Requisite]

    @property
    def size(self) -> int:
        return sum(len(requisite.url) for requisite in self.requisites)


class BarePages:
    def __init__(self, most: int = MOST, *, few: int = FEW) -> None:
        self._most, self._held, self._left = most, 0, few
        self._named, self._linked = Recent(), Recent()
        self._read: OrderedDict[str, Bare] = OrderedDict()

    def count(self) -> None:
        """A page that counts was read."""
        self._left += 1

    def spend(self) -> bool:
        """Whether one more page that does not count may bring what it needs."""
        if self._left:
            self._left -= 1
            return True
        return False

    def name(self, url: str) -> None:
        """A page needs it, as a picture."""
        self._named.add(url)

    def link(self, url: str) -> None:
        """A page links to it."""
        if url in self._named:
            self._linked.add(url)

    def take(self, url: str) -> Bare | None:
        """Once, if it was read."""
        found = self._read.pop(url, None)
        self._held -= found.size if found else 0
        return found

    def read(self, url: str, page: Bare) -> bool:
        """It is a page. True: a link led to it already."""
        if url in self._linked:
            return True
        if page.requisites and url not in self._read:
            self._read[url] = page
            self._held += page.size
        while self._held > self._most:
            self._held -= self._read.popitem(last=False)[1].size
        return False
