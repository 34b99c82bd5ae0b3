"""Links that went into the frontier a short while ago, and pages that were fetched as the resource of a page.

Most links of a page stand on the page before it, too. Such a link need not be looked at again: the page that had it
first is settled together with it, or is fetched again.

Servers often redirect an old image to a page. A resource brings no resources of its own: a site may answer with a page
for each image that it lacks. But a page that is also linked is one like any other, whichever was met first, and its
resources are fetched. So both are remembered, as far as this process has met them of late; in a crawl of one site that
is all of them. Such a page does not count as a page, so --max-pages does not end a chain of them, each an image of the
one before and linked by it. Therefore no more of them bring their resources than there were pages that count, and some.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

import msgspec

from webmill.crawl.page.resources import PageResource

KEPT_URLS = 100_000  # at least, and at most twice as many: some 30 MB
MEAN_URL_LENGTH = 200  # characters; longer URLs are kept for less long
MOST_CHARACTERS = 20 << 20  # in the resources of pages that were read and not linked yet
FREE_PAGES = 100


class RecentLinks:
    """May be asked by a thread while the event loop adds to it."""

    def __init__(self, kept: int = KEPT_URLS) -> None:
        self._kept = kept
        self._young: dict[str, str] = {}  # the page that had it, by URL
        self._old: dict[str, str] = {}
        self._characters = 0  # of the young ones

    def __contains__(self, url: str) -> bool:
        return url in self._young or url in self._old

    def drop_known(self, urls: Iterable[str]) -> list[str]:
        """Return the URLs that are not among the recent ones."""
        young, old = self._young, self._old
        return [url for url in urls if url not in young and url not in old]

    def find_via(self, url: str) -> str:
        """Return the page that had the link, or "" where that is not known any more."""
        return self._young.get(url) or self._old.get(url, "")

    def add(self, url: str, via: str = "") -> None:
        if url not in self._young:
            self._young[url] = via
            self._characters += len(url)
        if len(self._young) >= self._kept or self._characters >= self._kept * MEAN_URL_LENGTH:
            self._young, self._old, self._characters = {}, self._young, 0


class EmbeddedPage(msgspec.Struct, frozen=True):
    """A page that was fetched as a resource, with the resources that it names."""

    depth: int
    resources: list[PageResource]

    @property
    def size(self) -> int:
        return sum(len(resource.url) for resource in self.resources)


class EmbeddedPages:
    """The embedded pages of late, and which of them are linked. Two threads may use it."""

    def __init__(self, most: int = MOST_CHARACTERS, *, free_pages: int = FREE_PAGES) -> None:
        self._most, self._size, self._allowed = most, 0, free_pages
        self._resources, self._linked = RecentLinks(), RecentLinks()
        self._pages: OrderedDict[str, EmbeddedPage] = OrderedDict()
        self._lock = Lock()

    def count_page(self) -> None:
        """A page that counts was read, so one more embedded page may bring its resources."""
        with self._lock:
            self._allowed += 1

    def may_expand(self) -> bool:
        """Tell whether one more embedded page may bring its resources, and count it."""
        with self._lock:
            is_allowed = self._allowed > 0
            self._allowed -= is_allowed
        return is_allowed

    def add_resource(self, url: str) -> None:
        """A page names the URL as a resource."""
        with self._lock:
            self._resources.add(url)

    def add_link(self, url: str) -> None:
        """A page links to the URL."""
        if url in self._resources:
            with self._lock:
                self._linked.add(url)

    def pop(self, url: str) -> EmbeddedPage | None:
        """Return the embedded page of the URL, once, if it was read."""
        with self._lock:
            found = self._pages.pop(url, None)
            self._size -= found.size if found else 0
        return found

    def add_page(self, url: str, page: EmbeddedPage) -> bool:
        """Remember an embedded page. True: it is linked already, so it need not be remembered."""
        if url in self._linked:
            return True
        with self._lock:
            if page.resources and url not in self._pages:
                self._pages[url] = page
                self._size += page.size
            while self._size > self._most:
                self._size -= self._pages.popitem(last=False)[1].size
        return False
