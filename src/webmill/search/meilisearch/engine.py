"""The engine for a Meilisearch server, with one index that webmill makes.

A change is a task, which we wait for. Tasks of an index run in order, each atomically. The cursor is a document of its
own, sent with the last documents before it, once all others are in.
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
from webmill.search.hits import HitMaker
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
from webmill.search.spelling import correct_query, max_edits

BATCH, BATCH_BYTES = 5000, 32 << 20
REMOVED_AT_ONCE = 10_000
KEYS_AT_ONCE = 5000
FORMS_AT_ONCE = 1000  # words with the same prefix that are checked
CORRECTION_DOCUMENTS = 20  # searched for similar words
CHECKED = 2000  # documents checked where a filter cannot decide; with more, the total is not exact
CHECKED_AT_ONCE = 50  # whole texts, so that an answer with the longest is not refused
MOST_WAYS = 10  # alternatives that are ranked
LAST = 0.001  # weight of what only a filter finds; what Meilisearch finds itself has up to 1


class _MeilisearchReply(msgspec.Struct, rename="camel"):
    hits: list[dict[str, Any]]
    estimated_total_hits: int = 0
    facet_distribution: dict[str, dict[str, int]] = {}


class _FetchReply(msgspec.Struct):
    results: list[dict[str, Any]]
    total: int


class MeilisearchEngine:
    """`create`: make the index where there is none, else `NotFound`; then wait for its pending tasks."""

    def __init__(self, url: str, *, create: bool = True, policy: BackoffPolicy = WRITE_RETRIES) -> None:
        self._address = SearchAddress.of(url, port=PORT)
        self._server = connect(self._address)
        self._patient = self._server.with_patience(policy)
        self._path = f"/indexes/{self._address.index}"
        if create:
            self._wait_for_pending()
        try:
            self._check(create=create)
        except NotFound:
            if not create:
                raise NotFound(f"no search index at {self._address.name}") from None
            create_index(self._server, self._address)
            self._check(create=create)

    def _check(self, *, create: bool) -> None:
        """Check the settings of the index. An empty one may lack them: whoever made it was killed."""
        about = self._server.ask("GET", self._path, answer=dict[str, Any])
        others = changed_settings(self._server.ask("GET", f"{self._path}/settings", answer=dict[str, Any]))
        if others and create and self._total(None) == 0:
            self._wait(self._server.ask("PATCH", f"{self._path}/settings", SETTINGS, answer=MeilisearchTask))
            others = []
        if others or about.get("primaryKey") != "id":
            names = ", ".join(others) or "primaryKey"
            raise Misconfigured(
                f"{self._address.name} has other settings than webmill's ({names}): name another index, or run "
                "`webmill search rebuild DIR`"
            )
        self.cursor()

    # --- changes ---

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        sent = [self._remove(some) for some in _batches(map(entry_id, map(key_of, removed)), REMOVED_AT_ONCE)]
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

    def _wait_for_pending(self) -> None:
        """Wait for tasks that were sent before, perhaps by a process that was killed."""
        wanted = f"/tasks?indexUids={self._address.index}&statuses=enqueued,processing&limit=1"
        for task in self._server.ask("GET", wanted, answer=dict[str, Any])["results"]:
            self._wait(MeilisearchTask(task_uid=task["uid"]))

    def close(self) -> None:
        self._server.close()

    # --- contents ---

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
        self._wait_for_pending()
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
        if answer.total == 0 and (correction := correct_query(request.query, near=self._near, uses=self._uses)):
            corrected = self._answer(request, correction)
            if corrected.total:
                return replace(corrected, suggestion=format_query(correction))
        return answer

    def _answer(self, request: SearchRequest, query: SearchQuery) -> SearchAnswer:
        translator = MeilisearchTranslator(self._words_with_prefix, languages=self._languages() if query.parts else ())
        filtered = translator.translate(query, request.filters)
        limit, offset = max(1, min(request.limit, MAX_HITS)), max(0, min(request.offset, MAX_OFFSET))
        search = _RankedQuery(filtered, query, request.sort, self._weigh(query, translator))
        counted = self._count(filtered.filters, request.facets)
        if filtered.unsure:
            found, left_out = self._check_documents(search, translator, shown=range(offset, offset + limit))
            total = counted.estimated_total_hits - left_out
            if total == len(found):  # all were checked, so that facets can be counted exactly
                counted = self._count([_filter_by_ids(found)], request.facets) if request.facets else counted
            found = found[offset : offset + limit]
        else:
            total, found = counted.estimated_total_hits, self._page(search, offset=offset, limit=limit)
        make = HitMaker(request, query.terms, forms=translator.forms)
        hits = [make(document, score=score) for score, document in found]
        return SearchAnswer(total=total, hits=hits, facets=_counts(counted, request.facets))

    def _count(self, filters: list[str], names: Sequence[str]) -> _MeilisearchReply:
        fields = sorted({COUNTABLE_FIELDS.get(name, "facet") for name in names})
        return self._ask({"q": "", "filter": filters, "limit": 0, "facets": fields})

    def _page(
        self, search: _RankedQuery, *, offset: int, limit: int, fields: Sequence[str] = HIT_FIELDS
    ) -> list[tuple[float, IndexedDocument]]:
        wanted = search.request(self._address.index, offset=offset, limit=limit, fields=fields)
        if search.sort != "relevance":
            return [(0.0, from_entry(hit)) for hit in self._ask(wanted).hits]
        hits = self._server.ask("POST", "/multi-search", wanted, answer=_MeilisearchReply).hits
        return [(float(hit["_federation"]["weightedRankingScore"]), from_entry(hit)) for hit in hits]

    def _check_documents(
        self, search: _RankedQuery, translator: MeilisearchTranslator, *, shown: range
    ) -> tuple[list[tuple[float, IndexedDocument]], int]:
        """Return the matching documents, with texts only for those shown; and how many did not match."""
        found: list[tuple[float, IndexedDocument]] = []
        seen = 0
        while seen < MAX_OFFSET + MAX_HITS and (len(found) < shown.stop or seen < CHECKED):
            some = self._page(search, offset=seen, limit=CHECKED_AT_ONCE, fields=WHOLE_FIELDS)
            for score, document in some:
                checker = DocumentChecker(document, matching=translator.matching)
                if all(checker.matches(part) for part in search.filtered.unsure):
                    found.append((score, document if len(found) in shown else replace(document, text=None)))
            seen += len(some)
            if len(some) < CHECKED_AT_ONCE:
                break
        return found, seen - len(found)

    def _weigh(self, query: SearchQuery, translator: MeilisearchTranslator) -> list[tuple[str, float]]:
        """Return the alternatives with their weights: rare words first, which Meilisearch does not do itself."""
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
        return [*map(decode_value, self._count([EVERYTHING], ["language"]).facet_distribution.get("language", ()))]

    def _words_with_prefix(self, field: str, start: str) -> list[str]:
        """Return the words of a field that begin so; Meilisearch returns similar ones too."""
        wanted = {"facetName": f"words.{field}", "facetQuery": encode_value(start)}
        found = self._server.ask("POST", f"{self._path}/facet-search", wanted, answer=dict[str, Any])["facetHits"]
        words = (decode_value(each["value"]) for each in found)
        return [*islice((word for word in words if word.startswith(start)), FORMS_AT_ONCE)]

    def _uses(self, word: str) -> int:
        return self._total(" OR ".join(f'words.{name} = "{encode_value(word)}"' for name in TEXT_COLUMNS))

    def _near(self, word: str) -> set[str]:
        """Return the words of documents that have a similar one."""
        if not max_edits(word):
            return set()
        found = self._ask(
            {"q": to_plain_text([Term(word)]), "limit": CORRECTION_DOCUMENTS, "attributesToRetrieve": TEXT_COLUMNS}
        )
        return {each for hit in found.hits for name in TEXT_COLUMNS for each in split_words(hit.get(name, ""))}


class _RankedQuery(msgspec.Struct, frozen=True):
    filtered: MeilisearchFilter
    query: SearchQuery
    sort: str
    weighed: list[tuple[str, float]]

    def request(self, index: str, *, offset: int, limit: int, fields: Sequence[str]) -> dict[str, object]:
        """Return the request: first what Meilisearch ranks by its own rules, then the rest of what matches."""
        one = {"filter": self.filtered.filters, "attributesToRetrieve": fields}
        if self.sort != "relevance":
            order = "date:asc" if self.sort == "oldest" else "date:desc"
            return {**one, "q": "", "sort": [order], "offset": offset, "limit": limit}
        queries = [
            {**one, "indexUid": index, "q": text, "federationOptions": {"weight": weight}}
            for text, weight in (*((text, weight) for text, weight in self.weighed if text), ("", LAST))
        ]
        return {"federation": {"offset": offset, "limit": limit}, "queries": queries}


def _filter_by_ids(found: list[tuple[float, IndexedDocument]]) -> str:
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


def _batches(values: Iterable[str], most: int) -> Iterator[list[str]]:
    every = iter(values)
    while some := [*islice(every, most)]:
        yield some
