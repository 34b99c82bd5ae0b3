"""`/raw/TIMESTAMP/URL`: captures as archived, for programs and for saving. Nothing of them runs on our origin (V11).

`/raw/TIMESTAMPwarc_/URL` is the WARC record itself, byte for byte.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import chain

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from webmill.errors import BadInput, NotFound
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import PIECE, CaptureReader, open_record
from webmill.pipeline.captures import nearest_captures
from webmill.serve.api.operation import DescribedRoute
from webmill.serve.captures.address import CaptureAddress, raw_address, read_address
from webmill.serve.captures.closed import open_for_client, refuse_closed_record
from webmill.serve.captures.operations import RAW
from webmill.serve.captures.response import (
    HeaderPairs,
    capture_response,
    clean_header,
    memento_headers,
    original_headers,
    parse_content_type,
    ranged_capture_response,
)
from webmill.serve.http.responses import NO_STORE
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

RECORD_MODIFIER = "warc_"

# Shown in the browser because they cannot execute. All other types are downloads.
SAFE_INLINE_TYPES = frozenset(
    {
        *("text/plain", "application/json"),
        *("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"),
        *("image/x-icon", "image/vnd.microsoft.icon"),
        *("audio/mpeg", "audio/ogg", "audio/wav", "audio/webm", "audio/mp4", "audio/flac"),
        *("video/mp4", "video/webm", "video/ogg"),
    }
)
SANDBOX_HEADERS = [
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    *NO_STORE.items(),
]
_NAME = re.compile(r"[^/]/([A-Za-z0-9_-][A-Za-z0-9._-]{0,99})$")
_MAGIC = ((b"\x1f\x8b", ".warc.gz"), (b"\x28\xb5\x2f\xfd", ".warc.zst"), (b"WARC/", ".warc"))


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def raw(request: Request) -> Response:
        address = read_address(request)
        if address.modifier not in ("", RECORD_MODIFIER):
            raise BadInput(
                f"unknown modifier {address.modifier}; write /raw/TIMESTAMP/URL or /raw/TIMESTAMPwarc_/URL",
                reason="bad_address",
            )
        site.closed.refuse_page(address.url)
        index = site.index()
        found = next(nearest_captures(index, address.url, moment=address.moment), None)
        if found is None:
            raise NotFound(f"not in this archive: {address.url}")
        capture = found.capture
        if capture.timestamp != address.timestamp:
            there = raw_address(capture.timestamp, address.url, modifier=address.modifier)
            return RedirectResponse(there, 302, headers=NO_STORE)
        if address.modifier:
            refuse_closed_record(site, index, capture)
            return _record(site, capture, threads)
        return _payload(site, open_for_client(site, index, capture), address, request, threads)

    return [DescribedRoute("/raw/{rest:archived}", threads.endpoint(raw), RAW, template="/raw/{timestamp}/{url}")]


def _payload(
    site: Site, archived: CaptureReader, address: CaptureAddress, request: Request, threads: BoundedThreads
) -> Response:
    kind, charset = parse_content_type(archived.content_type)
    headers: HeaderPairs = [
        *SANDBOX_HEADERS,
        ("Content-Type", f"{kind}; charset={charset}" if charset else kind),
        (
            "Content-Disposition",
            "inline"
            if kind in SAFE_INLINE_TYPES
            else f'attachment; filename="{_file_name(address.url, archived.capture)}"',
        ),
        *memento_headers(site, archived, address.url),
        *_archive_headers(archived),
    ]
    return ranged_capture_response(archived, archived.content(), headers, request=request, threads=threads)


def _file_name(url: str, capture: CaptureRef) -> str:
    """Return a name for the download, with the last path segment if that is a plain name."""
    found = _NAME.search(url.partition("?")[0])
    return f"{capture.timestamp}-{found[1]}" if found else capture.timestamp


def _archive_headers(archived: CaptureReader) -> HeaderPairs:
    stated = f"{archived.status} {archived.head.reason}" if archived.head else "200"
    pairs = [("X-Archive-Orig-Status", clean_header(stated)[:200])]
    if truncated := archived.record.headers.get("WARC-Truncated"):
        pairs.append(("X-Archive-Truncated", clean_header(truncated)[:200]))
    return [*pairs, *original_headers(archived.headers)]


def _record(site: Site, capture: CaptureRef, threads: BoundedThreads) -> Response:
    archived = open_record(site.files, capture)  # check that it is one
    archived.close()
    stream = site.files.open(capture.filename, start=capture.offset, length=capture.length)
    archived.closing(stream)
    first = stream.read(PIECE)
    ending = next((name for magic, name in _MAGIC if first.startswith(magic)), ".arc")
    headers = [
        *SANDBOX_HEADERS,
        ("Content-Type", "application/warc"),
        ("Content-Disposition", f'attachment; filename="{capture.timestamp}{ending}"'),
    ]
    return capture_response(archived, chain((first,), iter(partial(stream.read, PIECE), b"")), headers, threads=threads)
