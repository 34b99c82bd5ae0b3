"""/api: the API as a page, made of the document that /openapi.json is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.serve.api.openapi import API_VERSION, ApiDocument
from webmill.serve.api.operation_list import described_operations
from webmill.serve.pages.render import render
from webmill.serve.site import Site


def routes(site: Site, described: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return the routes of the document of `described` and of its page."""
    document = ApiDocument(described, title=site.title, address=site.address)
    groups = cache(lambda: described_operations(document.content))

    async def page(request: Request) -> Response:
        return render(site, request, "api.html", groups=groups(), version=API_VERSION)

    return [document.route, Route("/api", page)]
