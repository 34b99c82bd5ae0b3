"""`/web/TIMESTAMP/URL`: the banner, and the archived page in a frame from the replay origin.

With a replay zone the banner is shown by the zone's view host, because a browser gives the page in the frame its
storage only below a page of the same site; the address on our own origin, which people share, leads there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput, NotFound
from webmill.formats.url.normalise import normalise
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import CaptureReader
from webmill.pipeline.captures import capture_after, capture_before
from webmill.serve.api.links import readable_url
from webmill.serve.api.parameters import read_text
from webmill.serve.captures.address import (
    CaptureAddress,
    parse_address,
    raw_address,
    read_address,
    sent_path,
    web_address,
)
from webmill.serve.captures.raw import RECORD_MODIFIER
from webmill.serve.captures.response import add_headers, memento_headers, read_up_to
from webmill.serve.http.responses import NO_STORE, message_of
from webmill.serve.pages import static_files
from webmill.serve.pages.history import address_of
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.replay.capture_times import capture_times
from webmill.serve.replay.content import shown_action
from webmill.serve.replay.download import wacz_address
from webmill.serve.replay.nearest_capture import open_nearest, redirect_target
from webmill.serve.replay.page_title import TITLE_WITHIN, title_of
from webmill.serve.replay.replay_policy import replay_pass
from webmill.serve.site import Site

LATEST = b"29991231235959"
PATH_LIMITS = (
    "Scripts of this page may fail: this server has no replay zone, so pages have no storage, and scripts find only "
    "what is relative to them. See --replay-zone."
)
_URL = re.compile(rb"https?(?::|%3A)", re.IGNORECASE)


class Banner(msgspec.Struct, frozen=True, kw_only=True):
    """What the banner shows of a capture."""

    title: str
    url: str
    readable: str
    timestamp: str
    status: int
    here: str
    raw: str
    record: str
    wacz: str
    earlier: CaptureRef | None
    later: CaptureRef | None
    times: list[str]
    home: str  # where our own pages are, as seen from the banner
    limits: str  # what this way of replay cannot do


ShowPage = Callable[[Request, CaptureReader, str], Response]
FrameMissing = Callable[[Request, CaptureAddress, NotFound], Response]


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    """Return the routes of our own origin."""

    def lead_to_view(request: Request, archived: CaptureReader, url: str) -> Response:
        del request
        assert site.zone
        there = site.zone.view + web_address(archived.capture.timestamp, url)
        return RedirectResponse(there, 302, headers=NO_STORE)

    def show_missing(request: Request, address: CaptureAddress, error: NotFound) -> Response:
        reason = message_of(error, site.root)
        return render(site, request, "capture_missing.html", status=404, url=address.url, reason=reason)

    show = lead_to_view if site.zone else partial(_framed_page, site)
    return _frame_routes(site, threads, show, show_missing)


def view_routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    """Return the routes of the view host. What it does not have is on our own origin."""

    def lead_home(request: Request, address: CaptureAddress, error: NotFound) -> Response:
        del request, error
        return RedirectResponse(site.address + web_address(address.timestamp, address.url), 302, headers=NO_STORE)

    async def home(request: Request) -> Response:
        return RedirectResponse(site.address + sent_path(request).decode("ascii", "replace"), 302, headers=NO_STORE)

    shown = _frame_routes(site, threads, partial(_framed_page, site), lead_home)
    return [*shown, *static_files.routes(), Route("/{rest:archived}", home)]


def _framed_page(site: Site, request: Request, archived: CaptureReader, url: str) -> Response:
    timestamp = archived.capture.timestamp
    if site.zone:
        source = site.zone.address_of(timestamp, url)
    else:
        source = site.replay_address + web_address(timestamp + replay_pass(site), url)
    return render(site, request, "frame.html", banner=_banner(site, archived, url), source=source)


def _frame_routes(site: Site, threads: BoundedThreads, show: ShowPage, show_missing: FrameMissing) -> list[BaseRoute]:
    def frame(request: Request) -> Response:
        path = sent_path(request)
        if every := _calendar(path):
            return RedirectResponse(every, 302, headers=NO_STORE)
        address = _newest(path) or read_address(request)
        try:
            archived = open_nearest(site, address)
        except NotFound as error:
            return show_missing(request, address, error)
        try:
            if archived.capture.timestamp != address.timestamp:
                return RedirectResponse(web_address(archived.capture.timestamp, address.url), 302, headers=NO_STORE)
            if there := redirect_target(archived):
                answer: Response = RedirectResponse(web_address(address.timestamp, there), 302, headers=NO_STORE)
            else:
                answer = show(request, archived, address.url)
            return add_headers(answer, memento_headers(site, archived, address.url))
        finally:
            archived.close()

    def banner(request: Request) -> Response:
        """Return the banner of another page, for the script of the frame."""
        address = _placed(site, request) if "place" in request.query_params else _signed(site, request)
        archived = open_nearest(site, address)
        try:
            return render(site, request, "frame_banner.html", banner=_banner(site, archived, address.url))
        finally:
            archived.close()

    def go(request: Request) -> Response:
        """Lead from the address field of the banner to the capture nearest to the one shown."""
        typed = read_text(request, "url").strip()
        at = read_text(request, "at")
        when = at if at.isascii() and at.isdigit() and len(at) <= len(LATEST) else LATEST.decode()
        address = parse_address(f"/web/{when}/{typed}".encode())
        return RedirectResponse(web_address(when, address.url) if address else "/history", 302, headers=NO_STORE)

    return [
        Route("/web", threads.endpoint(go)),
        Route("/web/{rest:archived}", threads.endpoint(frame)),
        Route("/web-banner", threads.endpoint(banner)),
    ]


def _signed(site: Site, request: Request) -> CaptureAddress:
    """Return the page that the frame says it shows, with a signature that only that page has."""
    address = parse_address(request.query_params.get("at", "").encode())
    stamp = request.query_params.get("stamp", "")
    if address is None or not site.is_signed(shown_action(address.timestamp, address.url), stamp):
        raise BadInput("the signature of the archived page is not valid", reason="bad_stamp")
    return address


def _placed(site: Site, request: Request) -> CaptureAddress:
    """Return the page at an address of the zone. The browser says which origin has sent it; only it knows its pass."""
    place = request.query_params["place"]
    url = site.zone.original_of(place) if site.zone else None
    if not site.zone or url is None:
        raise BadInput("not the address of an archived page", reason="bad_address")
    here = site.zone.read_host(urlsplit(place).hostname or "")
    return CaptureAddress(timestamp=here.timestamp, url=url)


# Address forms that people know from other archives.


def _calendar(path: bytes) -> str | None:
    """Return the history page for `/web/*/URL`."""
    address = parse_address(path.replace(b"/*/", b"/1/", 1)) if path.startswith(b"/web/*/") else None
    return address_of(address.url) if address else None


def _newest(path: bytes) -> CaptureAddress | None:
    """Return the newest capture for `/web/URL`."""
    rest = path.removeprefix(b"/web/")
    return parse_address(b"/web/%b/%b" % (LATEST, rest)) if _URL.match(rest) else None


def _readable(url: str) -> str:
    """Return the URL for people, if what they would send with it is the same URL."""
    readable = readable_url(url)
    try:
        return readable if normalise(readable) == url else url
    except BadInput:
        return url


def _banner(site: Site, archived: CaptureReader, url: str) -> Banner:
    index = site.index()
    timestamp = archived.capture.timestamp
    return Banner(
        title=title_of(archived.content_type, read_up_to(archived.content(), TITLE_WITHIN)[0]),
        url=url,
        readable=_readable(url),
        timestamp=timestamp,
        status=archived.status,
        here=web_address(timestamp, url),
        raw=raw_address(timestamp, url),
        record=raw_address(timestamp, url, modifier=RECORD_MODIFIER),
        wacz=wacz_address(timestamp, url),
        earlier=capture_before(index, url, timestamp),
        later=capture_after(index, url, timestamp),
        times=capture_times(index, url, shown=timestamp),
        home=site.address if site.zone else "",
        limits="" if site.zone else PATH_LIMITS,
    )
