"""Searches documents and finds the captures of the hits."""

from __future__ import annotations

import threading
from functools import partial

import msgspec

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.model import CaptureRef
from webmill.pipeline.search.documents import to_indexed
from webmill.pipeline.search.past import indexed_versions, version_as_of
from webmill.publish.shards import find_item
from webmill.publish.types import Version
from webmill.search.base import MAX_OFFSET, Hit, IndexedDocument, SearchAnswer
from webmill.serve.api.captures import newest_captures
from webmill.serve.api.engine import SharedEngine
from webmill.serve.api.published import PublishedVersions
from webmill.serve.api.search_params import SearchParams
from webmill.serve.site import Site

ALWAYS = ("language", "site", "type")  # counted for every answer
MOST_FACETS = 8
PAST_OPEN = 2  # engines of past versions


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
        self._past: dict[str, SharedEngine] = {}
        self._lock = threading.Lock()

    def find(self, params: SearchParams) -> FoundHits:
        """Return the hits. `NotFound`: nothing is indexed yet."""
        if params.mode != "words" and not self._site.finds_meaning:
            raise BadInput("this server has no sentence model: search with mode=words", reason="bad_query")
        version = self._past_version(params.as_of) if params.as_of else None
        engine = self._past_engine(version) if version else self._engine
        answer, cursor = engine.search(
            params.request(count=self.facet_names()),
            like=self._document(params.like, version) if params.like else None,
            collapse=params.collapse == "yes",
        )
        captures = newest_captures(self._site, (hit.document.url for hit in answer.hits))
        behind = "" if version else self._behind(cursor)
        return FoundHits(params=params, answer=answer, captures=captures, behind=behind)

    def suggest(self, typed: str) -> list[str]:
        """Return titles of documents that what was typed may become. `NotFound`: nothing is indexed yet."""
        return self._engine.suggest(typed)

    def past_versions(self) -> list[Version]:
        """Return the versions that can be searched besides the live one, the newest first."""
        return indexed_versions(self._site.root, self._site.versions)

    def _past_version(self, as_of: str) -> Version | None:
        """Return the version that was live then; None if it still is."""
        version = version_as_of(self._site.versions, as_of)
        return None if version.version == self._published.live().version else version

    def _past_engine(self, version: Version) -> SharedEngine:
        """Return the engine of a past version. The last ones are kept open."""
        open_past = self._site.open_past_engine
        if open_past is None:
            raise NotFound("past versions cannot be searched here")
        with self._lock:
            engine = self._past.pop(version.version, None) or SharedEngine(partial(open_past, version))
            self._past[version.version] = engine
            surplus = [self._past.pop(name) for name in list(self._past)[:-PAST_OPEN]]
        for each in surplus:
            each.close()
        return engine

    def _document(self, id_: str, version: Version | None) -> IndexedDocument:
        chosen = version or self._published.live()
        item = find_item(self._site.versions, self._published.index(chosen), id_)
        if item is None:
            raise NotFound(f"no document {id_[:200]} is published in version {chosen.version}")
        return to_indexed(self._site.versions, item, version=chosen.version)

    def facet_names(self) -> tuple[str, ...]:
        """Return the facets to count: language, site, and those of the live version."""
        try:
            facets = self._published.facets(self._published.live())
        except WebmillError:  # an index may be here without versions
            return ALWAYS
        others = [name for name in facets if name not in ("language", "domain", "type")]  # these are language and site
        return (*ALWAYS, *others[:MOST_FACETS])

    def _behind(self, cursor: str | None) -> str:
        try:
            live = self._published.live().version
        except WebmillError:
            return ""
        return live if cursor != live else ""
