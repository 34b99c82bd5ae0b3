"""/plugins: pages that the plugins of who runs this server have added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import NotFound
from webmill.infra.plugins.hooks import PluginPage
from webmill.infra.plugins.loaded import HookCall, Plugins
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    pages = dict(_pages(site.plugins))
    if not pages:
        return []

    def listing(request: Request) -> Response:
        return render(site, request, "plugins.html", pages={path: page.title for path, (page, _) in pages.items()})

    def shown(request: Request) -> Response:
        found = pages.get(request.url.path)
        if found is None:
            raise NotFound("no plugin has this page")
        page, call = found
        content = call.run(lambda: page.show(Path(site.root), dict(request.query_params)))
        return render(site, request, "plugin.html", title=page.title, content=content)

    return [Route("/plugins", threads.endpoint(listing)), Route("/plugins/{page:path}", threads.endpoint(shown))]


def _pages(plugins: Plugins) -> Iterator[tuple[str, tuple[PluginPage, HookCall]]]:
    for call in plugins.calls("register_pages"):
        for page in call() or ():
            if not isinstance(page, PluginPage):
                raise call.refuse(page, "webmill.PluginPage")
            yield f"/plugins/{call.plugin}/{page.path.strip('/')}", (page, call)
