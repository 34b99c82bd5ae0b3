"""Where clients of web archives find what they look for."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from webmill.serve.cdx.api import CdxApi
from webmill.serve.cdx.collinfo import Collinfo
from webmill.serve.cdx.limits import QueryLimits
from webmill.serve.memento import Memento
from webmill.serve.site import Site
from webmill.serve.threads import BoundedThreads

AT_ONCE, EACH = 16, 8  # threads: a question about one URL is short
MOST_WAITING, WAITING_EACH = 512, 128


def routes(site: Site, *, limits: QueryLimits | None = None) -> list[BaseRoute]:
    threads = BoundedThreads(at_once=AT_ONCE, each=EACH, most_waiting=MOST_WAITING, waiting_each=WAITING_EACH)
    cdx = CdxApi(site, limits or QueryLimits(), threads)
    memento = Memento(site, cdx, threads)
    return [
        Route("/collinfo.json", threads.endpoint(Collinfo(site).reply)),
        Route("/cdx", cdx.as_pywb),
        Route("/timemap/{form}/{url:archived}", memento.timemap),
        Route("/timegate/{url:archived}", memento.timegate),
        Route("/{name}/cdx", cdx.as_pywb),
        Route("/{name}-index", cdx.as_common_crawl),
        Route("/{name}/timemap/{form}/{url:archived}", memento.timemap),
        Route("/{name}/timegate/{url:archived}", memento.timegate),
    ]
