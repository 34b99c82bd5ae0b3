"""`/wacz/TIMESTAMP/URL`: one archived page as a WACZ file, with the resources that it names.

Bounded: so many resources and bytes at most; resources beyond are left out. The file is complete before it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from tempfile import TemporaryFile
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from webmill.crawl.page.resources import read_resources
from webmill.errors import BadInput
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import Query, url_range
from webmill.infra.storage.base import chunks_of
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import CaptureReader
from webmill.pipeline.captures import nearest_captures
from webmill.pipeline.export.wacz import WaczExport
from webmill.serve.api.operation import DescribedRoute
from webmill.serve.captures.address import quote_url, read_address
from webmill.serve.captures.operations import WACZ
from webmill.serve.captures.raw import SANDBOX_HEADERS
from webmill.serve.captures.response import capture_response, parse_content_type, read_up_to
from webmill.serve.http.responses import NO_STORE
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.replay.content import HTML
from webmill.serve.replay.nearest_capture import open_nearest
from webmill.serve.replay.page_title import title_of
from webmill.serve.site import Site

MAX_BYTES = 64 << 20  # of the records in one file
MAX_RESOURCES = 300
MAX_PAGE = 4 << 20  # bytes of a page that are searched for resources


class SilentBar:
    def advance(self, count: int = 1) -> None:
        """Nobody looks."""


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def download(request: Request) -> Response:
        address = read_address(request)
        archived = open_nearest(site, address)
        try:
            capture = archived.capture
            if capture.timestamp != address.timestamp:
                return RedirectResponse(wacz_address(capture.timestamp, address.url), 302, headers=NO_STORE)
            page, _ = read_up_to(archived.content(), MAX_PAGE)
        finally:
            archived.close()
        chosen = choose_captures(site.index(), archived, page)
        return _pack(site, archived, chosen, title=title_of(archived.content_type, page), threads=threads)

    return [
        DescribedRoute("/wacz/{rest:archived}", threads.endpoint(download), WACZ, template="/wacz/{timestamp}/{url}")
    ]


def wacz_address(timestamp: str, url: str) -> str:
    return f"/wacz/{timestamp}/{quote_url(url)}"


def choose_captures(index: CaptureIndex, archived: CaptureReader, page: bytes) -> list[CaptureRef]:
    """Return the page and, nearest in time, the resources that it names, as far as the limits allow."""
    capture = archived.capture
    left = MAX_BYTES - max(capture.length, archived.original.length)
    if left < 0:
        raise BadInput(f"the page has more than {MAX_BYTES >> 20} MiB: `webmill export wacz`", reason="too_large")
    chosen = {(capture.urlkey, capture.timestamp): capture}
    for url in _resources(archived, page):
        found = next(nearest_captures(index, url, moment=capture.timestamp), None)
        if found and found.capture.length <= left:
            left -= found.capture.length
            chosen.setdefault((found.capture.urlkey, found.capture.timestamp), found.capture)
    return list(chosen.values())


def _resources(archived: CaptureReader, page: bytes) -> Iterator[str]:
    if parse_content_type(archived.content_type)[0] not in HTML:
        return
    found = read_resources(page[:MAX_PAGE], url=archived.capture.url, content_type=archived.content_type)
    yield from (resource.url for resource in found[:MAX_RESOURCES])


def _pack(
    site: Site, archived: CaptureReader, chosen: list[CaptureRef], *, title: str, threads: BoundedThreads
) -> Response:
    capture = archived.capture
    out = TemporaryFile()  # noqa: SIM115 - closed when it is sent
    try:
        title = title or capture.url
        export = WaczExport(
            out,
            files=site.files,
            title=title,
            created=datetime.now(UTC),
            progress=lambda *_, **__: nullcontext(SilentBar()),
            main_url=capture.url,
            main_title=title,
            texts=False,
        )
        export.found(site.index(), *map(_exactly, chosen))
        size = out.seek(0, 2)
        out.seek(0)
    except BaseException:
        out.close()
        raise
    name = f"{capture.timestamp}-{urlsplit(capture.url).hostname or 'page'}.wacz"
    headers = [
        *SANDBOX_HEADERS,
        ("Content-Type", "application/wacz"),
        ("Content-Disposition", f'attachment; filename="{name}"'),
    ]
    return capture_response(archived.closing(out), chunks_of(out), headers, threads=threads, size=size)


def _exactly(capture: CaptureRef) -> Query:
    return Query(range=url_range(capture.url, "exact"), start=capture.timestamp, end=capture.timestamp)
