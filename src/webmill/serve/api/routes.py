"""The JSON API, /api/…: what the pages show, for programs. Captures have the CDX API instead."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.publish.diff import CHANGES
from webmill.serve.api import json_replies
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.differences import choose_versions, find_differences
from webmill.serve.api.documents import find_entry, list_items
from webmill.serve.api.json_replies import json_response
from webmill.serve.api.parameters import read_choice, read_number, read_text
from webmill.serve.api.search_params import read_search_params, require_valid

MOST = 1_000  # items or differences in one answer


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [
        Route("/api/search", reader.search_endpoint(search)),
        Route("/api/suggest", reader.search_endpoint(suggest)),
        Route("/api/documents", reader.endpoint(documents)),
        Route("/api/documents/item", reader.endpoint(document)),
        Route("/api/versions", reader.endpoint(versions)),
        Route("/api/versions/diff", reader.endpoint(diff)),
    ]


def search(reader: ContentReader, request: Request) -> Response:
    return json_response(
        json_replies.search_reply(reader.search.find(require_valid(read_search_params(request.query_params))))
    )


def suggest(reader: ContentReader, request: Request) -> Response:
    return json_response(json_replies.SuggestReply(titles=reader.search.suggest(read_text(request, "q"))))


def documents(reader: ContentReader, request: Request) -> Response:
    listing = list_items(
        reader.published,
        version=read_text(request, "version"),
        prefix=read_text(request, "prefix"),
        facet=read_text(request, "facet"),
        start=read_number(request, "offset", default=0, low=0, high=10**12 - 1),
        count=read_number(request, "limit", default=100, low=1, high=MOST),
    )
    return json_response(json_replies.documents_reply(listing))


def document(reader: ContentReader, request: Request) -> Response:
    reader.site.closed.refuse_document(read_text(request, "id"))
    entry = find_entry(reader.published, read_text(request, "id"), version=read_text(request, "version"))
    return json_response(json_replies.document_reply(entry))


def versions(reader: ContentReader, request: Request) -> Response:
    del request
    return json_response(json_replies.versions_reply(reader.published.versions()))


def diff(reader: ContentReader, request: Request) -> Response:
    old, new = choose_versions(reader.published, read_text(request, "from"), read_text(request, "to"))
    found = find_differences(
        reader.published,
        old,
        new,
        change=read_choice(request, "change", CHANGES),
        after=read_text(request, "after"),
        limit=read_number(request, "limit", default=100, low=1, high=MOST),
    )
    return json_response(json_replies.diff_reply(found))
