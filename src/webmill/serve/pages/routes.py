"""The pages that tell how a collection stands, and static files. What reads its content is in `serve/reading.py`."""

from __future__ import annotations

from starlette.routing import BaseRoute

from webmill.serve.pages import crawl, overview, settings, static_files, tasks
from webmill.serve.site import Site


def routes(site: Site) -> list[BaseRoute]:
    return [
        *static_files.routes(),
        *overview.routes(site),
        *crawl.routes(site),
        *tasks.routes(site),
        *settings.routes(site),
    ]
