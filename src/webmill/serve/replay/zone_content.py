"""What an origin of the zone answers: a capture, changed by what the browser wants it for (`Sec-Fetch-Dest`).

Pages get the shim and their absolute links rewritten, scripts and workers what rewrite_script.py does, style sheets
their absolute addresses. Everything else, and whatever a script fetches as data, is sent as it was archived.
"""

from __future__ import annotations

import html
import json
import logging
from collections.abc import Iterator
from itertools import chain

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from webmill.errors import BadInput
from webmill.formats.css import decode_sheet, find_sheet_encoding
from webmill.formats.encodings import ASCII_WITHIN, NOT_ASCII, decode_as, lookup_encoding
from webmill.formats.html.charset import decode_page
from webmill.serve.captures.response import (
    HeaderPairs,
    add_headers,
    archived_range,
    capture_response,
    clean_header,
    memento_headers,
    original_headers,
    parse_content_type,
    ranged_capture_response,
    read_up_to,
)
from webmill.serve.http.responses import minimal_page
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.replay.content import (
    BODILESS,
    CSS,
    HTML,
    MOST_PASSED,
    MOST_REWRITTEN,
    SHOWN,
    file_page,
    status_of,
    typed,
)
from webmill.serve.replay.fuzzy_match import FoundCapture, ReplayRequest, rename_callback
from webmill.serve.replay.labels import OriginAtTime, ReplayZone
from webmill.serve.replay.links import PageEncoding, add_fragment
from webmill.serve.replay.nearest_capture import location_header, redirect_target
from webmill.serve.replay.rewrite_css import rewrite_css
from webmill.serve.replay.rewrite_html import rewrite_html
from webmill.serve.replay.rewrite_script import ScriptCache, is_module
from webmill.serve.replay.shim import SHIM_PATH, render_shim
from webmill.serve.replay.zone_links import ZoneLinks
from webmill.serve.site import Site

log = logging.getLogger(__name__)

FRAMES = ("iframe", "frame", "embed", "object")
WORKERS = ("worker", "sharedworker")
SCRIPTS = ("script", *WORKERS)
NEVER_SCRIPTS = ("image/", "audio/", "video/", "text/csv")  # no browser ever ran them
# What a script may read of a response, beside all `X-…`. Others say what a browser should do, and it must not.
PASSED = ("content-language", "etag", "last-modified", "retry-after", "total-count")
_NEVER_PASSED = (
    "x-frame-options",
    "x-dns-prefetch-control",
    "x-content-type-options",
    "x-xss-protection",
    "x-archive-",
)
MOST_COOKIES = 50


class ZoneReply(msgspec.Struct, frozen=True):
    """What it takes to answer one request of the zone."""

    site: Site
    zone: ReplayZone
    here: OriginAtTime
    asked: ReplayRequest
    found: FoundCapture
    scripts: ScriptCache

    def response(self, request: Request, threads: BoundedThreads) -> Response:
        """Return the capture as a response that closes the archive."""
        archived, asked = self.found.archived, self.asked
        links = self._links()
        headers = [*memento_headers(self.site, archived, asked.url), *self._kept_headers(links)]
        if there := redirect_target(archived):
            address = self.zone.address_of(self.here.timestamp, there)
            headers.append(("Location", add_fragment(address, location_header(archived))))
        if there or archived.status in BODILESS:
            archived.close()
            return add_headers(Response(status_code=archived.status), headers)
        kind, _ = parse_content_type(archived.content_type)
        if asked.destination in FRAMES and archived.content_type and kind not in HTML and not SHOWN.fullmatch(kind):
            archived.close()
            return add_headers(file_page(kind, shim_tag()), headers)
        try:
            changed = self._changed(links)
        except BaseException:
            archived.close()
            raise
        if changed is None:
            headers.append(("Content-Type", self._plain_type()))
            if archived.status in (200, 206):
                part = archived_range(archived)
                return ranged_capture_response(
                    archived, archived.content(), headers, request=request, threads=threads, part=part
                )
            return capture_response(archived, archived.content(), headers, status=status_of(archived), threads=threads)
        pieces, stated = changed
        headers.append(("Content-Type", stated))
        return capture_response(archived, pieces, headers, status=status_of(archived), threads=threads)

    def _links(self) -> ZoneLinks:
        return ZoneLinks(
            timestamp_part=self.here.timestamp,
            base=self.found.archived.capture.url or self.asked.url,
            zone=self.zone,
            here=self.here,
            scripts=self.scripts,
        )

    def _plain_type(self) -> str:
        stated = self.found.archived.content_type
        kind, label = parse_content_type(stated)
        return typed(kind, label) if stated else "application/octet-stream"

    def _kept_headers(self, links: ZoneLinks) -> HeaderPairs:
        headers = self.found.archived.headers
        kept: HeaderPairs = []
        for name, value in headers.pairs:
            lower = name.lower()
            is_data = lower.startswith("x-") and not lower.startswith(_NEVER_PASSED)
            if lower in PASSED or is_data or (lower == "link" and not self.asked.destination):
                kept.append((name, clean_header(value)[:MOST_PASSED]))
        refresh = headers.get("Refresh")
        if refresh and self.asked.destination in FRAMES:
            kept.append(("Refresh", links.rewrite_refresh(refresh) or clean_header(refresh)[:MOST_PASSED]))
        names = {name.lower() for name, _ in kept}
        return [*kept, *original_headers(headers, passed=names)]

    def _changed(self, links: ZoneLinks) -> tuple[Iterator[bytes], str] | None:
        """Return the changed content and its type, or None to send what is archived."""
        archived, destination = self.found.archived, self.asked.destination
        kind, label = parse_content_type(archived.content_type)
        change = None
        if destination in FRAMES and (kind in HTML or not archived.content_type):
            change = self._page
        elif destination in SCRIPTS and not kind.startswith(NEVER_SCRIPTS):
            change = self._script
        elif destination == "style" and kind == CSS:
            change = self._sheet
        elif self.found.callback:
            change = self._script
        if change is None:
            return None
        held, rest = read_up_to(archived.content(), MOST_REWRITTEN)
        if rest is None:
            try:
                made, stated = change(held, links, kind, label)
                return iter((made,)), stated
            except BadInput as error:
                log.info("not rewritten: %s", error, extra={"url": links.base})
        plain = "text/javascript" if destination in SCRIPTS else "text/plain" if destination in FRAMES else kind
        return chain((held,), rest or ()), typed(plain, label)

    def _page(self, held: bytes, links: ZoneLinks, kind: str, label: str | None) -> tuple[bytes, str]:
        del label
        decoded = decode_page(held, content_type=self.found.archived.content_type)
        links = msgspec.structs.replace(links, encoding=decoded.encoding)
        kind = kind if kind in HTML else "text/html"
        first = shim_tag(cookies=self.found.archived.headers.get_all("Set-Cookie"))
        if decoded.encoding in NOT_ASCII:
            return rewrite_html(decoded.text, links, first=first).encode("utf-8", "replace"), typed(kind, "utf-8")
        encoding = PageEncoding(decoded.encoding)
        page = rewrite_html(held.decode("latin-1"), links, encoding=encoding, first=first)
        return page.encode("latin-1"), typed(kind, decoded.encoding)

    def _sheet(self, held: bytes, links: ZoneLinks, kind: str, label: str | None) -> tuple[bytes, str]:
        encoding = find_sheet_encoding(held, label=label)
        if encoding in NOT_ASCII or encoding in ASCII_WITHIN:
            return rewrite_css(decode_sheet(held, encoding), links).encode("utf-8", "replace"), typed(kind, "utf-8")
        sheet = rewrite_css(held.decode("latin-1"), links, encoding=PageEncoding(encoding))
        return sheet.encode("latin-1"), typed(kind, label)

    def _script(self, held: bytes, links: ZoneLinks, kind: str, label: str | None) -> tuple[bytes, str]:
        """Return a script, undecoded where its encoding allows that; a worker's begins with the shim."""
        del kind
        encoding = _mark_of(held) or (lookup_encoding(label) if label else None) or ""
        is_wide = encoding in NOT_ASCII or encoding in ASCII_WITHIN
        script = decode_as(held, encoding).removeprefix("\ufeff") if is_wide else held.decode("latin-1")
        if self.found.callback:
            script = rename_callback(script, self.found.callback)
        if self.asked.destination:
            script = links.rewrite_script(script, "") or script
        if self.asked.destination in WORKERS:
            script = self._shim_of_worker(script) + script
        if is_wide:
            return script.encode("utf-8", "replace"), "text/javascript; charset=utf-8"
        return script.encode("latin-1"), typed("text/javascript", label)

    def _shim_of_worker(self, script: str) -> str:
        """Return what begins a worker. A module runs what it imports first; others may be modules without saying so."""
        return f"import {json.dumps(SHIM_PATH)};" if is_module(script) else render_shim(self.zone, self.here)


def _mark_of(held: bytes) -> str:
    return {b"\xff\xfe": "utf-16le", b"\xfe\xff": "utf-16be"}.get(held[:2], "")


def shim_tag(*, cookies: list[str] | None = None) -> str:
    """Return the element that loads the shim; with the cookies that the archived response set."""
    if not cookies:
        return f'<script src="{SHIM_PATH}"></script>'
    listed = json.dumps([clean_header(one)[:4096] for one in cookies[:MOST_COOKIES]])
    return f'<script src="{SHIM_PATH}" data-cookies="{html.escape(listed)}"></script>'


def missing_response(destination: str, message: str, *, status: int) -> Response:
    """Return the answer for what is not in the archive. The shim sees the mark and tells the banner."""
    headers = {"Server-Timing": "webmill-missing"} if status == 404 else {}
    if destination not in FRAMES:
        return Response(status_code=status, headers=headers)
    page = minimal_page("Cannot show this page", message).replace("<head>", f"<head>{shim_tag()}", 1)
    return HTMLResponse(page, status, headers)
