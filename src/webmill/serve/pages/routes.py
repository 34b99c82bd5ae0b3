"""Every page and where it is."""

from __future__ import annotations

from starlette.routing import BaseRoute

from webmill.serve.pages import static_files
from webmill.serve.site import Site


def routes(site: Site) -> list[BaseRoute]:
    del site
    return [*static_files.routes()]
