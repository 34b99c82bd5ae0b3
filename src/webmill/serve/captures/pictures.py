"""`/picture/TIMESTAMPview_/URL`: what a page looked like when it was captured in a browser; `thumb_` for the small one.

A picture is a record `urn:view:URL` or `urn:thumbnail:URL`, made some seconds after its page was fetched. Any archive
may bring such records, with any bytes: what is not a PNG or JPEG of a bounded size is not sent.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.picture import picture_size
from webmill.formats.timestamps import from_datetime, to_datetime
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import Query, run_query, surt_range, url_range
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import open_record
from webmill.pipeline.captures import capture_after, nearest_captures, parse_index_lines
from webmill.serve.api.operation import DescribedRoute
from webmill.serve.captures.address import quote_url, read_address
from webmill.serve.captures.closed import open_for_client
from webmill.serve.captures.operations import PICTURE
from webmill.serve.captures.raw import SANDBOX_HEADERS
from webmill.serve.captures.response import add_headers, read_up_to
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

log = logging.getLogger(__name__)

LATEST = timedelta(hours=1)  # from the page to its picture
MOST_PICTURES = 400  # of one address that are looked at
MOST_CAPTURES = 64  # of a page before its picture


class PictureKind(msgspec.Struct, frozen=True):
    prefix: str  # of the record's URL
    bytes: int
    pixels: int


KINDS = {
    "view_": PictureKind("urn:view:", 16 << 20, 20_000_000),
    "thumb_": PictureKind("urn:thumbnail:", 1 << 20, 1_000_000),
}


class PicturedCapture(msgspec.Struct, frozen=True):
    """A capture of which a picture may be: its page and its time."""

    url: str
    timestamp: str


class PagePicture(msgspec.Struct, frozen=True):
    """Addresses of a picture. `small` may be the large one, where there is no other."""

    small: str
    large: str


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def picture(request: Request) -> Response:
        address = read_address(request)
        kind = KINDS.get(address.modifier)
        if kind is None:
            raise BadInput("write /picture/TIMESTAMPview_/URL or /picture/TIMESTAMPthumb_/URL", reason="bad_address")
        return _picture(site, kind, PicturedCapture(address.url, address.timestamp))

    template = "/picture/{picture}/{url}"
    return [DescribedRoute("/picture/{rest:archived}", threads.endpoint(picture), PICTURE, template=template)]


def _picture(site: Site, kind: PictureKind, of: PicturedCapture) -> Response:
    index = site.index()
    record = next(iter(_pictures(index, kind, of.url, of.timestamp, of.timestamp)), None)
    page = _page_of(index, of) if record else None
    if record is None or page is None:
        raise NotFound(f"there is no picture of this address at {of.timestamp}")
    open_for_client(site, index, page).close()  # a page that may not be shown has no picture either
    archived = open_record(site.files, record)
    try:
        data, rest = read_up_to(archived.content(), kind.bytes)
    finally:
        archived.close()
    try:
        found = picture_size(data)
    except BadInput as error:
        raise NotFound(f"this picture cannot be shown: {error.message}") from error
    if rest is not None or found.pixels > kind.pixels:
        raise NotFound(f"this picture cannot be shown: it is too large ({found.width} x {found.height})")
    headers = [*SANDBOX_HEADERS, ("Content-Type", found.type), ("Content-Disposition", "inline")]
    return add_headers(Response(data), headers)


def picture_address(modifier: str, capture: PicturedCapture) -> str:
    return f"/picture/{capture.timestamp}{modifier}/{quote_url(capture.url)}"


def pictures_at(site: Site, moments: Sequence[tuple[str, str]]) -> tuple[PagePicture | None, ...]:
    """Return the pictures of the captures of these URLs at these times; the URLs may be written in other ways."""
    try:
        index = site.index()
        found = [next(nearest_captures(index, url, moment=time), None) for url, time in moments]
    except WebmillError as error:
        log.warning("cannot look up pictures", extra={"why": str(error)})
        return tuple(None for _ in moments)
    pages = [
        PicturedCapture(line.capture.url if line else url, time)
        for (url, time), line in zip(moments, found, strict=True)
    ]
    pictures = pictures_of(index, pages)
    return tuple(pictures.get(page) for page in pages)


def pictures_of(index: CaptureIndex, captures: Iterable[PicturedCapture]) -> dict[PicturedCapture, PagePicture]:
    """Return the pictures of captures, as far as there are any. A picture is of the last capture of its address before
    it, if that is not too old."""
    if not _has_pictures(index):
        return {}
    by_url: dict[str, list[str]] = {}
    for one in captures:
        by_url.setdefault(one.url, []).append(one.timestamp)
    found: dict[PicturedCapture, PagePicture] = {}
    for url, times in by_url.items():
        try:
            found |= _pictures_of(index, url, sorted(times))
        except WebmillError as error:  # show the page without its pictures
            log.warning("cannot look up pictures", extra={"why": str(error)})
    return found


def _has_pictures(index: CaptureIndex) -> bool:
    """Tell whether there are any: most collections have none, and a list of hits would look for each."""
    try:
        return any(next(index.lines(surt_range(kind.prefix, "prefix")), None) for kind in KINDS.values())
    except WebmillError as error:  # show the page without its pictures
        log.warning("cannot look up pictures", extra={"why": str(error)})
        return False


def _pictures_of(index: CaptureIndex, url: str, times: Sequence[str]) -> dict[PicturedCapture, PagePicture]:
    end = _shifted(times[-1], LATEST)
    taken = {name: _pictures(index, kind, url, times[0], end) for name, kind in KINDS.items()}
    if not any(taken.values()):
        return {}
    after = capture_after(index, url, times[-1])
    small, large = (_by_capture(name, url, times, taken[name], after) for name in ("thumb_", "view_"))
    return {
        PicturedCapture(url, time): PagePicture(small.get(time) or large[time], large.get(time) or small[time])
        for time in times
        if time in small or time in large
    }


def _by_capture(
    name: str, url: str, times: Sequence[str], taken: list[CaptureRef], after: CaptureRef | None
) -> dict[str, str]:
    """Return the address of the first picture of each capture, by the capture's time."""
    found: dict[str, str] = {}
    for picture in taken:
        time = times[bisect_right(times, picture.timestamp) - 1]
        is_later = after is not None and after.timestamp <= picture.timestamp
        if picture.timestamp <= _shifted(time, LATEST) and not is_later:
            found.setdefault(time, picture_address(name, PicturedCapture(url, picture.timestamp)))
    return found


def _pictures(index: CaptureIndex, kind: PictureKind, url: str, start: str, end: str) -> list[CaptureRef]:
    """Return the pictures of just this URL: an index does not tell /A from /a."""
    wanted = kind.prefix + url
    query = Query(range=url_range(wanted, "exact"), start=start, end=end, limit=MOST_PICTURES)
    return [line.capture for line in parse_index_lines(run_query(index, query)) if line.capture.url == wanted]


def _page_of(index: CaptureIndex, of: PicturedCapture) -> CaptureRef | None:
    """Return the capture of the page that a picture is of."""
    start, end = _shifted(of.timestamp, -LATEST), of.timestamp
    query = Query(range=url_range(of.url, "exact"), start=start, end=end, sort="reverse", limit=MOST_CAPTURES)
    lines = parse_index_lines(run_query(index, query))
    return next((line.capture for line in lines if line.capture.url == of.url), None)


def _shifted(timestamp: str, by: timedelta) -> str:
    try:
        return from_datetime(to_datetime(timestamp) + by)
    except OverflowError:  # before the year 1, after 9999
        return timestamp
