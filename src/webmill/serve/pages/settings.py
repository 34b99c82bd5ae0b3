"""/settings: every setting with its value, meaning and variable."""

from __future__ import annotations

from itertools import groupby

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    sections = [(name, [*group]) for name, group in groupby(site.settings, key=lambda setting: setting.section)]

    def settings(request: Request) -> Response:
        has_file = (site.root / "webmill.toml").is_file()
        return render(site, request, "settings.html", sections=sections, has_file=has_file)

    return [Route("/settings", threads.endpoint(settings))]
