"""/api/…: what the pages show, for programs. Captures have an interface of their own: the CDX API."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.publish.diff import CHANGES
from webmill.serve.api import replies
from webmill.serve.api.asked import read_asked, strictly
from webmill.serve.api.differences import find_differences, two_versions
from webmill.serve.api.documents import find_entry, list_items
from webmill.serve.api.parameters import number, one_of, text
from webmill.serve.api.reading import Reading
from webmill.serve.api.replies import reply

MOST = 1_000  # items or differences in one answer


def routes(reading: Reading) -> list[BaseRoute]:
    return [
        Route("/api/search", reading.search_endpoint(search)),
        Route("/api/documents", reading.endpoint(documents)),
        Route("/api/documents/item", reading.endpoint(document)),
        Route("/api/versions", reading.endpoint(versions)),
        Route("/api/versions/diff", reading.endpoint(diff)),
    ]


def search(reading: Reading, request: Request) -> Response:
    return reply(replies.search_reply(reading.searching.find(strictly(read_asked(request.query_params)))))


def documents(reading: Reading, request: Request) -> Response:
    listing = list_items(
        reading.published,
        version=text(request, "version"),
        prefix=text(request, "prefix"),
        facet=text(request, "facet"),
        start=number(request, "offset", default=0, low=0, high=10**12 - 1),
        count=number(request, "limit", default=100, low=1, high=MOST),
    )
    return reply(replies.documents_reply(listing))


def document(reading: Reading, request: Request) -> Response:
    entry = find_entry(reading.published, text(request, "id"), version=text(request, "version"))
    return reply(replies.document_reply(entry))


def versions(reading: Reading, request: Request) -> Response:
    del request
    return reply(replies.versions_reply(reading.published.versions()))


def diff(reading: Reading, request: Request) -> Response:
    old, new = two_versions(reading.published, text(request, "from"), text(request, "to"))
    found = find_differences(
        reading.published,
        old,
        new,
        change=one_of(request, "change", CHANGES),
        after=text(request, "after"),
        limit=number(request, "limit", default=100, low=1, high=MOST),
    )
    return reply(replies.diff_reply(found))
