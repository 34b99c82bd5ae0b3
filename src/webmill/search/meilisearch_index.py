"""What Meilisearch keeps of a document. It finds by `words` and `pairs`, which are ours and exact: all engines find
the same. Its own reading of title and text is for the order of what was found only.

title, text, rest, url     as they are; of a long text the beginning, which hits are shown with, and the rest apart
words.title, .text, .url   words, lower-cased and without accents, with a hole for runs of paired scripts; each once
pairs.title, .text         pairs of characters of those runs, and each character alone
site, domain, language, facet, date    to narrow, to count, to sort
key, mark, about           for hits

Values to narrow by are spelled (`spelled`): Meilisearch takes É for e, and one Chinese character for another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from webmill.formats.domains import registered_domain
from webmill.search.base import TEXT_INDEXED, TEXT_KEPT, Document
from webmill.search.fields import cut, host_of, sites_of
from webmill.search.words import normalised, pairs

FORMAT = 2  # of the fields: an index of another one is built anew
CURSOR = "cursor"  # the id of the document that holds it; others have only letters a-f
LONGEST_VALUE = 400  # bytes of a spelled value: Meilisearch cuts at 468
SHOWN = ["title", "text", "url", "about"]  # 100 of the longest are 40 MB; with their rests they would be 400
WHOLE = [*SHOWN, "rest"]
_NO_RANGE = {"equality": True, "comparison": False}
SETTINGS: dict[str, Any] = {
    "searchableAttributes": ["title", "text", "rest", "url"],
    "filterableAttributes": [
        {"attributePatterns": ["words.*"], "features": {"facetSearch": True, "filter": _NO_RANGE}},
        {"attributePatterns": ["pairs.*"], "features": {"facetSearch": False, "filter": _NO_RANGE}},
        *(
            {"attributePatterns": [name], "features": {"facetSearch": False, "filter": _NO_RANGE}}
            for name in ("site", "domain", "language", "facet", "id", "is_document")
        ),
        {
            "attributePatterns": ["date"],
            "features": {"facetSearch": False, "filter": {**_NO_RANGE, "comparison": True}},
        },
    ],
    "sortableAttributes": ["date"],
    "prefixSearch": "disabled",
    "typoTolerance": {"minWordSizeForTypos": {"oneTypo": 4, "twoTypos": 8}},  # as `similar` has it
    "pagination": {"maxTotalHits": 1_000_000_000},
    "faceting": {"maxValuesPerFacet": 10_000, "sortFacetValuesBy": {"*": "count"}},
}
_OTHER = re.compile(r"[^a-z0-9=:/._-]")
_SPELLED = re.compile(r"~([0-9a-f]+)\.")


def differences(found: dict[str, Any], ours: dict[str, Any] = SETTINGS, *, where: str = "") -> list[str]:
    """The names of our settings that are not as we have made them."""
    names: list[str] = []
    for name, value in ours.items():
        other = found.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            names += differences(other, value, where=f"{where}{name}.")
        elif other != value:
            names.append(f"{where}{name}")
    return names


def id_of(key: str) -> str:
    return blake2b(key.encode(errors="surrogatepass"), digest_size=20).hexdigest()


def entry(document: Document) -> dict[str, Any]:
    host = host_of(document.url)
    title, text = normalised(document.title), normalised(document.text[:TEXT_INDEXED])
    about = msgspec.to_builtins(msgspec.structs.replace(document, title="", text="", url=""))
    return {
        "id": id_of(document.key),
        "is_document": True,
        "key": document.key,
        "mark": document.mark,
        "title": title,
        "text": text[:TEXT_KEPT],
        "rest": text[TEXT_KEPT:],
        "url": document.url,
        "about": about,
        "words": {name: spelled_once(cut(value)) for name, value in _texts(title, text, document.url)},
        "pairs": {"title": spelled_once(_pairs(title)), "text": spelled_once(_pairs(text))},
        "site": [spelled(site) for site in sites_of(host)],
        "domain": [spelled(registered_domain(host) or host)] if host else [],
        "language": [spelled(document.language.lower())] if document.language else [],
        "facet": [spelled(f"{name}={value}") for name, value in document.facets.items()],
        "date": document.date,
    }


def document_of(found: dict[str, Any]) -> Document:
    """With the rest of its text, if that was asked for."""
    text = found["text"] + found.get("rest", "")
    said = {"title": found["title"], "text": text, "url": found["url"]}
    return msgspec.convert({**found["about"], **said}, Document)


def note(cursor: str) -> dict[str, object]:
    return {"id": CURSOR, "format": FORMAT, "cursor": cursor}


def _texts(title: str, text: str, url: str) -> tuple[tuple[str, str], ...]:
    return ("title", title), ("text", text), ("url", url)


def _pairs(text: str) -> Iterable[str]:
    if text.isascii():
        return ()
    found = dict.fromkeys(pairs(text).split())
    return found | dict.fromkeys(character for pair in found for character in pair)


def spelled_once(values: Iterable[str]) -> list[str]:
    return [spelled(value) for value in dict.fromkeys(values)]


def spelled(value: str) -> str:
    """Every character that Meilisearch could take for another by its number; one after the other, so that a beginning
    is spelled as the beginning."""
    code = value if value.isascii() and value.isalnum() and value.islower() else _OTHER.sub(_number, value)
    return code if len(code) <= LONGEST_VALUE else f"{code[:LONGEST_VALUE]}~{id_of(code)}"


def _number(match: re.Match[str]) -> str:
    return f"~{ord(match[0]):x}."


def read(code: str) -> str:
    """What was spelled; of one that was cut, its beginning."""
    return _SPELLED.sub(lambda match: chr(int(match[1], 16)), code)
