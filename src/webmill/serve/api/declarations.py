"""The routes below /api, declared: their parameters and answers. `routes.py` answers them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from webmill.publish.diff import Change
from webmill.serve.api.index_lines import MOST_BYTES, LinesQuery
from webmill.serve.api.json_replies import (
    DiffReply,
    DocumentReply,
    DocumentsReply,
    SearchReply,
    SuggestReply,
    VersionsReply,
)
from webmill.serve.api.markdown import MOST_CHARACTERS
from webmill.serve.api.operation import MARKDOWN, Operation, Reply
from webmill.serve.api.search_params import DocumentQuery

MOST = 1_000  # items or differences in one answer
MOST_ITEMS = 10**12 - 1
LONGEST_ID = 4_000

Version: TypeAlias = Annotated[
    str, Meta(max_length=100, description="Name of a version, 00000002-8e343277; without it, the live one.")
]
Cursor: TypeAlias = Annotated[
    str,
    Meta(max_length=24_000, description="`next_cursor` of the answer before, with the same other parameters."),
]
MostItems: TypeAlias = Annotated[int, Meta(ge=1, le=MOST, description="In one answer.")]


class DocumentsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which documents of a version are listed."""

    version: Version = ""
    facet: Annotated[str, Meta(max_length=4_000, description="NAME=VALUE: only documents with this facet.")] = ""
    prefix: Annotated[
        str,
        Meta(
            max_length=4_000, description="The beginning of an id or of a URL: `example.org/news`, or `*.example.org`."
        ),
    ] = ""
    limit: MostItems = 100
    offset: Annotated[int, Meta(ge=0, le=MOST_ITEMS, description="Documents to leave out.")] = 0
    cursor: Cursor = ""


class ItemQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which document."""

    id: Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, description="`id` of the document.")]
    version: Version = ""


class MarkdownQuery(ItemQuery, frozen=True, kw_only=True):
    """Which document, and from which character of its text on."""

    offset: Annotated[
        int, Meta(ge=0, le=10**9, description="Characters of the text to leave out; `Link` says what comes next.")
    ] = 0


class DiffQuery(msgspec.Struct, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}):
    """Which versions are compared, and which changes are listed."""

    old: Annotated[str, Meta(max_length=100, description="The older version; without it, the one before `to`.")] = ""
    new: Annotated[str, Meta(max_length=100, description="The newer version; without it, the live one.")] = ""
    change: Annotated[Change | None, Meta(description="Only changes of this kind.")] = None
    after: Annotated[str, Meta(max_length=LONGEST_ID, description="Only ids behind this one.")] = ""
    limit: MostItems = 100
    cursor: Cursor = ""


class PagedDocumentQuery(DocumentQuery, frozen=True, kw_only=True):
    """The parameters of a search, which may go on where another answer ended."""

    cursor: Cursor = ""


class SuggestQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed so far."""

    q: Annotated[str, Meta(max_length=4_000, description="Words, the last of which may not be whole.")] = ""


SUGGEST = Operation(
    name="suggest_titles",
    tag="documents",
    summary="Suggest titles",
    about="Titles of documents that what was typed may become.",
    query=SuggestQuery,
    replies={200: Reply(about="The titles.", kind=SuggestReply)},
    errors=(400, 404),
    is_conditional=True,
)
SEARCH = Operation(
    name="search",
    tag="documents",
    summary="Search documents",
    about="Documents of the search index, best first, with snippets, facets and their newest capture.",
    query=PagedDocumentQuery,
    replies={200: Reply(about="The hits.", kind=SearchReply)},
    errors=(400, 404),
    is_conditional=True,
)
DOCUMENTS = Operation(
    name="list_documents",
    tag="documents",
    summary="List documents",
    about="The documents of a version, in the order of their ids. With a cursor the version stays the same.",
    query=DocumentsQuery,
    replies={200: Reply(about="A part of the list.", kind=DocumentsReply)},
    errors=(400, 404),
    is_conditional=True,
)
DOCUMENT = Operation(
    name="get_document",
    tag="documents",
    summary="Read a document",
    about="A document with its metadata and which versions changed it; as Markdown with `Accept: text/markdown`.",
    query=MarkdownQuery,
    replies={200: Reply(about="The document.", kind=DocumentReply, media_types=("application/json", MARKDOWN))},
    errors=(400, 404, 451),
    is_conditional=True,
)
DOCUMENT_MARKDOWN = Operation(
    name="get_document_markdown",
    tag="documents",
    summary="Read a document as Markdown",
    about=f"Title, source and text, at most {MOST_CHARACTERS:,} characters of it. What pages say is escaped: it has no "
    "links, pictures or markup.",
    query=MarkdownQuery,
    replies={
        200: Reply(
            about="The document.",
            media_types=(MARKDOWN,),
            headers={"Link": "`rel=next`: the address of the next part of a long text."},
        )
    },
    errors=(400, 404, 451),
    is_conditional=True,
)
VERSIONS = Operation(
    name="list_versions",
    tag="versions",
    summary="List versions",
    about="All published versions, oldest first.",
    replies={200: Reply(about="The versions.", kind=VersionsReply)},
    is_conditional=True,
)
DIFF = Operation(
    name="compare_versions",
    tag="versions",
    summary="Compare versions",
    about="What changed from one version to another, in the order of ids. An answer that would take too long is "
    "shorter, or empty, and still has `next_cursor`; `counts` is null if counting would take too long.",
    query=DiffQuery,
    replies={200: Reply(about="A part of the changes.", kind=DiffReply)},
    errors=(400, 404),
    is_conditional=True,
)
INDEX_LINES = Operation(
    name="list_index_lines",
    tag="captures",
    summary="Read the index",
    about="The lines of the index from one SURT key to another, in byte order: what the Python client reads. For "
    f"queries by URL there is the CDX API. An answer has at most {MOST_BYTES >> 20} MiB.",
    query=LinesQuery,
    replies={
        200: Reply(
            about="CDXJ lines.",
            media_types=("text/x-cdxj; charset=utf-8",),
            headers={"Link": "`rel=next`: the address of the next part; without it, this is the last."},
        )
    },
    errors=(400, 404),
)
