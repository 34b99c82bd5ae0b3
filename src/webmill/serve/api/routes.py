"""The JSON API, /api/…: what the pages show, for programs. Captures have the CDX API, too.

`declarations.py` says which parameters a route has and what it answers; here is how.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from webmill.search.base import MAX_OFFSET
from webmill.serve.api import declarations, json_replies
from webmill.serve.api.content_reader import Answer, ContentReader
from webmill.serve.api.cursors import make_cursor, read_cursor
from webmill.serve.api.declarations import DiffQuery, DocumentsQuery, MarkdownQuery, PagedDocumentQuery, SuggestQuery
from webmill.serve.api.differences import choose_versions, find_differences
from webmill.serve.api.documents import find_entry, list_items
from webmill.serve.api.index_lines import index_lines
from webmill.serve.api.json_replies import json_response
from webmill.serve.api.links import with_query
from webmill.serve.api.markdown import document_markdown
from webmill.serve.api.operation import MARKDOWN, DescribedRoute, Operation
from webmill.serve.api.query import read_query
from webmill.serve.api.search_params import read_search_params, require_valid
from webmill.serve.http.tagged_response import tagged_response

LARGEST = 64 << 20  # bytes of a document that is read in parts

Q = TypeVar("Q", bound=msgspec.Struct)
Asked = Callable[[ContentReader, Request, Any], Response]
Endpoint = Callable[[Answer], Callable[[Request], Awaitable[Response]]]


class ItemOffset(msgspec.Struct, frozen=True, array_like=True):
    """So many items of this version were listed before; without a version, hits of a search."""

    number: int
    version: str = ""


class DiffPlace(msgspec.Struct, frozen=True, array_like=True):
    """Behind this id, in the changes between these versions."""

    old: str
    new: str
    after: str


def routes(reader: ContentReader) -> list[BaseRoute]:
    read = reader.endpoint
    return [
        route("/api/search", declarations.SEARCH, search, reader.search_endpoint),
        route("/api/suggest", declarations.SUGGEST, suggest, reader.search_endpoint),
        route("/api/documents", declarations.DOCUMENTS, documents, read),
        route("/api/documents/item", declarations.DOCUMENT, document, read),
        route("/documents/item.md", declarations.DOCUMENT_MARKDOWN, document_as_markdown, read),
        route("/api/versions", declarations.VERSIONS, versions, read),
        route("/api/versions/diff", declarations.DIFF, diff, read),
        route("/api/index", declarations.INDEX_LINES, index_lines, read),
    ]


def route(path: str, operation: Operation, answer: Asked, endpoint: Endpoint) -> DescribedRoute:
    """Return the route of an operation, whose query is read as it is declared."""

    def read_and_answer(reader: ContentReader, request: Request) -> Response:
        asked = read_query(request.query_params, operation.query) if operation.query else None
        return answer(reader, request, asked)

    return DescribedRoute(path, endpoint(read_and_answer), operation)


def search(reader: ContentReader, request: Request, asked: PagedDocumentQuery) -> Response:
    params = require_valid(read_search_params(request.query_params))
    if place := read_cursor(asked, ItemOffset):
        params = replace(params, offset=min(max(0, place.number), MAX_OFFSET))
    found = reader.search.find(params)
    reached = params.offset + len(found.answer.hits)
    is_more = bool(found.answer.hits) and reached < found.reachable
    following = make_cursor(asked, ItemOffset(reached)) if is_more else None
    return json_response(request, json_replies.search_reply(found, next_cursor=following))


def suggest(reader: ContentReader, request: Request, asked: SuggestQuery) -> Response:
    return json_response(request, json_replies.SuggestReply(titles=reader.search.suggest(asked.q)))


def documents(reader: ContentReader, request: Request, asked: DocumentsQuery) -> Response:
    place = read_cursor(asked, ItemOffset) or ItemOffset(asked.offset, asked.version)
    listing = list_items(
        reader.published,
        version=place.version,
        prefix=asked.prefix,
        facet=asked.facet,
        start=max(0, place.number),
        count=asked.limit,
    )
    reached = listing.number + len(listing.items)
    is_more = bool(listing.items) and reached < listing.total
    following = make_cursor(asked, ItemOffset(reached, listing.version.version)) if is_more else None
    return json_response(request, json_replies.documents_reply(listing, next_cursor=following))


def document(reader: ContentReader, request: Request, asked: MarkdownQuery) -> Response:
    if wants_markdown(request):
        return document_as_markdown(reader, request, asked)
    reader.site.closed.refuse_document(asked.id)
    entry = find_entry(reader.published, asked.id, version=asked.version)
    found = json_response(request, json_replies.document_reply(entry))
    found.headers["Vary"] = "Accept"
    return found


def document_as_markdown(reader: ContentReader, request: Request, asked: MarkdownQuery) -> Response:
    """Return a part of the text; of a document that is too large, where its blob is."""
    reader.site.closed.refuse_document(asked.id)
    entry = find_entry(reader.published, asked.id, version=asked.version, largest=LARGEST)
    text, following = document_markdown(entry, offset=asked.offset, is_markdown=reader.site.has_markdown)
    headers = {"Vary": "Accept"}
    if following is not None:
        query = [("id", asked.id), ("version", entry.version.version), ("offset", str(following))]
        headers["Link"] = f'<{with_query("/documents/item.md", query)}>; rel="next"'
    return tagged_response(request, text.encode("utf-8", "replace"), media_type=MARKDOWN, headers=headers)


def wants_markdown(request: Request) -> bool:
    """Return whether the client asks for Markdown, and does not prefer what else there is."""
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    known = [kind for kind in accepted if kind in ("text/markdown", "text/html", "application/json")]
    return known[:1] == ["text/markdown"]


def versions(reader: ContentReader, request: Request, asked: None) -> Response:
    del asked
    return json_response(request, json_replies.versions_reply(reader.published.versions()))


def diff(reader: ContentReader, request: Request, asked: DiffQuery) -> Response:
    place = read_cursor(asked, DiffPlace) or DiffPlace(asked.old, asked.new, asked.after)
    old, new = choose_versions(reader.published, place.old, place.new)
    found = find_differences(
        reader.published, old, new, change=asked.change or "", after=place.after, limit=asked.limit
    )
    following = make_cursor(asked, DiffPlace(old, new, found.after)) if found.after else None
    return json_response(request, json_replies.diff_reply(found, next_cursor=following))
