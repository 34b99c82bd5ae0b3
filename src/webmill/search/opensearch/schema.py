"""The fields of a document in OpenSearch. It analyses nothing itself: it gets words and bigrams separated by spaces, as
the built-in engine splits them, so that all engines find the same.

title, text, url…          searched columns: words in lower case, without accents, with placeholders for bigram runs
title_pairs, text_pairs…   those runs, as overlapping bigrams
words                      all words of these but of URLs, to look them up by prefix
key, content, mark, site, domain, language, facet, date…   as they are
document                   for hits; not searched
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from webmill.search.base import MAX_HITS, MAX_OFFSET, TEXT_KEPT, IndexedDocument
from webmill.search.fields import (
    SEARCHED_COLUMNS,
    TEXT_COLUMNS,
    content_of,
    domains_of,
    facets_of,
    fingerprint,
    host_of,
    sites_of,
    texts_of,
    times_of,
    tokenize,
)
from webmill.search.query import TIME_COLUMNS
from webmill.search.segmentation import RUN_PLACEHOLDER, bigrams

FORMAT = fingerprint(3)  # of the fields; an index of another format must be rebuilt
LONGEST_VALUE = 2000  # characters of a facet or a language; Lucene has terms of 32 KiB

_WORDS: dict[str, object] = {"type": "text", "analyzer": "whitespace", "index_options": "positions"}
_VALUE: dict[str, object] = {"type": "keyword"}
FIELDS: dict[str, dict[str, object]] = {
    **dict.fromkeys((*SEARCHED_COLUMNS, *(f"{name}_pairs" for name in TEXT_COLUMNS)), _WORDS),
    **dict.fromkeys(("words", "key", "content", "site", "domain", "language", "facet"), _VALUE),
    "mark": {"type": "keyword", "index": False},
    **{name: {"type": "long"} for name in TIME_COLUMNS},
    "document": {"type": "object", "enabled": False},
}


def index_body(cursor: str | None = None) -> dict[str, object]:
    """Return the request that creates an index. Answered writes are on disk, whatever the server's default is."""
    settings = {
        "index.translog.durability": "request",
        "index.max_result_window": MAX_OFFSET + MAX_HITS,
        "index.max_regex_length": 10_000,
    }
    mappings = {"dynamic": "strict", "_source": {"includes": ["document"]}, "properties": FIELDS}
    return {"settings": settings, "mappings": {**mappings, **cursor_meta(cursor)}}


def cursor_meta(cursor: str | None) -> dict[str, object]:
    """Return the metadata that hold the cursor, so that no document has to."""
    return {"_meta": {"webmill": {"format": FORMAT, "cursor": cursor}}}


def has_our_fields(properties: Mapping[str, Mapping[str, object]]) -> bool:
    """Whether all our fields are there with our types."""
    kinds = ("type", "analyzer", "enabled", "index")
    return all(
        properties.get(name, {}).get(kind, "object" if kind == "type" else None) == field.get(kind)
        for name, field in FIELDS.items()
        for kind in kinds
    )


def entry_id(key: str) -> str:
    """Return the hash of a key: an id has at most 512 bytes."""
    return blake2b(key.encode(errors="surrogatepass"), digest_size=20).hexdigest()


def to_entry(document: IndexedDocument) -> dict[str, Any]:
    host, texts = host_of(document.url), texts_of(document)
    words = {name: tokenize(text) for name, text in texts.items()}
    kept = {**texts, "text": texts["text"][:TEXT_KEPT]}
    return {
        "key": document.key,
        "mark": shorten(document.revision),
        **{name: " ".join(found) for name, found in words.items()},
        **{f"{name}_pairs": bigrams(texts[name]) for name in TEXT_COLUMNS},
        "words": sorted({word for name in TEXT_COLUMNS for word in words[name]} - {RUN_PLACEHOLDER}),
        "content": content_of(document.hash),
        "site": sites_of(host),
        "domain": domains_of(host),
        "language": [shorten(document.language.lower())] if document.language else [],
        "facet": [shorten(facet) for facet in facets_of(document)],
        **times_of(document),
        "document": msgspec.to_builtins(msgspec.structs.replace(document, **kept)),
    }


def shorten(value: str) -> str:
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…{entry_id(value)}"
