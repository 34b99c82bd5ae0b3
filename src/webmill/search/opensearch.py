"""OpenSearch, and Elasticsearch 7, by their address: one index of their own making.

A batch is durable when it is answered, item by item. The cursor is written after all that it speaks of: it is part of
what the index says of itself (`_meta`), and changes as a whole.
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
    DEEPEST,
    FACET_VALUES,
    MOST_HITS,
    FacetCount,
    IndexedDocument,
    SearchAnswer,
    SearchRequest,
    key_of,
)
from webmill.search.fields import COUNTED, TEXTS
from webmill.search.hits import hit_of
from webmill.search.opensearch_index import FORMAT, body, entry, id_of, is_ours, meta
from webmill.search.opensearch_place import CHANGING, PORT, delete, server_of
from webmill.search.opensearch_query import Clause, OpenSearchTranslator, beginning_with, like, with_word
from webmill.search.query import SearchQuery, text_of
from webmill.search.similar import corrected, letters_wrong
from webmill.search.snippets import pattern_of
from webmill.search.words import words_of

BATCH, BATCH_BYTES = 500, 8 << 20
KEYS_AT_ONCE = 5000
FORMS_AT_ONCE = 1000  # words with the same beginning that are looked at
LANGUAGES = 100  # whose forms of words are known
LONGEST_NAME = 1000  # of a facet
LOOKED_AT = 20  # documents, for words that were meant


class _Item(msgspec.Struct):
    status: int
    error: object = None


class _Done(msgspec.Struct):
    errors: bool
    items: list[dict[str, _Item]]


class _OpenSearchFound(msgspec.Struct):
    hits: dict[str, Any]
    aggregations: dict[str, Any] = {}

    @property
    def total(self) -> int:
        return int(self.hits["total"]["value"])

    def values(self, name: str) -> list[tuple[str, int]]:
        return [(each["key"], each["doc_count"]) for each in self.aggregations[name]["buckets"]]


class OpenSearchEngine:
    """`create`: make the index where there is none; else `NotFound`."""

    def __init__(self, url: str, *, create: bool = True, policy: BackoffPolicy = CHANGING) -> None:
        self._address = SearchAddress.of(url, port=PORT)
        self._server = server_of(self._address)
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
            self._server.ask("PUT", self._path, body(), answer=dict)
        except BadInput as error:
            if "resource_already_exists" not in str(error):  # somebody was first, or the answer before was lost
                raise
            self.cursor()

    # --- changes ---

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        for batch in batches(_lines(changed, removed), len, count=BATCH, size=BATCH_BYTES):
            retrying(partial(self._send, batch), policy=CHANGING)
        self._patient.ask("POST", f"{self._path}/_refresh", answer=dict)
        if cursor is not None:
            self._patient.ask("PUT", f"{self._path}/_mapping", meta(cursor), answer=dict)

    def _send(self, batch: list[bytes]) -> None:
        """Every document may be sent again: what is there already is replaced by itself."""
        done = self._patient.ask("POST", f"{self._path}/_bulk", b"".join(batch), answer=_Done)
        if not done.errors:
            return
        failed = [item for each in done.items for item in each.values() if item.status not in (200, 201, 404)]
        if failed:
            said = f"{self._address.name} refuses documents: {str(failed[0].error)[:300]}"
            may_pass = all(item.status == 429 or item.status >= 500 for item in failed)
            raise Unavailable(said) if may_pass else Misconfigured(said)

    def clear(self) -> None:
        delete(self._patient, self._address)
        self._make()

    def close(self) -> None:
        self._server.close()

    # --- what is there ---

    def cursor(self) -> str | None:
        found = self._server.ask("GET", f"{self._path}/_mapping", answer=dict[str, Any])
        try:
            [mappings] = (each["mappings"] for each in found.values())
            note = mappings["_meta"]["webmill"]
            format_, cursor = note["format"], note["cursor"]
        except (KeyError, TypeError, ValueError):
            raise self._address.has_stranger() from None
        if format_ != FORMAT or not is_ours(mappings.get("properties", {})):
            raise self._address.is_outdated()
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

    def _ask(self, wanted: Mapping[str, object], **options: str) -> _OpenSearchFound:
        asked_for = f"?{urlencode(options)}" if options else ""
        return self._server.ask("POST", f"{self._path}/_search{asked_for}", wanted, answer=_OpenSearchFound)

    # --- search ---

    def search(self, request: SearchRequest) -> SearchAnswer:
        answer = self._answer(request, request.query)
        if answer.total == 0 and (meant := corrected(request.query, near=self._near, uses=self._uses)):
            other = self._answer(request, meant)
            if other.total:
                return msgspec.structs.replace(other, suggestion=text_of(meant))
        return answer

    def _answer(self, request: SearchRequest, query: SearchQuery) -> SearchAnswer:
        translator = OpenSearchTranslator(self._beginning, languages=self._languages() if query.parts else ())
        found = self._ask(
            {
                "query": translator.whole(query, request.filters),
                "size": max(1, min(request.limit, MOST_HITS)),
                "from": max(0, min(request.offset, DEEPEST)),
                "track_total_hits": True,
                "aggs": {f"n{number}": _counting(name) for number, name in enumerate(request.facets)},
                **_order(request),
            }
        )
        pattern = pattern_of(query.terms, also=translator.forms)
        hits = [
            hit_of(
                msgspec.convert(hit["_source"]["document"], IndexedDocument),
                score=hit["_score"] or 0.0,
                pattern=pattern,
            )
            for hit in found.hits["hits"]
        ]
        facets = {name: _counts(name, found.values(f"n{number}")) for number, name in enumerate(request.facets)}
        return SearchAnswer(total=found.total, hits=hits, facets=facets)

    def _languages(self) -> list[str]:
        return self._words("language", "", most=LANGUAGES, query={"match_all": {}})

    def _beginning(self, start: str) -> list[str]:
        return self._words("words", start, most=FORMS_AT_ONCE, query={"prefix": {"words": {"value": start}}})

    def _words(self, field: str, start: str, *, most: int, query: Clause) -> list[str]:
        """The server keeps the answer until the index changes."""
        terms = {"field": field, "include": beginning_with(start), "size": most, "order": {"_key": "asc"}}
        found = self._ask({"size": 0, "query": query, "aggs": {"found": {"terms": terms}}}, request_cache="true")
        return [value for value, _ in found.values("found")]

    def _uses(self, word: str) -> int:
        return self._ask({"size": 0, "query": with_word(word), "track_total_hits": True}).total

    def _near(self, word: str) -> set[str]:
        """Words of documents that have one like it."""
        most = letters_wrong(word)
        if not most:
            return set()
        near: set[str] = set()
        for hit in self._ask({"size": LOOKED_AT, "query": like(word, letters=most)}).hits["hits"]:
            document = hit["_source"]["document"]
            near.update(words_of(" ".join(document.get(name, "") for name in TEXTS)))
        return near


def _lines(changed: Iterable[IndexedDocument], removed: Iterable[str]) -> Iterator[bytes]:
    """An order and what it needs, each in one piece. Of one document the last order holds."""
    for id_ in removed:
        yield msgspec.json.encode({"delete": {"_id": id_of(key_of(id_))}}) + b"\n"
    for document in changed:
        order = msgspec.json.encode({"index": {"_id": id_of(document.key)}})
        yield order + b"\n" + msgspec.json.encode(entry(document)) + b"\n"


def _order(request: SearchRequest) -> dict[str, object]:
    if request.sort == "relevance":
        return {"sort": ["_score", "_doc"]}
    return {"sort": [{"date": "asc" if request.sort == "oldest" else "desc"}, "_doc"]}


def _counting(name: str) -> dict[str, object]:
    if name in COUNTED:
        return {"terms": {"field": COUNTED[name], "size": FACET_VALUES}}
    return {"terms": {"field": "facet", "include": beginning_with(f"{name[:LONGEST_NAME]}="), "size": FACET_VALUES}}


def _counts(name: str, found: Sequence[tuple[str, int]]) -> list[FacetCount]:
    start = 0 if name in COUNTED else len(name) + 1
    return [FacetCount(value[start:], count) for value, count in found]
