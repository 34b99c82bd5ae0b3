"""Searching: what is asked for, found, and where its capture is."""

from __future__ import annotations

import msgspec

from webmill.errors import WebmillError
from webmill.model import CaptureRef
from webmill.search.base import MAX_OFFSET, Hit, SearchAnswer
from webmill.serve.api.captures import newest_captures
from webmill.serve.api.engine import SharedEngine
from webmill.serve.api.published import PublishedVersions
from webmill.serve.api.search_params import SearchParams
from webmill.serve.site import Site

ALWAYS = ("language", "site")  # counted for every answer
MOST_FACETS = 8


class FoundHits(msgspec.Struct, frozen=True, kw_only=True):
    """`behind`: the live version when the index is not up to it."""

    asked: SearchParams
    answer: SearchAnswer
    captures: dict[str, CaptureRef]  # by the hit's address
    behind: str = ""

    def capture_of(self, hit: Hit) -> CaptureRef | None:
        """Return the newest capture of its page here."""
        return self.captures.get(hit.document.url)

    @property
    def reachable(self) -> int:
        """Hits that can be paged to."""
        return min(self.answer.total, MAX_OFFSET)


class DocumentSearch:
    def __init__(self, site: Site, engine: SharedEngine, published: PublishedVersions) -> None:
        self._site, self._engine, self._published = site, engine, published

    def find(self, asked: SearchParams) -> FoundHits:
        """`NotFound`: nothing is indexed yet."""
        answer, cursor = self._engine.search(asked.request(count=self.countable()))
        captures = newest_captures(self._site, (hit.document.url for hit in answer.hits))
        return FoundHits(asked=asked, answer=answer, captures=captures, behind=self._behind(cursor))

    def countable(self) -> tuple[str, ...]:
        """Language and site, and the facets that the live version was published with."""
        try:
            facets = self._published.facets(self._published.live())
        except WebmillError:  # an index may be here without its versions
            return ALWAYS
        own = [name for name in facets if name not in ("language", "domain")]  # these are language and site
        return (*ALWAYS, *own[:MOST_FACETS])

    def _behind(self, cursor: str | None) -> str:
        try:
            live = self._published.live().version
        except WebmillError:
            return ""
        return live if cursor != live else ""
