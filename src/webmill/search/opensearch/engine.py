"""The engine for an OpenSearch or Elasticsearch 7 server, with one index that webmill makes.

A batch is durable when it is answered, item by item. The cursor is written after everything before it: it is part of
the metadata of the index (`_meta`), and changes atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec

from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable
from webmill.infra.batches import batches
from webmill.infra.retry import BackoffPolicy, retrying
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
from webmill.search.fields import COUNTABLE_FIELDS, TEXT_COLUMNS
from webmill.search.hits import HitMaker
from webmill.search.opensearch.query import Clause, OpenSearchTranslator, prefix_pattern, similar_words, with_word
from webmill.search.opensearch.schema import FORMAT, cursor_meta, entry_id, has_our_fields, index_body, to_entry
from webmill.search.opensearch.server import PORT, WRITE_RETRIES, connect, delete_real_indexes
from webmill.search.query import SearchQuery, format_query
from webmill.search.segmentation import split_words
from webmill.search.spelling import correct_query, max_edits

BATCH, BATCH_BYTES = 500, 8 << 20
KEYS_AT_ONCE = 5000
FORMS_AT_ONCE = 1000  # words with the same prefix that are checked
MAX_LANGUAGES = 100  # whose word forms are looked up
LONGEST_NAME = 1000  # of a facet
CORRECTION_DOCUMENTS = 20  # searched for similar words


class _BulkItem(msgspec.Struct):
    status: int
    error: object = None


class _BulkReply(msgspec.Struct):
    errors: bool
    items: list[dict[str, _BulkItem]]


class _OpenSearchReply(msgspec.Struct):
    hits: dict[str, Any]
    aggregations: dict[str, Any] = {}

    @property
    def total(self) -> int:
        return int(self.hits["total"]["value"])

    def values(self, name: str) -> list[tuple[str, int]]:
        return [(each["key"], each["doc_count"]) for each in self.aggregations[name]["buckets"]]


class OpenSearchEngine:
    """`create`: make the index where there is none; else `NotFound`."""

    def __init__(self, url: str, *, create: bool = True, policy: BackoffPolicy = WRITE_RETRIES) -> None:
        self._address = SearchAddress.of(url, port=PORT)
        self._server = connect(self._address)
        self._patient = self._server.with_patience(policy)
        self._path = f"/{self._address.index}"
        try:
            self.cursor()
        except NotFound:
            if not create:
                raise NotFound(f"no search index at {self._address.name}") from None
            self._make()

    def _make(self) -> None:
        try:
            self._server.ask("PUT", self._path, index_body(), answer=dict)
        except BadInput as error:
            if "resource_already_exists" not in str(error):  # another process was first, or our first answer was lost
                raise
            self.cursor()

    # --- changes ---

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        for batch in batches(_lines(changed, removed), len, count=BATCH, size=BATCH_BYTES):
            retrying(partial(self._send, batch), policy=WRITE_RETRIES)
        self._patient.ask("POST", f"{self._path}/_refresh", answer=dict)
        if cursor is not None:
            self._patient.ask("PUT", f"{self._path}/_mapping", cursor_meta(cursor), answer=dict)

    def _send(self, batch: list[bytes]) -> None:
        """Send a batch. It may be sent again: a document replaces itself."""
        done = self._patient.ask("POST", f"{self._path}/_bulk", b"".join(batch), answer=_BulkReply)
        if not done.errors:
            return
        failed = [item for each in done.items for item in each.values() if item.status not in (200, 201, 404)]
        if failed:
            message = f"{self._address.name} refuses documents: {str(failed[0].error)[:300]}"
            may_pass = all(item.status == 429 or item.status >= 500 for item in failed)
            raise Unavailable(message) if may_pass else Misconfigured(message)

    def clear(self) -> None:
        delete_real_indexes(self._patient, self._address)
        self._make()

    def close(self) -> None:
        self._server.close()

    # --- contents ---

    def cursor(self) -> str | None:
        found = self._server.ask("GET", f"{self._path}/_mapping", answer=dict[str, Any])
        try:
            [mappings] = (each["mappings"] for each in found.values())
            note = mappings["_meta"]["webmill"]
            format_, cursor = note["format"], note["cursor"]
        except (KeyError, TypeError, ValueError):
            raise self._address.foreign_index_error() from None
        if format_ != FORMAT or not has_our_fields(mappings.get("properties", {})):
            raise self._address.outdated_error()
        return None if cursor is None else str(cursor)

    def count(self) -> int:
        return int(self._server.ask("GET", f"{self._path}/_count", answer=dict[str, Any])["count"])

    def keys(self) -> Iterator[tuple[str, str]]:
        wanted = {"size": KEYS_AT_ONCE, "sort": [{"key": "asc"}], "_source": False, "docvalue_fields": ["key", "mark"]}
        after: dict[str, object] = {}
        while True:
            hits = self._ask({**wanted, **after}).hits["hits"]
            for hit in hits:
                yield hit["fields"]["key"][0], hit["fields"]["mark"][0]
            if len(hits) < KEYS_AT_ONCE:
                return
            after = {"search_after": hits[-1]["sort"]}

    def _ask(self, wanted: Mapping[str, object], **options: str) -> _OpenSearchReply:
        parameters = f"?{urlencode(options)}" if options else ""
        return self._server.ask("POST", f"{self._path}/_search{parameters}", wanted, answer=_OpenSearchReply)

    # --- search ---

    def search(self, request: SearchRequest) -> SearchAnswer:
        answer = self._answer(request, request.query)
        if answer.total == 0 and (correction := correct_query(request.query, near=self._near, uses=self._uses)):
            corrected = self._answer(request, correction)
            if corrected.total:
                return msgspec.structs.replace(corrected, suggestion=format_query(correction))
        return answer

    def _answer(self, request: SearchRequest, query: SearchQuery) -> SearchAnswer:
        translator = OpenSearchTranslator(self._words_with_prefix, languages=self._languages() if query.parts else ())
        found = self._ask(
            {
                "query": translator.translate(query, request.filters),
                "size": max(1, min(request.limit, MAX_HITS)),
                "from": max(0, min(request.offset, MAX_OFFSET)),
                "track_total_hits": True,
                "aggs": {f"n{number}": _counting(name) for number, name in enumerate(request.facets)},
                **_order(request),
            }
        )
        make = HitMaker(request, query.terms, forms=translator.forms)
        hits = [
            make(msgspec.convert(hit["_source"]["document"], IndexedDocument), score=hit["_score"] or 0.0)
            for hit in found.hits["hits"]
        ]
        facets = {name: _counts(name, found.values(f"n{number}")) for number, name in enumerate(request.facets)}
        return SearchAnswer(total=found.total, hits=hits, facets=facets)

    def _languages(self) -> list[str]:
        return self._words("language", "", most=MAX_LANGUAGES, query={"match_all": {}})

    def _words_with_prefix(self, start: str) -> list[str]:
        return self._words("words", start, most=FORMS_AT_ONCE, query={"prefix": {"words": {"value": start}}})

    def _words(self, field: str, start: str, *, most: int, query: Clause) -> list[str]:
        """Return words of a field by prefix. The server caches the answer until the index changes."""
        terms = {"field": field, "include": prefix_pattern(start), "size": most, "order": {"_key": "asc"}}
        found = self._ask({"size": 0, "query": query, "aggs": {"found": {"terms": terms}}}, request_cache="true")
        return [value for value, _ in found.values("found")]

    def _uses(self, word: str) -> int:
        return self._ask({"size": 0, "query": with_word(word), "track_total_hits": True}).total

    def _near(self, word: str) -> set[str]:
        """Return the words of documents that have a similar one."""
        most = max_edits(word)
        if not most:
            return set()
        near: set[str] = set()
        for hit in self._ask({"size": CORRECTION_DOCUMENTS, "query": similar_words(word, letters=most)}).hits["hits"]:
            document = hit["_source"]["document"]
            near.update(split_words(" ".join(document.get(name, "") for name in TEXT_COLUMNS)))
        return near


def _lines(changed: Iterable[IndexedDocument], removed: Iterable[str]) -> Iterator[bytes]:
    """Yield bulk actions, each with its document. Of one document the last action holds."""
    for id_ in removed:
        yield msgspec.json.encode({"delete": {"_id": entry_id(key_of(id_))}}) + b"\n"
    for document in changed:
        action = msgspec.json.encode({"index": {"_id": entry_id(document.key)}})
        yield action + b"\n" + msgspec.json.encode(to_entry(document)) + b"\n"


def _order(request: SearchRequest) -> dict[str, object]:
    if request.sort == "relevance":
        return {"sort": ["_score", "_doc"]}
    return {"sort": [{"date": "asc" if request.sort == "oldest" else "desc"}, "_doc"]}


def _counting(name: str) -> dict[str, object]:
    if name in COUNTABLE_FIELDS:
        return {"terms": {"field": COUNTABLE_FIELDS[name], "size": FACET_VALUES}}
    return {"terms": {"field": "facet", "include": prefix_pattern(f"{name[:LONGEST_NAME]}="), "size": FACET_VALUES}}


def _counts(name: str, found: Sequence[tuple[str, int]]) -> list[FacetCount]:
    start = 0 if name in COUNTABLE_FIELDS else len(name) + 1
    return [FacetCount(value[start:], count) for value, count in found]
