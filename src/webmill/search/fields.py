"""What all engines find documents by: which columns they search, which words a text has, which sites an address.

Every engine makes its schema of these lists, which come from the declaration of `Document`'s columns.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from hashlib import blake2b
from urllib.parse import urlsplit

import tantivy

from webmill.formats.url.domains import registered_domain
from webmill.model import columns
from webmill.search.base import TEXT_INDEXED, IndexedDocument
from webmill.search.query import TIMES, WORDS
from webmill.search.words import normalised, without_runs

LONGEST_WORD = 80
WEIGHTS = {"title": 3.0, "url": 0.5}  # what a find counts for, in all engines; one in the text: 1
TOGETHER = 2.0  # more, for words that were typed one after the other and stand so
FORM = 0.8  # of another form of the word
SEARCHED = tuple(sorted(WORDS, key=lambda name: -WEIGHTS.get(name, 1.0)))  # what counts for most first
TEXTS = tuple(name for name in SEARCHED if name != "url")  # an address has no runs of paired characters
FACETS = tuple(column.name for column in columns() if column.facet)
SHOWN = tuple(column for column in columns() if column.shown)
COUNTED = {"language": "language", "site": "domain"}  # what can be counted besides facets, and its field
_USED = tuple(column for column in columns() if column.searchable or column.facet or column.shown)


def fingerprint(format_: int) -> str:
    """Return what changes with the columns that an index is made of, and with the engine's own format."""
    said = repr([(each.name, each.name in TIMES, each.searchable, each.facet, each.shown) for each in _USED])
    return f"{format_}-{blake2b(said.encode(), digest_size=8).hexdigest()}"


def texts_of(document: IndexedDocument) -> dict[str, str]:
    """Return its searched columns, as they are indexed."""
    texts = {name: normalised((getattr(document, name) or "")[:TEXT_INDEXED]) for name in TEXTS}
    return {name: texts.get(name, document.url) for name in SEARCHED}


def times_of(document: IndexedDocument) -> dict[str, int]:
    return {name: seconds(getattr(document, name)) for name in TIMES}


def seconds(moment: datetime | None) -> int:
    """Return the seconds since 1970; 0: not known."""
    return max(0, int(moment.timestamp())) if moment else 0


def facets_of(document: IndexedDocument) -> list[str]:
    """Return NAME=VALUE of those that it was published with, and of the columns that are facets."""
    own = {name: value for name in FACETS if (value := getattr(document, name))}
    return [f"{name}={value}" for name, value in {**own, **document.facets}.items()]


def domains_of(host: str) -> list[str]:
    return [registered_domain(host) or host] if host else []


@cache
def words() -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(LONGEST_WORD)).filter(tantivy.Filter.lowercase())
    return builder.filter(tantivy.Filter.ascii_fold()).build()


def cut(text: str) -> list[str]:
    """The words of a text in their order; a run of paired characters is a hole among them."""
    return [*words().analyze(without_runs(normalised(text)))]


def host_of(text: str) -> str:
    """Of a URL, or of what was typed for one; empty when it has none."""
    text = text.removeprefix("*.")
    try:
        return (urlsplit(text if "://" in text else f"//{text}").hostname or "").strip(".")
    except ValueError:
        return ""


def sites_of(host: str) -> list[str]:
    """`www.news.example.org`, `news.example.org`, `example.org`: what `site:` may say."""
    labels = host.split(".")
    if ":" in host or labels[-1].isdigit():
        return [host]
    return [".".join(labels[at:]) for at in range(max(1, len(labels) - 1))] if host else []
