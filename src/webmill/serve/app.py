"""The two applications of a server: its own origin, and the one where archived pages live."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from webmill.errors import WebmillError
from webmill.serve.pages import routes as pages
from webmill.serve.replies import as_json
from webmill.serve.site import Site


def application(site: Site) -> ASGIApp:
    """Everything but archived pages."""
    return Starlette(routes=_routes(site), exception_handlers={WebmillError: as_json})


def replay_application(site: Site) -> ASGIApp:
    """Archived pages, and nothing that they could reach."""
    del site  # its routes come here
    return Starlette(routes=[], exception_handlers={WebmillError: as_json})


def _routes(site: Site) -> list[BaseRoute]:
    """The first that fits answers."""
    return [*pages.routes(site)]
