"""What OpenSearch keeps of a document, under which fields. It cuts nothing itself: it gets words and pairs with spaces
between them, as the engine that comes along cuts them, so that all engines find the same.

title, text, url…          searched columns: words, lower-cased, without accents, with holes for runs of paired scripts
title_pairs, text_pairs…   those runs, as overlapping pairs of characters
words                      all words of these but addresses, to look up which ones begin so
key, mark, site, domain, language, facet, date…   as they are
document                   for hits; not searched
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from webmill.search.base import DEEPEST, MOST_HITS, TEXT_KEPT, IndexedDocument
from webmill.search.fields import (
    SEARCHED,
    TEXTS,
    cut,
    domains_of,
    facets_of,
    fingerprint,
    host_of,
    sites_of,
    texts_of,
    times_of,
)
from webmill.search.query import TIMES
from webmill.search.words import HOLE, pairs

FORMAT = fingerprint(2)  # of the fields: an index of another one is built anew
LONGEST_VALUE = 2000  # characters of a facet or a language; Lucene has terms of 32 KiB

_WORDS: dict[str, object] = {"type": "text", "analyzer": "whitespace", "index_options": "positions"}
_VALUE: dict[str, object] = {"type": "keyword"}
FIELDS: dict[str, dict[str, object]] = {
    **dict.fromkeys((*SEARCHED, *(f"{name}_pairs" for name in TEXTS)), _WORDS),
    **dict.fromkeys(("words", "key", "site", "domain", "language", "facet"), _VALUE),
    "mark": {"type": "keyword", "index": False},
    **{name: {"type": "long"} for name in TIMES},
    "document": {"type": "object", "enabled": False},
}


def body(cursor: str | None = None) -> dict[str, object]:
    """Of the request that makes an index. An answered write is on the disk, whatever the server's own default is."""
    settings = {
        "index.translog.durability": "request",
        "index.max_result_window": DEEPEST + MOST_HITS,
        "index.max_regex_length": 10_000,
    }
    mappings = {"dynamic": "strict", "_source": {"includes": ["document"]}, "properties": FIELDS}
    return {"settings": settings, "mappings": {**mappings, **meta(cursor)}}


def meta(cursor: str | None) -> dict[str, object]:
    """The cursor is what the index says of itself: no document has to be told apart from the others."""
    return {"_meta": {"webmill": {"format": FORMAT, "cursor": cursor}}}


def is_ours(properties: Mapping[str, Mapping[str, object]]) -> bool:
    """Whether all fields are of the kinds that we have made."""
    kinds = ("type", "analyzer", "enabled", "index")
    return all(
        properties.get(name, {}).get(kind, "object" if kind == "type" else None) == field.get(kind)
        for name, field in FIELDS.items()
        for kind in kinds
    )


def id_of(key: str) -> str:
    """An id has at most 512 bytes."""
    return blake2b(key.encode(errors="surrogatepass"), digest_size=20).hexdigest()


def entry(document: IndexedDocument) -> dict[str, Any]:
    host, texts = host_of(document.url), texts_of(document)
    words = {name: cut(text) for name, text in texts.items()}
    kept = {**texts, "text": texts["text"][:TEXT_KEPT]}
    return {
        "key": document.key,
        "mark": short(document.mark),
        **{name: " ".join(found) for name, found in words.items()},
        **{f"{name}_pairs": pairs(texts[name]) for name in TEXTS},
        "words": sorted({word for name in TEXTS for word in words[name]} - {HOLE}),
        "site": sites_of(host),
        "domain": domains_of(host),
        "language": [short(document.language.lower())] if document.language else [],
        "facet": [short(facet) for facet in facets_of(document)],
        **times_of(document),
        "document": msgspec.to_builtins(msgspec.structs.replace(document, **kept)),
    }


def short(value: str) -> str:
    return value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…{id_of(value)}"
