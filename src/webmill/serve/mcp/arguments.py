"""The arguments of the tools: what a client is told of them is made from these structs, and what it sends is checked
against them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from webmill.publish.changes import ChangeKind
from webmill.search.base import SearchMode

MOST_RESULTS = 50

CollectionName: TypeAlias = Annotated[str, Meta(description="Name from `collections`; needed if there are several.")]
Page: TypeAlias = Annotated[str, Meta(description="`next_cursor` of the answer before, with the same arguments.")]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_RESULTS, description="Results in one answer.")]
Url: TypeAlias = Annotated[str, Meta(max_length=8_192, description="URL of a page.")]
Period: TypeAlias = Annotated[
    str, Meta(max_length=40, description="A year, month, day or time: 2026, 2026-03, 2026-03-31.")
]
VersionName: TypeAlias = Annotated[
    str, Meta(max_length=100, description="A published version; without it, the live one.")
]
DocumentId: TypeAlias = Annotated[str, Meta(max_length=4_000, description="`id` of a document in another answer.")]
Day: TypeAlias = Annotated[str, Meta(max_length=10, description="A day: 2026-03-31.")]
Filter: TypeAlias = Annotated[list[Annotated[str, Meta(max_length=300)]], Meta(max_length=20)]


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What most tools take."""

    collection: CollectionName = ""
    cursor: Page = ""


class CollectionsArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing: all collections are listed."""


class SearchArguments(ToolArguments, frozen=True, kw_only=True):
    query: Annotated[
        str, Meta(max_length=1_000, description='Words; "a phrase", -without, title:word, site:example.org.')
    ]
    languages: Annotated[Filter, Meta(description="ISO 639-3 codes: eng, deu; any of them.")] = []
    sites: Annotated[Filter, Meta(description="Hosts, or domains with their hosts; any of them.")] = []
    since: Annotated[Day, Meta(description="Captured on this day or later: 2026-03-31.")] = ""
    until: Annotated[Day, Meta(description="Captured before this day: 2026-03-31.")] = ""
    mode: Annotated[
        SearchMode,
        Meta(description="By words, by meaning or both; the last two only where the collection has a sentence model."),
    ] = "words"
    sort: Literal["relevance", "newest", "oldest"] = "relevance"
    limit: Limit = 10


class ReadArguments(ToolArguments, frozen=True, kw_only=True):
    id: DocumentId = ""
    url: Annotated[Url, Meta(description="URL of the page, if its `id` is not known.")] = ""
    version: VersionName = ""


class CapturesArguments(ToolArguments, frozen=True, kw_only=True):
    url: Annotated[
        Url, Meta(description="A URL, all below one (https://example.org/news/*), or a domain (*.example.org).")
    ]
    since: Period = ""
    until: Annotated[Period, Meta(description="The last year, month, day or time, included whole.")] = ""
    limit: Limit = 20


class CaptureAtArguments(ToolArguments, frozen=True, kw_only=True):
    url: Url
    at: Annotated[
        Period, Meta(description="The moment asked for: 2026-03-31, 20260331120000; without it, the newest.")
    ] = ""


class ChangesArguments(ToolArguments, frozen=True, kw_only=True):
    since: Annotated[
        str,
        Meta(max_length=100, description="A date (2026-03-31), or the name of a version: what was published later."),
    ]
    kind: Annotated[ChangeKind | None, Meta(description="Only changes of this kind.")] = None
    site: Annotated[
        str, Meta(max_length=300, description="Only pages of this host, or of this domain and its hosts.")
    ] = ""
    limit: Limit = 20


class HistoryArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Url
    collection: CollectionName = ""


class ProblemsArguments(ToolArguments, frozen=True, kw_only=True):
    severity: Annotated[Literal["error", "warning"] | None, Meta(description="Only problems of this severity.")] = None
    limit: Limit = 20


class SaveArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[Url, Meta(description="The page to fetch and archive now.")]
    page_resources: Annotated[bool, Meta(description="With its images, styles and scripts.")] = False
    collection: CollectionName = ""


class SaveStatusArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(max_length=16, description="`id` of the answer to `save`.")]
    collection: CollectionName = ""
