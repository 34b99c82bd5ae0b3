"""What all engines search by: the columns, the words of a text, the sites of a URL.

Every engine makes its schema of these lists, which come from the declaration of the columns of `Document`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cache
from hashlib import blake2b
from urllib.parse import urlsplit

import tantivy

from webmill.formats.url.domains import registered_domain
from webmill.model import columns
from webmill.search.base import TEXT_INDEXED, IndexedDocument, SearchFilters
from webmill.search.query import TIME_COLUMNS, WORD_COLUMNS
from webmill.search.segmentation import mask_runs, to_nfc

LONGEST_WORD = 80
WEIGHTS = {"title": 3.0, "url": 0.5}  # of a match, in all engines; in the text: 1
ADJACENT_BOOST = 2.0  # for query words that are adjacent in the document
FORM_WEIGHT = 0.8  # of a match by another form of the word
SEARCHED_COLUMNS = tuple(sorted(WORD_COLUMNS, key=lambda name: -WEIGHTS.get(name, 1.0)))  # by weight
TEXT_COLUMNS = tuple(name for name in SEARCHED_COLUMNS if name != "url")  # a URL has no bigrams
FACET_COLUMNS = tuple(column.name for column in columns() if column.facet)
SHOWN_COLUMNS = tuple(column for column in columns() if column.shown)
COUNTABLE_FIELDS = {"language": "language", "site": "domain"}  # what can be counted beside facets, with its field
_INDEXED_COLUMNS = tuple(column for column in columns() if column.searchable or column.facet or column.shown)


def fingerprint(format_: int) -> str:
    """Return a string that changes with the columns of an index and with the format of its engine."""
    columns_used = repr(
        [(each.name, each.name in TIME_COLUMNS, each.searchable, each.facet, each.shown) for each in _INDEXED_COLUMNS]
    )
    return f"{format_}-{blake2b(columns_used.encode(), digest_size=8).hexdigest()}"


def texts_of(document: IndexedDocument) -> dict[str, str]:
    """Return the searched columns of a document, as they are indexed."""
    texts = {name: to_nfc((getattr(document, name) or "")[:TEXT_INDEXED]) for name in TEXT_COLUMNS}
    return {name: texts.get(name, document.url) for name in SEARCHED_COLUMNS}


def times_of(document: IndexedDocument) -> dict[str, int]:
    return {name: to_seconds(getattr(document, name)) for name in TIME_COLUMNS}


def to_seconds(moment: datetime | None) -> int:
    """Return the seconds since 1970; 0 if unknown."""
    return max(0, int(moment.timestamp())) if moment else 0


def facets_of(document: IndexedDocument) -> list[str]:
    """Return NAME=VALUE of the facets it was published with, and of the columns that are facets."""
    from_columns = {name: value for name in FACET_COLUMNS if (value := getattr(document, name))}
    return [f"{name}={value}" for name, value in {**from_columns, **document.facets}.items()]


def periods_of(filters: SearchFilters) -> Iterator[tuple[str, int, int | None]]:
    """Yield the columns of which a period is asked for, with its first second and the one after its last."""
    for name, since, until in (
        ("date", filters.since, filters.until),
        ("published", filters.published_since, filters.published_until),
    ):
        if since is not None or until is not None:
            yield name, 1 if since is None else since, until  # 0 is no date


def content_of(hash_: str) -> str:
    """Return what engines know a content by: a hash of its hash, which may be of any length."""
    return blake2b(hash_.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def domains_of(host: str) -> list[str]:
    return [registered_domain(host) or host] if host else []


@cache
def word_analyzer() -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(LONGEST_WORD)).filter(tantivy.Filter.lowercase())
    return builder.filter(tantivy.Filter.ascii_fold()).build()


def tokenize(text: str) -> list[str]:
    """Return the words of a text in order, with a placeholder for each run of bigram characters."""
    return [*word_analyzer().analyze(mask_runs(to_nfc(text)))]


def host_of(text: str) -> str:
    """Return the host of a URL, or of what was typed for one; empty if it has none."""
    text = text.removeprefix("*.")
    try:
        return (urlsplit(text if "://" in text else f"//{text}").hostname or "").strip(".")
    except ValueError:
        return ""


def sites_of(host: str) -> list[str]:
    """Return what `site:` may say: `www.news.example.org`, `news.example.org`, `example.org`."""
    labels = host.split(".")
    if ":" in host or labels[-1].isdigit():
        return [host]
    return [".".join(labels[at:]) for at in range(max(1, len(labels) - 1))] if host else []
