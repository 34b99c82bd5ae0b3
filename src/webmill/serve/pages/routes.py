"""The pages that tell how a collection stands, and static files. What reads its content is in `serve/reading.py`."""

from __future__ import annotations

from starlette.routing import BaseRoute

from webmill.serve.pages import crawl, overview, settings, static_files, tasks
from webmill.serve.site import Site
from webmill.serve.threads import BoundedThreads


def routes(site: Site, threads: BoundedThreads, *, searching: BoundedThreads) -> list[BaseRoute]:
    """The overview asks the search engine, too."""
    return [
        *static_files.routes(),
        *overview.routes(site, searching),
        *crawl.routes(site, threads),
        *tasks.routes(site, threads),
        *settings.routes(site, threads),
    ]
