"""The CDX API: `/NAME-index`, `/NAME/cdx` and `/cdx`, captures of a URL, host or domain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Lock

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from webmill.errors import BadInput, Conflict, NotFound, Unavailable, WebmillError
from webmill.index.lookup.fuzzy import FuzzyIndex, fuzzy_range
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.paging import count_pages, page_of
from webmill.index.lookup.query import run_query
from webmill.serve.captures.response import LINKS
from webmill.serve.cdx.limits import HeavyQuerySlots, QueryLimits, Stopwatch, TimedIndex
from webmill.serve.cdx.output import MEDIA_TYPES, format_blocks, format_lines, format_links
from webmill.serve.cdx.params import CdxRequest, Output, read_params
from webmill.serve.cdx.stream import LineChunks, stream_response
from webmill.serve.http.codings import accepts_coding
from webmill.serve.http.responses import json_message
from webmill.serve.processes.metrics import BAD_LINES
from webmill.serve.processes.shared_counters import SharedCounters
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

log = logging.getLogger(__name__)

MOST_LOGGED = 1000  # different bad lines, in one process
HEADERS = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
NO_LAST_PAGE = "Page {} invalid: First Page is 0, Last Page is 0"


class CdxApi:
    """Answers CDX queries. Errors are `{"message": …}`.

    cdx_toolkit needs 400 for a page past the end (it takes 400 for "no more") and for no other page, and 404 for no
    captures.
    """

    def __init__(self, site: Site, limits: QueryLimits, threads: BoundedThreads) -> None:
        self._site = site
        self._limits = limits
        self._slots = HeavyQuerySlots(limits)
        self._threads = threads
        self.rejects = BadLineLog(site.metrics)

    async def as_pywb(self, request: Request) -> Response:
        return await self._answer(request, output="cdxj", empty_status=200, allow_fuzzy="1")

    async def as_common_crawl(self, request: Request) -> Response:
        return await self._answer(request, output="text", empty_status=404, allow_fuzzy="0")

    async def _answer(self, request: Request, *, output: Output, empty_status: int, allow_fuzzy: str) -> Response:
        try:
            cdx_request = await self._read(request, output, allow_fuzzy)
        except BadInput as error:
            return json_message(400, error.message)
        if cdx_request.output == "json":  # an empty body is not JSON
            empty_status = 404
        return await self.reply(request, cdx_request, name=request.path_params.get("name"), empty_status=empty_status)

    async def reply(
        self,
        request: Request,
        cdx_request: CdxRequest,
        *,
        name: str | None,
        form: OutputFormat | None = None,
        empty_status: int = 404,
    ) -> Response:
        """Answer a query in `form`. Unavailable: too many heavy queries."""
        form = form or self._form_of(cdx_request)
        gzip = accepts_coding(request.headers.get("accept-encoding", "").encode("latin-1"), "gzip")
        begin = partial(self._begin, cdx_request, name, form, gzip=gzip)
        with ExitStack() as held:
            if cdx_request.heavy:
                held.enter_context(await self._slots.acquire(request.scope, request.receive))
            try:
                first, chunks = await self._threads.run(request.scope, request.receive, begin)
            except WebmillError as error:
                return error_response(error, page=cdx_request.page)
            if request.method == "HEAD":
                chunks.stop()
            if not chunks.found and empty_status != 200:
                return json_message(empty_status, f"No Captures found for: {cdx_request.url}")
            return stream_response(
                first,
                chunks,
                media_type=form.media_type,
                headers=HEADERS,
                on_end=held.pop_all().close,
                threads=self._threads,
            )
        raise AssertionError  # the context managers suppress no exception

    async def _read(self, request: Request, output: Output, allow_fuzzy: str) -> CdxRequest:
        """Read the parameters; in a thread if a filter must be compiled, which may take a tenth of a second."""
        read = partial(read_params, request.query_params.multi_items(), output=output, allow_fuzzy=allow_fuzzy)
        if "filter" not in request.query_params:
            return read()
        return await self._threads.run(request.scope, request.receive, read)

    def _begin(
        self, cdx_request: CdxRequest, name: str | None, form: OutputFormat, *, gzip: bool
    ) -> tuple[bytes, LineChunks]:
        watch = Stopwatch(self._limits.seconds)
        chunks = LineChunks(self._lines(self._site.index(name), cdx_request, form, watch), watch, gzip=gzip)
        return chunks.next(), chunks

    def _form_of(self, cdx_request: CdxRequest) -> OutputFormat:
        if cdx_request.output == "link" and cdx_request.show == "captures":
            return OutputFormat(LINKS, partial(format_links, address=self._site.address, on_reject=self.rejects))
        media_type = "application/json" if cdx_request.show == "page count" else MEDIA_TYPES[cdx_request.output]
        return OutputFormat(
            media_type,
            partial(format_lines, output=cdx_request.output, fields=cdx_request.fields, on_reject=self.rejects),
        )

    def _lines(
        self, index: CaptureIndex, cdx_request: CdxRequest, form: OutputFormat, watch: Stopwatch
    ) -> Iterator[bytes]:
        """Yield the lines. A generator: nothing is read before a thread needs the first line."""
        wanted = cdx_request.query.range
        if cdx_request.show == "page count":
            count = count_pages(index, wanted, size=cdx_request.page_size)
            yield b'{"pages": %d, "pageSize": %d, "blocks": %d}\n' % (count.pages, count.size, count.blocks)
            return
        if cdx_request.show == "blocks":
            page = page_of(index, wanted, number=cdx_request.page or 0, size=cdx_request.page_size)
            yield from format_blocks(islice(page.blocks(), cdx_request.query.limit), cdx_request.output)
            return
        if cdx_request.page is not None:
            index = page_of(index, wanted, number=cdx_request.page, size=cdx_request.page_size)
        yield from form.write(self._captures(TimedIndex(index, watch), cdx_request))

    def _captures(self, index: CaptureIndex, cdx_request: CdxRequest) -> Iterator[bytes]:
        query, is_empty = cdx_request.query, True
        for line in run_query(index, query, on_reject=self.rejects):
            is_empty = False
            yield line
        if is_empty and cdx_request.fuzzy:
            near = msgspec.structs.replace(query, range=fuzzy_range(cdx_request.url))
            yield from run_query(FuzzyIndex(index, cdx_request.url), near, on_reject=self.rejects)


@dataclass(frozen=True)
class OutputFormat:
    """The format of the lines for a client."""

    media_type: str
    write: Callable[[Iterable[bytes]], Iterable[bytes]]


def error_response(error: WebmillError, *, page: int | None = None) -> Response:
    """Return an error response; 422 if it would fail again, since clients take 400 for the last page and retry 5xx."""
    if isinstance(error, NotFound):  # there is no index; a damaged one is `Unavailable`
        return json_message(400, NO_LAST_PAGE.format(page)) if page else json_message(404, str(error))
    if isinstance(error, BadInput):
        return json_message(400 if error.reason == "bad_page" else 422, error.message)
    if isinstance(error, Conflict):
        raise Unavailable("the index was just replaced; try again", retry_after=1) from error
    raise error


class BadLineLog:
    """Counts lines of an index that are not CDXJ and logs each once. May be called from any thread."""

    def __init__(self, counters: SharedCounters) -> None:
        self._counters = counters
        self._lock = Lock()
        self._logged: set[int] = set()

    def __call__(self, line: bytes, error: BadInput) -> None:
        line_hash = hash(line)
        with self._lock:
            self._counters.count(BAD_LINES)
            is_new = line_hash not in self._logged and len(self._logged) < MOST_LOGGED
            if is_new:
                self._logged.add(line_hash)
        if is_new:
            log.error("index line is not CDXJ", extra={"line": repr(line[:200]), "why": str(error)})
