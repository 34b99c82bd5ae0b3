"""Pages and JSON that read what is published, searchable and indexed."""

from __future__ import annotations

from starlette.routing import BaseRoute

from webmill.serve.api import routes as api
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.pages import documents, history, search, versions, versions_diff
from webmill.serve.site import Site
from webmill.serve.threads import BoundedThreads


def routes(site: Site, threads: BoundedThreads, *, searching: BoundedThreads) -> list[BaseRoute]:
    reading = ContentReader(site, threads, searching=searching)
    return [
        *search.routes(reading),
        *documents.routes(reading),
        *versions_diff.routes(reading),
        *versions.routes(reading),
        *history.routes(reading),
        *api.routes(reading),
    ]
