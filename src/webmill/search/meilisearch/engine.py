"""Meilisearch by its address: one index of its own making.

A change is a task: it is waited for. Tasks of an index are done in the order they came, each as a whole. The cursor is
a document of its own, sent with the last of the documents it speaks of, once all before it are in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from webmill.errors import Misconfigured, NotFound
from webmill.infra.batches import batches
from webmill.infra.retry import BackoffPolicy
from webmill.search.address import SearchAddress
from webmill.search.base import (
    FACET_VALUES,
    MAX_HITS,
    MAX_OFFSET,
    FacetCount,
    IndexedDocument,
    SearchAnswer,
    SearchRequest,
    key_of,
)
from webmill.search.document_check import DocumentChecker
from webmill.search.fields import COUNTABLE_FIELDS, TEXT_COLUMNS
from webmill.search.hits import make_hit
from webmill.search.meilisearch.query import (
    EVERYTHING,
    MeilisearchFilter,
    MeilisearchTranslator,
    alternatives,
    to_plain_text,
)
from webmill.search.meilisearch.schema import (
    CURSOR,
    FORMAT,
    HIT_FIELDS,
    SETTINGS,
    WHOLE_FIELDS,
    changed_settings,
    cursor_entry,
    decode_value,
    encode_value,
    entry_id,
    from_entry,
    to_entry,
)
from webmill.search.meilisearch.server import PORT, WRITE_RETRIES, MeilisearchTask, connect, create_index, wait_for
from webmill.search.query import SearchQuery, Term, format_query
from webmill.search.segmentation import split_words
from webmill.search.snippets import highlight_pattern
from webmill.search.spelling import correct_query, max_edits

BATCH, BATCH_BYTES = 5000, 32 << 20
REMOVED_AT_ONCE = 10_000
KEYS_AT_ONCE = 5000
FORMS_AT_ONCE = 1000  # words with the same beginning that are looked at
LOOKED_AT = 20  # documents, for words that were meant
CHECKED = 2000  # documents that are looked through, of what a filter cannot decide; for more, the total is not exact
CHECKED_AT_ONCE = 50  # whole texts, so that an answer of the longest is not refused
MOST_WAYS = 10  # alternatives that are put in order
LAST = 0.001  # the weight of what is found only by a filter; what Meilisearch finds by itself has up to 1


class _MeilisearchReply(msgspec.Struct, rename="camel"):
    hits: list[dict[str, Any]]
    estimated_total_hits: int = 0
    facet_distribution: dict[str, dict[str, int]] = {}


class _FetchReply(msgspec.Struct):
    results: list[dict[str, Any]]
    total: int


class MeilisearchEngine:
    """`create`: make the index where there is none; else `NotFound`. And wait for what was sent to it before."""

    def __init__(self, url: str, *, create: bool = True, policy: BackoffPolicy = WRITE_RETRIES) -> None:
        self._address = SearchAddress.of(url, port=PORT)
        self._server = connect(self._address)
        self._patient = self._server.with_patience(policy)
        self._path = f"/indexes/{self._address.index}"
        if create:
            self._settle()
        try:
            self._check(create=create)
        except NotFound:
            if not create:
                raise NotFound(f"no search index at {self._address.name}") from None
            create_index(self._server, self._address)
            self._check(create=create)

    def _check(self, *, create: bool) -> None:
        """Of an index that is still empty the settings may be missing: whoever made it was killed."""
        about = self._server.ask("GET", self._path, answer=dict[str, Any])
        others = changed_settings(self._server.ask("GET", f"{self._path}/settings", answer=dict[str, Any]))
        if others and create and self._total(None) == 0:
            self._wait(self._server.ask("PATCH", f"{self._path}/settings", SETTINGS, answer=MeilisearchTask))
            others = []
        if others or about.get("primaryKey") != "id":
            said = ", ".join(others) or "primaryKey"
            raise Misconfigured(
                f"{self._address.name}: there is an index with other settings than webmill's ({said}): name another "
                "index, or make this one anew: run `webmill search rebuild DIR`"
            )
        self.cursor()

    # --- changes ---

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        sent = [self._remove(some) for some in _some(map(entry_id, map(key_of, removed)), REMOVED_AT_ONCE)]
        lines = (msgspec.json.encode(to_entry(document)) + b"\n" for document in changed)
        last: list[bytes] = []
        for batch in batches(lines, len, count=BATCH, size=BATCH_BYTES):
            sent += [self._send(last)] if last else []
            last = batch
        for task in sent:
            self._wait(task)
        if cursor is not None:
            last = [*last, msgspec.json.encode(cursor_entry(cursor)) + b"\n"]
        if last:
            self._wait(self._send(last))

    def _send(self, lines: list[bytes]) -> MeilisearchTask:
        return self._patient.ask("POST", f"{self._path}/documents", b"".join(lines), answer=MeilisearchTask)

    def _remove(self, ids: list[str]) -> MeilisearchTask:
        return self._patient.ask("POST", f"{self._path}/documents/delete-batch", ids, answer=MeilisearchTask)

    def clear(self) -> None:
        self._wait(self._patient.ask("DELETE", f"{self._path}/documents", answer=MeilisearchTask))

    def _wait(self, task: MeilisearchTask) -> None:
        wait_for(self._patient, task, name=self._address.name)

    def _settle(self) -> None:
        """What somebody sent who was killed is done, before it is looked at what there is."""
        wanted = f"/tasks?indexUids={self._address.index}&statuses=enqueued,processing&limit=1"
        for task in self._server.ask("GET", wanted, answer=dict[str, Any])["results"]:
            self._wait(MeilisearchTask(task_uid=task["uid"]))

    def close(self) -> None:
        self._server.close()

    # --- what is there ---

    def cursor(self) -> str | None:
        try:
            found = self._server.ask("GET", f"{self._path}/documents/{CURSOR}", answer=dict[str, Any])
        except NotFound as error:
            if "document_not_found" in str(error):
                return None
            raise
        if found.get("format") != FORMAT:
            raise self._address.outdated_error()
        return str(found["cursor"])

    def count(self) -> int:
        return self._total(EVERYTHING)

    def keys(self) -> Iterator[tuple[str, str]]:
        self._settle()
        offset = 0
        while True:
            some = self._fetch(EVERYTHING, ["key", "mark"], offset=offset, limit=KEYS_AT_ONCE).results
            for each in some:
                yield each["key"], each["mark"]
            if len(some) < KEYS_AT_ONCE:
                return
            offset += KEYS_AT_ONCE

    def _total(self, filter_: str | None) -> int:
        return self._fetch(filter_, ["id"], offset=0, limit=1).total

    def _fetch(self, filter_: str | None, fields: list[str], *, offset: int, limit: int) -> _FetchReply:
        wanted = {"filter": filter_, "fields": fields, "offset": offset, "limit": limit}
        return self._server.ask("POST", f"{self._path}/documents/fetch", wanted, answer=_FetchReply)

    def _ask(self, wanted: Mapping[str, object]) -> _MeilisearchReply:
        return self._server.ask("POST", f"{self._path}/search", wanted, answer=_MeilisearchReply)

    # --- search ---

    def search(self, request: SearchRequest) -> SearchAnswer:
        answer = self._answer(request, request.query)
        if answer.total == 0 and (meant := correct_query(request.query, near=self._near, uses=self._uses)):
            other = self._answer(request, meant)
            if other.total:
                return replace(other, suggestion=format_query(meant))
        return answer

    def _answer(self, request: SearchRequest, query: SearchQuery) -> SearchAnswer:
        translator = MeilisearchTranslator(self._beginning, languages=self._languages() if query.parts else ())
        narrowed = translator.narrowed(query, request.filters)
        limit, offset = max(1, min(request.limit, MAX_HITS)), max(0, min(request.offset, MAX_OFFSET))
        search = _RankedQuery(narrowed, query, request.sort, self._weighed(query, translator))
        counted = self._counted(narrowed.filters, request.facets)
        if narrowed.unsure:
            found, left_out = self._checked(search, translator, shown=range(offset, offset + limit))
            total = counted.estimated_total_hits - left_out
            if total == len(found):  # all were looked at: so others are not counted either
                counted = self._counted([_those(found)], request.facets) if request.facets else counted
            found = found[offset : offset + limit]
        else:
            total, found = counted.estimated_total_hits, self._page(search, offset=offset, limit=limit)
        pattern = highlight_pattern(query.terms, also=translator.forms)
        hits = [make_hit(document, score=score, pattern=pattern) for score, document in found]
        return SearchAnswer(total=total, hits=hits, facets=_counts(counted, request.facets))

    def _counted(self, filters: list[str], names: Sequence[str]) -> _MeilisearchReply:
        fields = sorted({COUNTABLE_FIELDS.get(name, "facet") for name in names})
        return self._ask({"q": "", "filter": filters, "limit": 0, "facets": fields})

    def _page(
        self, search: _RankedQuery, *, offset: int, limit: int, fields: Sequence[str] = HIT_FIELDS
    ) -> list[tuple[float, IndexedDocument]]:
        wanted = search.wanted(self._address.index, offset=offset, limit=limit, fields=fields)
        if search.sort != "relevance":
            return [(0.0, from_entry(hit)) for hit in self._ask(wanted).hits]
        hits = self._server.ask("POST", "/multi-search", wanted, answer=_MeilisearchReply).hits
        return [(float(hit["_federation"]["weightedRankingScore"]), from_entry(hit)) for hit in hits]

    def _checked(
        self, search: _RankedQuery, translator: MeilisearchTranslator, *, shown: range
    ) -> tuple[list[tuple[float, IndexedDocument]], int]:
        """Those that are shown, with others before and after them, without their texts; and how many were none."""
        found: list[tuple[float, IndexedDocument]] = []
        seen = 0
        while seen < MAX_OFFSET + MAX_HITS and (len(found) < shown.stop or seen < CHECKED):
            some = self._page(search, offset=seen, limit=CHECKED_AT_ONCE, fields=WHOLE_FIELDS)
            for score, document in some:
                checker = DocumentChecker(document, matching=translator.matching)
                if all(checker.holds(part) for part in search.narrowed.unsure):
                    found.append((score, document if len(found) in shown else replace(document, text=None)))
            seen += len(some)
            if len(some) < CHECKED_AT_ONCE:
                break
        return found, seen - len(found)

    def _weighed(self, query: SearchQuery, translator: MeilisearchTranslator) -> list[tuple[str, float]]:
        """What to put first, and how far: rare words before common ones, which Meilisearch does not do by itself."""
        found = list(islice(alternatives(query), MOST_WAYS))
        if len(found) < 2:
            return [(text, 1.0) for _, text in found]
        everything = self.count()
        rarity = [
            math.log(1 + everything / (1 + self._total(translator.one(term)[0])))
            for term, _ in found
            if term is not None
        ]
        return [(text, each / max(rarity)) for (_, text), each in zip(found, rarity, strict=True)]

    def _languages(self) -> list[str]:
        return [*map(decode_value, self._counted([EVERYTHING], ["language"]).facet_distribution.get("language", ()))]

    def _beginning(self, field: str, start: str) -> list[str]:
        """Meilisearch finds similar ones too."""
        wanted = {"facetName": f"words.{field}", "facetQuery": encode_value(start)}
        found = self._server.ask("POST", f"{self._path}/facet-search", wanted, answer=dict[str, Any])["facetHits"]
        words = (decode_value(each["value"]) for each in found)
        return [*islice((word for word in words if word.startswith(start)), FORMS_AT_ONCE)]

    def _uses(self, word: str) -> int:
        return self._total(" OR ".join(f'words.{name} = "{encode_value(word)}"' for name in TEXT_COLUMNS))

    def _near(self, word: str) -> set[str]:
        """Words of documents that have one like it."""
        if not max_edits(word):
            return set()
        found = self._ask({"q": to_plain_text([Term(word)]), "limit": LOOKED_AT, "attributesToRetrieve": TEXT_COLUMNS})
        return {each for hit in found.hits for name in TEXT_COLUMNS for each in split_words(hit.get(name, ""))}


class _RankedQuery(msgspec.Struct, frozen=True):
    narrowed: MeilisearchFilter
    query: SearchQuery
    sort: str
    weighed: list[tuple[str, float]]

    def wanted(self, index: str, *, offset: int, limit: int, fields: Sequence[str]) -> dict[str, object]:
        """What Meilisearch puts first by its own rules, and after it the rest of what is found."""
        one = {"filter": self.narrowed.filters, "attributesToRetrieve": fields}
        if self.sort != "relevance":
            order = "date:asc" if self.sort == "oldest" else "date:desc"
            return {**one, "q": "", "sort": [order], "offset": offset, "limit": limit}
        queries = [
            {**one, "indexUid": index, "q": text, "federationOptions": {"weight": weight}}
            for text, weight in (*((text, weight) for text, weight in self.weighed if text), ("", LAST))
        ]
        return {"federation": {"offset": offset, "limit": limit}, "queries": queries}


def _those(found: list[tuple[float, IndexedDocument]]) -> str:
    names = ", ".join(f'"{entry_id(document.key)}"' for _, document in found)
    return f"id IN [{names}]"


def _counts(found: _MeilisearchReply, names: Sequence[str]) -> dict[str, list[FacetCount]]:
    counts = {}
    for name in names:
        field, start = COUNTABLE_FIELDS.get(name, "facet"), "" if name in COUNTABLE_FIELDS else f"{name}="
        values = ((decode_value(code), count) for code, count in found.facet_distribution.get(field, {}).items())
        some = [FacetCount(value[len(start) :], count) for value, count in values if value.startswith(start)]
        counts[name] = sorted(some, key=lambda each: -each.count)[:FACET_VALUES]
    return counts


def _some(values: Iterable[str], most: int) -> Iterator[list[str]]:
    every = iter(values)
    while some := [*islice(every, most)]:
        yield some
