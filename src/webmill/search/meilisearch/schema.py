"""The fields of a document in Meilisearch. It matches by `words` and `pairs`, which we make, so that all engines find
the same. Its own analysis of title and text only ranks what was found.

title, text, rest, url…    searched columns as they are; of a long text the beginning, for hits, and the rest apart
words.title, .text, .url…  words in lower case, without accents, with a placeholder for bigram runs; each once
pairs.title, .text…        bigrams of those runs, and each character alone
content, site, domain, language, facet, date…    to filter, count and sort
key, mark, about           for hits

Values to filter by are encoded (`encode_value`): Meilisearch takes É for e, and one Chinese character for another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from webmill.search.base import TEXT_KEPT, IndexedDocument
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
from webmill.search.segmentation import bigrams

FORMAT = fingerprint(4)  # of the fields; an index of another format must be rebuilt
CURSOR = "cursor"  # the id of the document that holds it; others have only letters a-f
LONGEST_VALUE = 400  # bytes of an encoded value: Meilisearch cuts at 468
HIT_FIELDS = [*SEARCHED_COLUMNS, "about"]  # for hits: 100 of the longest are 40 MB; with their rests they would be 400
WHOLE_FIELDS = [*HIT_FIELDS, "rest"]
_NO_RANGE = {"equality": True, "comparison": False}
_RANGE = {"equality": True, "comparison": True}
SETTINGS: dict[str, Any] = {
    "searchableAttributes": [
        each for name in SEARCHED_COLUMNS for each in ((name, "rest") if name == "text" else (name,))
    ],
    "filterableAttributes": [
        {"attributePatterns": ["words.*"], "features": {"facetSearch": True, "filter": _NO_RANGE}},
        {"attributePatterns": ["pairs.*"], "features": {"facetSearch": False, "filter": _NO_RANGE}},
        *(
            {"attributePatterns": [name], "features": {"facetSearch": False, "filter": _NO_RANGE}}
            for name in ("content", "site", "domain", "language", "facet", "id", "is_document")
        ),
        *({"attributePatterns": [name], "features": {"facetSearch": False, "filter": _RANGE}} for name in TIME_COLUMNS),
    ],
    "sortableAttributes": [*TIME_COLUMNS],
    "prefixSearch": "disabled",
    "typoTolerance": {"minWordSizeForTypos": {"oneTypo": 4, "twoTypos": 8}},  # as `similar` has it
    "pagination": {"maxTotalHits": 1_000_000_000},
    "faceting": {"maxValuesPerFacet": 10_000, "sortFacetValuesBy": {"*": "count"}},
}
_OTHER = re.compile(r"[^a-z0-9=:/._-]")
_ENCODED = re.compile(r"~([0-9a-f]+)\.")


def changed_settings(found: dict[str, Any], ours: dict[str, Any] = SETTINGS, *, where: str = "") -> list[str]:
    """Return the names of our settings that differ from those found."""
    names: list[str] = []
    for name, value in ours.items():
        other = found.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            names += changed_settings(other, value, where=f"{where}{name}.")
        elif other != value:
            names.append(f"{where}{name}")
    return names


def entry_id(key: str) -> str:
    return blake2b(key.encode(errors="surrogatepass"), digest_size=20).hexdigest()


def to_entry(document: IndexedDocument) -> dict[str, Any]:
    host, texts = host_of(document.url), texts_of(document)
    about = msgspec.structs.replace(document, **dict.fromkeys(TEXT_COLUMNS), url="")
    return {
        "id": entry_id(document.key),
        "is_document": True,
        "key": document.key,
        "mark": document.revision,
        **texts,
        "text": texts["text"][:TEXT_KEPT],
        "rest": texts["text"][TEXT_KEPT:],
        "about": msgspec.to_builtins(about),
        "words": {name: encode_unique(tokenize(text)) for name, text in texts.items()},
        "pairs": {name: encode_unique(_pairs(texts[name])) for name in TEXT_COLUMNS},
        "content": content_of(document.hash),
        "site": [encode_value(site) for site in sites_of(host)],
        "domain": [encode_value(domain) for domain in domains_of(host)],
        "language": [encode_value(document.language.lower())] if document.language else [],
        "facet": [encode_value(facet) for facet in facets_of(document)],
        **times_of(document),
    }


def from_entry(found: dict[str, Any]) -> IndexedDocument:
    """Return the document, with the rest of its text if that was requested."""
    texts = {name: found[name] for name in SEARCHED_COLUMNS if found[name]}
    if rest := found.get("rest"):
        texts["text"] += rest
    return msgspec.convert({**found["about"], **texts}, IndexedDocument)


def cursor_entry(cursor: str) -> dict[str, object]:
    return {"id": CURSOR, "format": FORMAT, "cursor": cursor}


def _pairs(text: str) -> Iterable[str]:
    if text.isascii():
        return ()
    found = dict.fromkeys(bigrams(text).split())
    return found | dict.fromkeys(character for pair in found for character in pair)


def encode_unique(values: Iterable[str]) -> list[str]:
    return [encode_value(value) for value in dict.fromkeys(values)]


def encode_value(value: str) -> str:
    """Encode every character that Meilisearch could take for another as its number, so that a prefix stays one."""
    code = value if value.isascii() and value.isalnum() and value.islower() else _OTHER.sub(_number, value)
    return code if len(code) <= LONGEST_VALUE else f"{code[:LONGEST_VALUE]}~{entry_id(code)}"


def _number(match: re.Match[str]) -> str:
    return f"~{ord(match[0]):x}."


def decode_value(code: str) -> str:
    """Return what was encoded; of a value that was cut, its beginning."""
    return _ENCODED.sub(lambda match: chr(int(match[1], 16)), code)
