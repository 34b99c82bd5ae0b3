"""The interface of every search engine: documents go in under a cursor, requests get answers.

What every backend promises (`tests/contracts/test_search.py`)
- Documents are identified by id: adding one that is there replaces it, removing one that is not does nothing. So a
  change that is applied twice, or late, has the effect of applying it once.
- The cursor says up to which version everything was applied. It is durable only together with all that was applied
  before it: killed at any moment, the index is one that some cursor led to, or is on the way from it to the next.
- `keys` lists what is in the index, so that a reconciliation can find what notifications have missed.
- A search cannot fail because of what somebody typed: `query.parse` makes a query of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, Protocol, TypeAlias, get_args

import msgspec

from webmill.model import CaptureRef, Document
from webmill.search.query import SearchQuery

DEFAULT_LIMIT = 10
MAX_HITS = 100  # in one answer
MAX_OFFSET = 10_000  # hits that can be paged through
FACET_VALUES = 20  # returned for each facet
TEXT_KEPT = 100_000  # characters of a text that snippets are cut from
TEXT_INDEXED = 1_000_000
LONGEST_KEY = 1000
UNKNOWN_VERSION = "00000000-00000000"  # a version that never was: nothing is known of what is in the index
_PLAIN = re.compile("[^#\x00-\x1f][^\x00-\x1f]*|#[0-9a-f]{32}")


class IndexedDocument(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A published document: `id` and `hash` are those of its item, `version` is the one that brought it. All other
    columns are those of a document.
    """

    url: str = ""
    hash: str
    version: str
    label: str = ""  # changes with the facets and metadata of the item
    facets: dict[str, str] = msgspec.field(default_factory=dict)
    sketch: str = ""  # by which documents that say nearly the same are known: `likeness`

    @property
    def key(self) -> str:
        return key_of(self.id)

    @property
    def revision(self) -> str:
        """Return what changes with whatever can be found or shown, but not with the version."""
        return revision_of(self.hash, self.label)


def revision_of(hash_: str, label: str) -> str:
    return f"{hash_}.{label}"


def key_of(id_: str) -> str:
    """Return the id if every engine can use it as a key; else its hash. A key is its own key."""
    if len(id_) <= LONGEST_KEY and _PLAIN.fullmatch(id_):
        return id_
    return f"#{blake2b(id_.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"


SearchMode: TypeAlias = Literal["words", "meaning", "both"]
SEARCH_MODES: tuple[SearchMode, ...] = get_args(SearchMode)


class SearchFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters that must all hold; of the values of one name, any."""

    languages: Sequence[str] = ()
    sites: Sequence[str] = ()  # a host, or a domain with all its hosts
    facets: Mapping[str, Sequence[str]] = {}
    since: int | None = None  # of `date`, in seconds since 1970
    until: int | None = None  # not included
    published_since: int | None = None  # of `published`, the date that a page states
    published_until: int | None = None  # not included
    contents: Sequence[str] | None = None  # of which `content_of` is one of these; None: any


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    query: SearchQuery
    filters: SearchFilters = SearchFilters()
    sort: Literal["relevance", "newest", "oldest"] = "relevance"
    limit: int = DEFAULT_LIMIT
    offset: int = 0
    facets: Sequence[str] = ()  # to count: language, site, or a facet of the documents
    mode: SearchMode = "words"
    passages: Mapping[str, tuple[int, int]] = {}  # start and length in the text to cut snippets from, by content
    has_excerpts: bool = True  # else hits have neither title nor snippet: only their documents are wanted


class HighlightedText(msgspec.Struct, frozen=True):
    """Plain text, to be escaped by whoever shows it, and the positions of the words that were searched for."""

    text: str
    marks: Sequence[tuple[int, int]] = ()


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was found; `document` is without its text."""

    document: IndexedDocument
    score: float
    title: HighlightedText
    snippet: HighlightedText
    capture: CaptureRef | None = None
    matched: SearchMode = "words"  # what of the query it matches
    similar: int = 0  # hits like it that were left out

    @property
    def id(self) -> str:
        return self.document.id


class FacetCount(msgspec.Struct, frozen=True):
    value: str
    count: int


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`suggestion`: a corrected query, if nothing matched the original; the hits are those of the correction."""

    total: int
    hits: list[Hit]
    facets: dict[str, list[FacetCount]] = {}
    suggestion: str = ""


class SearchEngine(Protocol):
    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        """Add or replace documents and remove others (ids or keys), durably. `cursor`: all up to it is applied."""
        ...

    def cursor(self) -> str | None:
        """Return the last cursor; None if none was applied yet."""
        ...

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield `key` and `revision` of every document, in any order."""
        ...

    def count(self) -> int: ...

    def search(self, request: SearchRequest) -> SearchAnswer: ...

    def clear(self) -> None:
        """Remove all documents and the cursor."""
        ...

    def close(self) -> None: ...
