"""Searches documents and finds the captures of the hits."""

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
    """The answer to a search. `behind`: the live version, if the index is older."""

    params: SearchParams
    answer: SearchAnswer
    captures: dict[str, CaptureRef]  # by the hit's address
    behind: str = ""

    def capture_of(self, hit: Hit) -> CaptureRef | None:
        """Return the newest capture of the hit here."""
        return self.captures.get(hit.document.url)

    @property
    def reachable(self) -> int:
        """Return how many hits can be paged through."""
        return min(self.answer.total, MAX_OFFSET)


class DocumentSearch:
    """Searches the documents of a site."""

    def __init__(self, site: Site, engine: SharedEngine, published: PublishedVersions) -> None:
        self._site, self._engine, self._published = site, engine, published

    def find(self, params: SearchParams) -> FoundHits:
        """Return the hits. `NotFound`: nothing is indexed yet."""
        answer, cursor = self._engine.search(params.request(count=self.facet_names()))
        captures = newest_captures(self._site, (hit.document.url for hit in answer.hits))
        return FoundHits(params=params, answer=answer, captures=captures, behind=self._behind(cursor))

    def facet_names(self) -> tuple[str, ...]:
        """Return the facets to count: language, site, and those of the live version."""
        try:
            facets = self._published.facets(self._published.live())
        except WebmillError:  # an index may be here without versions
            return ALWAYS
        others = [name for name in facets if name not in ("language", "domain")]  # these are language and site
        return (*ALWAYS, *others[:MOST_FACETS])

    def _behind(self, cursor: str | None) -> str:
        try:
            live = self._published.live().version
        except WebmillError:
            return ""
        return live if cursor != live else ""
