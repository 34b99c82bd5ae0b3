"""The two ASGI applications of a server: our own origin, and the origin of archived pages."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from webmill.serve.api import feeds, llms
from webmill.serve.api import routes as api
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.operation import DescribedRoute
from webmill.serve.captures import pictures, raw
from webmill.serve.captures.memento import Memento
from webmill.serve.cdx import operations as declared
from webmill.serve.cdx.api import CdxApi
from webmill.serve.cdx.collinfo import Collinfo
from webmill.serve.cdx.limits import QueryLimits
from webmill.serve.files.crawl_data import FOLDERS, CrawlData
from webmill.serve.files.operations import file_routes
from webmill.serve.files.published_files import FIRST_SEGMENTS, PublishedFiles
from webmill.serve.guard.access_log import AccessLog
from webmill.serve.guard.request_guard import RequestGuard
from webmill.serve.http.responses import DefaultHeaders, exception_handlers, security_headers
from webmill.serve.pages import api as api_pages
from webmill.serve.pages import (
    corpus,
    crawl,
    crawl_reports,
    documents,
    history,
    history_compare,
    overview,
    plugins,
    problems,
    quality,
    save,
    search,
    settings,
    static_files,
    tasks,
    versions,
    versions_diff,
)
from webmill.serve.pages.problem_survey import ProblemSurvey
from webmill.serve.processes import operations
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.replay import download, frame, origin, zone_origin
from webmill.serve.replay.labels import ReplayZone
from webmill.serve.replay.replay_policy import ReplayPolicy
from webmill.serve.replay.zone_policy import ZonePolicy, host_of
from webmill.serve.site import Site

CDX_WAITING, CDX_WAITING_PER_CLIENT = 512, 64  # a query for one URL is short


def application(site: Site, *, access: AccessLog | None = None) -> ASGIApp:
    """Return the application of our own origin: everything but archived pages."""
    routed = Starlette(routes=_routes(site), exception_handlers=exception_handlers(site))
    router: ASGIApp = FirstSegmentRouter(_direct_apps(site), DefaultHeaders(routed, security_headers(site)))
    if site.zone:
        router = HostRouter({urlsplit(site.zone.view).hostname: _view_application(site)}, router)
    return RequestGuard(router, site, access=access)


def replay_application(site: Site, *, access: AccessLog | None = None) -> ASGIApp:
    """Return the application of the replay origin: archived pages and nothing else that they could reach."""
    routed = Starlette(routes=origin.routes(site), exception_handlers=exception_handlers(site))
    shared = ReplayPolicy(routed, site)
    if not site.zone:
        return RequestGuard(shared, site, is_replay=True, access=access)
    zoned = Starlette(routes=zone_origin.routes(site, site.zone), exception_handlers=exception_handlers(site))
    router = ZoneRouter(site.zone, ZonePolicy(zoned, site.zone), shared)
    return RequestGuard(router, site, is_replay=True, access=access)


def _view_application(site: Site) -> ASGIApp:
    """Return what the view host of the replay zone serves: the banner, and nothing of ours that could be changed."""
    threads = BoundedThreads(share=site.heavy)
    routed = Starlette(routes=frame.view_routes(site, threads), exception_handlers=exception_handlers(site))
    return DefaultHeaders(routed, security_headers(site) | {b"origin-agent-cluster": b"?1"})


def _routes(site: Site) -> list[BaseRoute]:
    """Return all routes; the first match answers. Each kind of work has threads of its own, so that a search engine
    that hangs blocks no page.
    """
    page_threads, search_threads, capture_threads = (BoundedThreads(share=site.heavy) for _ in range(3))
    wrong = ProblemSurvey(site)
    reader = ContentReader(site, page_threads, search_threads=search_threads)
    made: list[BaseRoute] = [
        *operations.routes(site),
        *cdx_routes(site),
        *static_files.routes(),
        *overview.routes(reader, search_threads, wrong),  # it asks the search engine, too
        *crawl.routes(site, page_threads),
        *crawl_reports.routes(site, page_threads),
        *tasks.routes(site, page_threads, wrong),
        *problems.routes(site, page_threads, wrong),
        *quality.routes(site, page_threads),
        *save.routes(site, page_threads),
        *corpus.routes(site, page_threads),
        *settings.routes(site, page_threads),
        *plugins.routes(site, page_threads),
        *_content_routes(reader),
        *raw.routes(site, capture_threads),
        *pictures.routes(site, capture_threads),
        *frame.routes(site, capture_threads),
        *download.routes(site, capture_threads),
        *llms.routes(reader),
        *CrawlData(site).routes(),
    ]
    return [*api_pages.routes(site, [*made, *file_routes()]), *made]


def described_routes(site: Site) -> list[BaseRoute]:
    """Return the routes that /openapi.json describes."""
    return [*_routes(site), *file_routes()]


def cdx_routes(site: Site, *, limits: QueryLimits | None = None) -> list[BaseRoute]:
    """Return the routes that clients of web archives know: CDX API, TimeMap, TimeGate."""
    threads = BoundedThreads(max_waiting=CDX_WAITING, waiting_per_client=CDX_WAITING_PER_CLIENT, share=site.heavy)
    cdx = CdxApi(site, limits or QueryLimits(), threads)
    memento = Memento(site, cdx, threads)
    return [
        DescribedRoute("/collinfo.json", threads.endpoint(Collinfo(site).reply), declared.COLLINFO),
        DescribedRoute("/cdx", cdx.as_pywb, declared.CDX),
        DescribedRoute("/timemap/{form}/{url:archived}", memento.timemap, declared.TIMEMAP),
        DescribedRoute("/timegate/{url:archived}", memento.timegate, declared.TIMEGATE),
        DescribedRoute("/{name}/cdx", cdx.as_pywb, declared.CDX_OF_CRAWL),
        DescribedRoute("/{name}-index", cdx.as_common_crawl, declared.CRAWL_INDEX),
        DescribedRoute("/{name}/timemap/{form}/{url:archived}", memento.timemap, declared.TIMEMAP_OF_CRAWL),
        DescribedRoute("/{name}/timegate/{url:archived}", memento.timegate, declared.TIMEGATE_OF_CRAWL),
    ]


def _content_routes(reader: ContentReader) -> list[BaseRoute]:
    """Return the pages and JSON that read what is published, searchable and indexed."""
    return [
        *search.routes(reader),
        *documents.routes(reader),
        *versions_diff.routes(reader),
        *versions.routes(reader),
        *history_compare.routes(reader),
        *history.routes(reader),
        *feeds.routes(reader),
        *api.routes(reader),
    ]


def _direct_apps(site: Site) -> dict[str, ASGIApp]:
    """Return applications by first path segment: so frequent that Starlette would be most of their cost."""
    return dict.fromkeys(FIRST_SEGMENTS, PublishedFiles(site)) | dict.fromkeys(FOLDERS, CrawlData(site))


class HostRouter:
    """Routes by the name in the Host header, which the guard has checked; proxies drop the port."""

    def __init__(self, apps: dict[str | None, ASGIApp], default: ASGIApp) -> None:
        self._apps, self._default = apps, default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = host_of(Headers(scope=scope)) if scope["type"] == "http" else ""
        await self._apps.get(host, self._default)(scope, receive, send)


class ZoneRouter:
    """Routes to the zone what names a host of it."""

    def __init__(self, zone: ReplayZone, zoned: ASGIApp, default: ASGIApp) -> None:
        self._zone, self._zoned, self._default = zone, zoned, default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_zoned = scope["type"] == "http" and self._zone.is_zone_host(host_of(Headers(scope=scope)))
        await (self._zoned if is_zoned else self._default)(scope, receive, send)


class FirstSegmentRouter:
    """Routes by the first segment of the path alone."""

    def __init__(self, apps: dict[str, ASGIApp], default: ASGIApp) -> None:
        self._apps, self._default = apps, default

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first = scope["path"][1:].partition("/")[0] if scope["type"] == "http" else ""
        await self._apps.get(first, self._default)(scope, receive, send)
