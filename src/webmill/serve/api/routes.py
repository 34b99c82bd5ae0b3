"""/api/…: what the pages show, for programs. Captures have an interface of their own: the CDX API."""

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


def routes(reading: ContentReader) -> list[BaseRoute]:
    return [
        Route("/api/search", reading.search_endpoint(search)),
        Route("/api/documents", reading.endpoint(documents)),
        Route("/api/documents/item", reading.endpoint(document)),
        Route("/api/versions", reading.endpoint(versions)),
        Route("/api/versions/diff", reading.endpoint(diff)),
    ]


def search(reading: ContentReader, request: Request) -> Response:
    return json_response(
        json_replies.search_reply(reading.searching.find(require_valid(read_search_params(request.query_params))))
    )


def documents(reading: ContentReader, request: Request) -> Response:
    listing = list_items(
        reading.published,
        version=read_text(request, "version"),
        prefix=read_text(request, "prefix"),
        facet=read_text(request, "facet"),
        start=read_number(request, "offset", default=0, low=0, high=10**12 - 1),
        count=read_number(request, "limit", default=100, low=1, high=MOST),
    )
    return json_response(json_replies.documents_reply(listing))


def document(reading: ContentReader, request: Request) -> Response:
    entry = find_entry(reading.published, read_text(request, "id"), version=read_text(request, "version"))
    return json_response(json_replies.document_reply(entry))


def versions(reading: ContentReader, request: Request) -> Response:
    del request
    return json_response(json_replies.versions_reply(reading.published.versions()))


def diff(reading: ContentReader, request: Request) -> Response:
    old, new = choose_versions(reading.published, read_text(request, "from"), read_text(request, "to"))
    found = find_differences(
        reading.published,
        old,
        new,
        change=read_choice(request, "change", CHANGES),
        after=read_text(request, "after"),
        limit=read_number(request, "limit", default=100, low=1, high=MOST),
    )
    return json_response(json_replies.diff_reply(found))
