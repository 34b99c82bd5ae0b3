"""Archived content for the replay origin: links rewritten, codings undone, few headers kept (V08)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from itertools import chain

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from webmill.errors import BadInput
from webmill.formats.css import decode_sheet, find_sheet_encoding
from webmill.formats.encodings import ASCII_WITHIN, NOT_ASCII
from webmill.formats.html.charset import decode_page
from webmill.pipeline.capture_reader import CaptureReader
from webmill.serve.captures.address import CaptureAddress, web_address
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
from webmill.serve.replay.links import LinkRewriter, PageEncoding, add_fragment
from webmill.serve.replay.nearest_capture import location_header, redirect_target
from webmill.serve.replay.rewrite_css import rewrite_css
from webmill.serve.replay.rewrite_html import rewrite_html
from webmill.serve.site import Site

log = logging.getLogger(__name__)

MOST_REWRITTEN = 8 << 20  # bytes; larger pages and style sheets are not rewritten
HTML, CSS = ("text/html", "application/xhtml+xml"), "text/css"
BODILESS = (204, 205)
NOTSHOWN = (206, 304, 407)  # answers to a range, a condition or a proxy: browsers would not show them
# Passed on as they are; Content-Type, Location and Refresh are rewritten.
PASSED = ("content-language",)
TEXTS = (
    "text/plain",
    "text/xml",
    "text/javascript",
)  # others, such as text/csv, would be downloaded; in a frame they are shown as text
SHOWN = re.compile(
    r"(?:text|audio|video)/.*|image/(?:png|jpe?g|pjpeg|gif|webp|avif|apng|bmp|svg\+xml|x-icon|vnd\.microsoft\.icon)"
    r"|application/(?:(?:.*\+)?(?:json|xml)|(?:x-)?(?:java|ecma)script)"
)
MOST_PASSED = 1000  # characters
_LOOKS_LIKE_HTML = re.compile(rb"\s*+(?:\xef\xbb\xbf)?<(?:!doctype\s++html|html|head|body|title)\b", re.IGNORECASE)


def replay_response(
    site: Site,
    archived: CaptureReader,
    address: CaptureAddress,
    *,
    is_page: bool,
    request: Request,
    threads: BoundedThreads,
) -> Response:
    """Return the capture as a response that closes the archive. `is_page`: it fills a frame and reports itself to our
    page around it.
    """
    links = LinkRewriter(address.timestamp_part, archived.capture.url or address.url)
    headers = [*memento_headers(site, archived, address.url), *_kept_headers(archived, links)]
    if there := redirect_target(archived):
        headers.append(
            ("Location", add_fragment(web_address(address.timestamp_part, there), location_header(archived)))
        )
    if there or archived.status in BODILESS:
        archived.close()
        return add_headers(Response(status_code=archived.status), headers)
    report = _report_script(site, archived, address) if is_page else ""
    kind, label = parse_content_type(archived.content_type)
    if archived.status in (200, 206) and archived.content_type and kind not in (*HTML, CSS):
        if is_page and not SHOWN.fullmatch(kind):
            archived.close()
            return add_headers(file_page(kind, report), headers)
        shown = "text/plain" if is_page and kind.startswith("text/") and kind not in TEXTS else kind
        headers.append(("Content-Type", typed(shown, label)))
        pieces = archived.content()
        return ranged_capture_response(
            archived, pieces, headers, request=request, threads=threads, part=archived_range(archived)
        )
    try:
        pieces, stated = _rewrite(archived, links, first=report)
    except BaseException:
        archived.close()
        raise
    if is_page and not SHOWN.fullmatch(stated.partition(";")[0]):
        archived.close()
        return add_headers(file_page(kind, report), headers)
    return capture_response(
        archived, pieces, [*headers, ("Content-Type", stated)], status=status_of(archived), threads=threads
    )


def status_of(archived: CaptureReader) -> int:
    return archived.status if 200 <= archived.status <= 599 and archived.status not in NOTSHOWN else 200


def file_page(kind: str, first: str) -> Response:
    """Return a page in place of a download or plugin content, which the sandbox forbids."""
    message = f"This is a file ({kind}) that browsers do not show here. Download it with “As archived” above."
    return HTMLResponse(minimal_page("Archived file", message).replace("<head>", f"<head>{first}", 1))


def _rewrite(archived: CaptureReader, links: LinkRewriter, *, first: str) -> tuple[Iterator[bytes], str]:
    """Return the rewritten content and its type. A page that is too large to rewrite is sent as plain text."""
    stated = archived.content_type
    kind, label = parse_content_type(stated)
    held, rest = read_up_to(archived.content(), MOST_REWRITTEN if kind in (*HTML, CSS) or not stated else 0)
    if not stated and _LOOKS_LIKE_HTML.match(held):
        kind = "text/html"
    if kind in (*HTML, CSS) and rest is None:
        try:
            if kind == CSS:
                held, label = _rewrite_sheet(held, links, label)
            else:
                held, label = _rewrite_page(held, archived, links, first=first)
            return iter((held,)), typed(kind, label)
        except BadInput as error:
            log.info("not rewritten: %s", error, extra={"url": links.base})
    return chain((held,), rest or ()), typed("text/plain" if kind in HTML else kind, label)


def typed(kind: str, label: str | None) -> str:
    """Return a Content-Type."""
    return f"{kind}; charset={label}" if label else kind


def _rewrite_page(held: bytes, archived: CaptureReader, links: LinkRewriter, *, first: str) -> tuple[bytes, str]:
    decoded = decode_page(held, content_type=archived.content_type)
    links = msgspec.structs.replace(links, encoding=decoded.encoding)
    if decoded.encoding in NOT_ASCII:  # decoded first and sent as UTF-8
        return rewrite_html(decoded.text, links, first=first).encode("utf-8", "replace"), "utf-8"
    encoding = PageEncoding(decoded.encoding)
    page = rewrite_html(held.decode("latin-1"), links, encoding=encoding, first=first)
    return page.encode("latin-1"), decoded.encoding


def _rewrite_sheet(held: bytes, links: LinkRewriter, label: str | None) -> tuple[bytes, str | None]:
    encoding = find_sheet_encoding(held, label=label)
    links = msgspec.structs.replace(links, encoding=encoding)
    if encoding in NOT_ASCII or encoding in ASCII_WITHIN:
        return rewrite_css(decode_sheet(held, encoding), links).encode("utf-8", "replace"), "utf-8"
    return rewrite_css(held.decode("latin-1"), links, encoding=PageEncoding(encoding)).encode("latin-1"), label


def _kept_headers(archived: CaptureReader, links: LinkRewriter) -> HeaderPairs:
    named = ((name, archived.headers.get(name)) for name in PASSED)
    kept = [(name.title(), clean_header(value)[:MOST_PASSED]) for name, value in named if value]
    refresh = archived.headers.get("Refresh")
    if refresh and (there := links.rewrite_refresh(refresh)):
        kept.append(("Refresh", there))
    return [*kept, *original_headers(archived.headers, passed=PASSED)]


def _report_script(site: Site, archived: CaptureReader, address: CaptureAddress) -> str:
    """Return a script to insert before the page's own. It reports to the page around the frame what is shown, and
    removes WebRTC, which no policy can block (a determined page finds it again in a frame of its own).

    The signature proves that the report comes from us. Only a page that fills a frame gets one, and no other page can
    read it, since each has an opaque origin. So an archived page cannot pass itself off as another in the banner.
    """
    shown = [archived.capture.timestamp, address.url, site.sign(shown_action(archived.capture.timestamp, address.url))]
    message = json.dumps({"webmill": shown}).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    no_webrtc = "delete self.RTCPeerConnection;delete self.webkitRTCPeerConnection"
    return f"<script>{no_webrtc};top.postMessage({message},{json.dumps(site.address)})</script>"


def shown_action(timestamp: str, url: str) -> str:
    return f"shown {timestamp} {url}"
