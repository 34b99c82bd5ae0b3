"""Answers a request by meaning, or by words and meaning fused by rank, with any engine: it tells which documents hold
what the query demands, and the vectors tell which of them are near to what it says.

    words     documents with all of the words, then those with any of them, as the engine ranks them
    meaning   the documents with the nearest passages
    both      the two rankings fused

Counted are, in the mode both, the documents with all of the words and those that the fusion brings besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from webmill.search.base import (
    FACET_VALUES,
    MAX_HITS,
    MAX_OFFSET,
    FacetCount,
    Hit,
    SearchAnswer,
    SearchEngine,
    SearchMode,
    SearchRequest,
)
from webmill.search.fields import content_of
from webmill.search.fusion import fuse
from webmill.search.meaning.query import SpokenQuery
from webmill.search.meaning.scan import NearContent, PassageScores
from webmill.search.query import SearchQuery

DEPTH = MAX_HITS  # documents of each ranking
FEW = 500  # documents that hold the demands: all of them are compared
MEANING_WEIGHT = 0.7  # of a rank by meaning; by words: 1


class _Ranked(msgspec.Struct, frozen=True):
    """Documents in an order, and how many there are."""

    hits: list[Hit]
    total: int


class HybridSearch:
    """One request. `scores`: of what it says; None: its language is not known to the model."""

    def __init__(self, engine: SearchEngine, request: SearchRequest, scores: PassageScores | None) -> None:
        self._engine, self._scores = engine, scores
        self._request = replace(request, mode="words")
        self._spoken = SpokenQuery.of(request.query)
        self._mode: SearchMode = request.mode
        self._passages: dict[str, tuple[int, int]] = {}  # the nearest, by hash

    def answer(self) -> SearchAnswer:
        near = self._near()
        words = self._all_words() if self._mode == "both" else _Ranked([], 0)
        loose = self._any_word() if self._mode == "both" else []
        by_words = [hit.id for hit in (*words.hits, *loose)]
        found = {hit.id: hit for hit in (*near, *loose, *words.hits)}
        fused = fuse((1.0, by_words), (MEANING_WEIGHT, (hit.id for hit in near)))
        others = self._others(found, words)
        ranked = [replace(found[id_], score=score) for id_, score in fused]
        if self._request.sort != "relevance":
            ranked = _by_date(ranked, newest=self._request.sort == "newest")
        is_near, has_words = {hit.id for hit in near}, {*by_words}
        page = [
            replace(hit, matched=_matched(has_words=hit.id in has_words, is_near=hit.id in is_near))
            for hit in self._with_excerpts(self._page(ranked, words))
        ]
        return SearchAnswer(total=words.total + len(others), hits=page, facets=self._facets(words, others))

    # --- rankings ---

    def _ask(self, query: SearchQuery, **changes: Any) -> SearchAnswer:
        bare = {"limit": DEPTH, "offset": 0, "facets": (), "sort": "relevance", "has_excerpts": False}
        return self._engine.search(replace(self._request, query=query, **(bare | changes)))

    def _all_words(self) -> _Ranked:
        answer = self._ask(self._request.query)
        return _Ranked([], 0) if answer.suggestion else _Ranked(answer.hits, answer.total)

    def _any_word(self) -> list[Hit]:
        if len(self._spoken.words) < 2:
            return []
        answer = self._ask(self._spoken.with_any_word())
        return [] if answer.suggestion else answer.hits

    def _near(self) -> list[Hit]:
        """Return the documents with the nearest passages among those that hold the demands."""
        if self._scores is None:
            return []
        holding = self._ask(self._spoken.demands)
        if holding.suggestion:
            return []
        if holding.total > FEW:
            return self._nearest_holding(self._scores.nearest())
        hits = self._all_pages(holding)
        return self._in_order(hits, self._scores.of(content_of(hit.document.hash) for hit in hits))[:DEPTH]

    def _all_pages(self, first: SearchAnswer, **changes: Any) -> list[Hit]:
        hits = list(first.hits)
        while len(hits) < first.total:
            more = self._ask(self._spoken.demands, offset=len(hits), **changes).hits
            if not more:
                break
            hits += more
        return hits

    def _nearest_holding(self, near: Iterator[NearContent]) -> list[Hit]:
        """Ask the engine which of the nearest hold the demands; of more at once, the fewer do."""
        found, count = list[Hit](), DEPTH
        while len(found) < DEPTH and (some := [*islice(near, count)]):
            filters = replace(self._request.filters, contents=[each.content for each in some])
            hits = self._all_pages(self._ask(self._spoken.demands, filters=filters), filters=filters)
            found += self._in_order(hits, some)
            count *= 4 if len(hits) < count // 4 else 1
        return found[:DEPTH]

    def _in_order(self, hits: Iterable[Hit], near: Iterable[NearContent]) -> list[Hit]:
        """Return hits by how near their contents are, and note the passages."""
        order: dict[str, int] = {}
        for number, each in enumerate(near):
            order[each.content] = number
            self._passages[each.content] = (each.passage.start, each.passage.length)
        placed = [(order.get(content_of(hit.document.hash)), hit) for hit in hits]
        return [hit for number, hit in sorted(((n, h) for n, h in placed if n is not None), key=lambda pair: pair[0])]

    # --- what is shown ---

    def _others(self, found: Mapping[str, Hit], words: _Ranked) -> list[Hit]:
        """Return the documents that do not have all of the words."""
        having = {hit.id for hit in words.hits}
        others = [hit for id_, hit in found.items() if id_ not in having]
        if words.total > len(words.hits) and others:
            filters = replace(self._request.filters, contents=[content_of(hit.document.hash) for hit in others])
            having = {hit.id for hit in self._ask(self._request.query, filters=filters).hits}
        return [hit for hit in others if hit.id not in having]

    def _page(self, ranked: Sequence[Hit], words: _Ranked) -> list[Hit]:
        """Return the hits of the page: of those that were ranked; behind them, of the others with all of the words."""
        offset, limit = max(0, self._request.offset), max(1, min(self._request.limit, MAX_HITS))
        page = list(ranked[offset : offset + limit])
        if len(page) < limit and words.total > len(words.hits):
            skipped = max(0, offset - len(ranked))
            page += islice(self._rest(words, {hit.id for hit in ranked}), skipped, skipped + limit - len(page))
        return page

    def _rest(self, words: _Ranked, ranked: Collection[str]) -> Iterator[Hit]:
        """Yield the documents with all of the words that were not ranked, in the order of the request."""
        offset = 0 if self._request.sort != "relevance" else len(words.hits)
        while some := self._ask(self._request.query, offset=offset, limit=MAX_HITS, sort=self._request.sort).hits:
            yield from (hit for hit in some if hit.id not in ranked)
            offset += len(some)
            if offset > MAX_OFFSET:
                return

    def _with_excerpts(self, page: list[Hit]) -> list[Hit]:
        """Return the hits with excerpts: of what has some of the words where they are, of others their passages."""
        if not (page and self._request.has_excerpts):
            return page
        contents = list(dict.fromkeys(content_of(hit.document.hash) for hit in page))
        filters = replace(self._request.filters, contents=contents)
        shown: dict[str, Hit] = {}
        for query, passages in ((self._spoken.demands, self._passages), (self._spoken.with_any_word(), {})):
            answer = self._ask(query, filters=filters, limit=MAX_HITS, has_excerpts=True, passages=passages)
            shown |= {} if answer.suggestion else {hit.id: hit for hit in answer.hits}
        return [replace(shown.get(hit.id, hit), score=hit.score) for hit in page]

    def _facets(self, words: _Ranked, others: Sequence[Hit]) -> dict[str, list[FacetCount]]:
        names = self._request.facets
        counts: dict[str, Counter[str]] = {name: Counter() for name in names}
        asked = [(self._request.query, self._request.filters)] if names and words.total else []
        if names and others:
            contents = [content_of(hit.document.hash) for hit in others]
            asked.append((self._spoken.demands, replace(self._request.filters, contents=contents)))
        for query, filters in asked:
            for name, found in self._ask(query, filters=filters, facets=names, limit=1).facets.items():
                counts[name].update({each.value: each.count for each in found})
        return {
            name: [FacetCount(value, count) for value, count in counted.most_common(FACET_VALUES)]
            for name, counted in counts.items()
        }


def _matched(*, has_words: bool, is_near: bool) -> SearchMode:
    return "both" if has_words and is_near else "meaning" if is_near else "words"


def _by_date(hits: Iterable[Hit], *, newest: bool) -> list[Hit]:
    unknown = datetime.min.replace(tzinfo=UTC)
    return sorted(hits, key=lambda hit: hit.document.date or unknown, reverse=newest)
