"""Pages and JSON that read what is published, searchable and indexed."""

from __future__ import annotations

from starlette.routing import BaseRoute

from webmill.serve.api import routes as api
from webmill.serve.api.reading import Reading
from webmill.serve.pages import documents, history, search, versions, versions_diff
from webmill.serve.site import Site
from webmill.serve.threads import Threads


def routes(site: Site, threads: Threads, *, searching: Threads) -> list[BaseRoute]:
    reading = Reading(site, threads, searching=searching)
    return [
        *search.routes(reading),
        *documents.routes(reading),
        *versions_diff.routes(reading),
        *versions.routes(reading),
        *history.routes(reading),
        *api.routes(reading),
    ]
