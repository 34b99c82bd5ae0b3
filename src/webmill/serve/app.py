"""The two applications of a server: its own origin, and the one where archived pages live."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from webmill.serve import operations, raw, reading
from webmill.serve.access_log import AccessLog
from webmill.serve.cdx import routes as cdx
from webmill.serve.crawl_data import FOLDERS, CrawlData
from webmill.serve.pages import routes as pages
from webmill.serve.published_files import FIRST_SEGMENTS, PublishedFiles
from webmill.serve.replay import frame, origin
from webmill.serve.replay.replay_policy import ReplayPolicy
from webmill.serve.request_guard import RequestGuard
from webmill.serve.responses import DefaultHeaders, exception_handlers, security_headers
from webmill.serve.site import Site
from webmill.serve.threads import BoundedThreads


def application(site: Site, *, access: AccessLog | None = None) -> ASGIApp:
    """Everything but archived pages."""
    routed = Starlette(routes=_routes(site), exception_handlers=exception_handlers(site))
    return RequestGuard(
        FirstSegmentRouter(_direct_apps(site), DefaultHeaders(routed, security_headers(site))), site, access=access
    )


def replay_application(site: Site, *, access: AccessLog | None = None) -> ASGIApp:
    """Archived pages, and nothing that they could reach."""
    routed = Starlette(routes=_replay_routes(site), exception_handlers=exception_handlers(site))
    return RequestGuard(ReplayPolicy(routed, site), site, is_replay=True, access=access)


def _routes(site: Site) -> list[BaseRoute]:
    """The first that fits answers. Kinds of work have threads apart: a search engine that hangs holds up no page."""
    looking, searching, captures = BoundedThreads(), BoundedThreads(), BoundedThreads()
    return [
        *operations.routes(site),
        *cdx.routes(site),
        *pages.routes(site, looking, searching=searching),
        *reading.routes(site, looking, searching=searching),
        *raw.routes(site, captures),
        *frame.routes(site, captures),
    ]


def _replay_routes(site: Site) -> list[BaseRoute]:
    return origin.routes(site)


def _direct_apps(site: Site) -> dict[str, ASGIApp]:
    """By the first word of the path: what is asked for so often that Starlette would be most of its cost."""
    delivery, crawl_data = PublishedFiles(site), CrawlData(site)
    return dict.fromkeys(FIRST_SEGMENTS, delivery) | dict.fromkeys(FOLDERS, crawl_data)


class FirstSegmentRouter:
    def __init__(self, bare: dict[str, ASGIApp], rest: ASGIApp) -> None:
        self._bare, self._rest = bare, rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = scope["path"][1:].partition("/")[0] if scope["type"] == "http" else ""
        await self._bare.get(first, self._rest)(scope, receive, send)
