"""What pages and JSON read from: versions and search engine, opened once per process."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from webmill.errors import BadInput, Unavailable
from webmill.serve.api.engine import SharedEngine
from webmill.serve.api.published import PublishedVersions
from webmill.serve.api.search import DocumentSearch
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

log = logging.getLogger(__name__)


Answer: TypeAlias = "Callable[[ContentReader, Request], Response]"


class ContentReader:
    """Gives endpoints access to versions and search."""

    def __init__(self, site: Site, threads: BoundedThreads, *, search_threads: BoundedThreads) -> None:
        self.site = site
        self.published = PublishedVersions(site.versions)
        self.engine = SharedEngine(site.open_engine, site.publishing.search / "meta.json")
        self.search = DocumentSearch(site, self.engine, self.published)
        self._threads, self._search_threads = threads, search_threads
        weakref.finalize(self, self.engine.close)  # with the application, or at the end of the process

    def endpoint(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that runs `answer` in a thread: it blocks or computes."""
        return self._endpoint(answer, self._threads)

    def search_endpoint(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """Return such an endpoint in the threads of the search engine."""
        return self._endpoint(answer, self._search_threads)

    def _endpoint(self, answer: Answer, threads: BoundedThreads) -> Callable[[Request], Awaitable[Response]]:
        async def run_answer(request: Request) -> Response:
            try:
                return await threads.run(request.scope, request.receive, partial(answer, self, request))
            except BadInput as error:
                if not error.source:  # the request is wrong, not a file
                    raise
                log.error("stored data is damaged", extra={"why": str(error)})
                raise Unavailable(f"stored data is damaged: {error.message}") from error

        return run_answer
