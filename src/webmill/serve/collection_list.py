"""The list of collections of a server that serves several: a page, and the same as JSON.

Each collection has an origin of its own, and one for its archived pages: a browser that was told the token of one of
them sends it to no other, and nothing that runs in one can read another.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from webmill.crawl.status_file import node_slots, read_status
from webmill.errors import WebmillError
from webmill.infra.storage.local import LocalStorage
from webmill.publish.pointer import read_pointer
from webmill.serve import search_everywhere
from webmill.serve.api.json_replies import json_response
from webmill.serve.api.operation import TEXT, DescribedRoute, Operation, Reply
from webmill.serve.guard.access_log import AccessLog
from webmill.serve.guard.request_guard import RequestGuard
from webmill.serve.http.responses import DefaultHeaders, exception_handlers, security_headers
from webmill.serve.pages import api, static_files
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.search_everywhere import CollectionSearch, SearchEverywhere
from webmill.serve.site import Site
from webmill.settings import SearchSettings

LIST_NAME = "collections"  # of the list, where addresses are made of names


class ListedCollection(msgspec.Struct, frozen=True, kw_only=True):
    """A collection as it is listed; `root` is not shown."""

    name: str
    root: Path
    address: str
    replay_address: str
    search: SearchSettings = SearchSettings()


class CollectionReply(msgspec.Struct, frozen=True, kw_only=True):
    """`documents` are those of the live version; None: nothing is published. `pages`: those of its crawl."""

    name: str
    address: str
    replay_address: str
    documents: int | None = None
    pages: int | None = None
    is_crawling: bool = False
    is_paused: bool = False


class CollectionsReply(msgspec.Struct, frozen=True):
    collections: list[CollectionReply]


COLLECTIONS = Operation(
    name="list_collections",
    tag="operations",
    summary="List collections",
    about="The collections of a server that serves several, each with the address of its own API.",
    replies={200: Reply(about="The collections.", kind=CollectionsReply)},
    is_conditional=True,
)
LIST_HEALTH = Operation(
    name="get_list_health",
    tag="operations",
    summary="Whether the list is served",
    replies={200: Reply(about="It is.", media_types=(TEXT,))},
    error_form="message",
)


def list_application(site: Site, collections: list[ListedCollection], *, access: AccessLog | None = None) -> ASGIApp:
    """Return the application of the origin that lists collections. `site` is none of them, and has no content."""
    threads = BoundedThreads()

    def page(request: Request) -> Response:
        return render(site, request, "collections.html", collections=[describe(one) for one in collections])

    def as_json(request: Request) -> Response:
        return json_response(request, CollectionsReply([describe(one) for one in collections]))

    async def is_alive(request: Request) -> Response:
        del request
        return PlainTextResponse("ok\n")

    searches = [CollectionSearch(one.name, one.address, one.root, one.search) for one in collections]
    made: list[BaseRoute] = [
        *search_everywhere.routes(site, SearchEverywhere(searches), threads),
        Route("/", threads.endpoint(page)),
        DescribedRoute("/collections.json", threads.endpoint(as_json), COLLECTIONS),
        DescribedRoute("/healthz", is_alive, LIST_HEALTH),
        *static_files.routes(),
    ]
    routes = [*api.routes(site, made), *made]
    routed = Starlette(routes=routes, exception_handlers=exception_handlers(site))
    return RequestGuard(DefaultHeaders(routed, security_headers(site)), site, access=access)


def describe(one: ListedCollection) -> CollectionReply:
    """Return a collection with a few figures; those that cannot be read are left out."""
    reply = CollectionReply(name=one.name, address=one.address, replay_address=one.replay_address)
    with suppress(WebmillError):
        reply = msgspec.structs.replace(reply, documents=read_pointer(LocalStorage(one.root)).count)
    with suppress(WebmillError):
        statuses = [read_status(one.root / "frontier", slot=slot) for slot in node_slots(one.root / "frontier")]
        reply = msgspec.structs.replace(
            reply,
            pages=max(status.total.pages for status in statuses),
            is_crawling=any(status.is_running for status in statuses),
            is_paused=any(status.is_running and status.total.is_paused for status in statuses),
        )
    return reply


def distinct_names(roots: list[Path]) -> list[str]:
    """Return a name for each folder: its own, with a number behind it where another has the same."""
    names: list[str] = [LIST_NAME]
    for root in roots:
        base = name = root.name or "collection"
        number = 1
        while name in names or (number > 1 and any(name == other.name for other in roots)):
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names[1:]
