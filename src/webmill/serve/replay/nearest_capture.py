"""Finds the capture to show for an address and a time, on both origins."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.cdxj import IndexLine
from webmill.formats.url.normalise import join
from webmill.formats.url.surt import surt
from webmill.pipeline.capture_reader import CaptureReader
from webmill.pipeline.captures import nearest_captures
from webmill.serve.captures.address import CaptureAddress
from webmill.serve.captures.closed import open_for_client
from webmill.serve.site import Site

REDIRECTS = (301, 302, 303, 307, 308)
MOST_TRIED = 10


def open_nearest(site: Site, address: CaptureAddress, *, key_url: str = "") -> CaptureReader:
    """Return the nearest capture, to be closed by the caller; `NotFound` says why there is none. `key_url`: the URL it
    is indexed under, if that is not its own.

    Captures that redirect to their own address are skipped: an index does not distinguish http and https, so a redirect
    from one to the other would loop. So are captures that only say "not modified" to a conditional request.
    """
    site.closed.refuse_page(address.url)
    lines = nearest_captures(site.index(), key_url or address.url, moment=address.moment)
    first = next(lines, None)
    if first is None:
        raise NotFound("there is no capture of this address here")
    archived = open_first(site, address, chain((first,), lines))
    if archived is None:
        raise NotFound("every capture of this address redirects to itself or only says “not modified”")
    return archived


def open_first(site: Site, address: CaptureAddress, lines: Iterable[IndexLine]) -> CaptureReader | None:
    """Return the first capture that can be shown, or None."""
    tried = 0
    for line in lines:
        if line.status == "304" and not line.is_revisit:  # there may be many in a row
            continue
        archived = open_for_client(site, site.index(), line.capture)
        if archived.status != 304 and not _redirects_to_itself(archived, address):
            return archived
        archived.close()
        tried += 1
        if tried == MOST_TRIED:
            break
    return None


def redirect_target(archived: CaptureReader) -> str | None:
    """Return the target of a redirect, if it is a web address."""
    location = location_header(archived)
    if archived.status not in REDIRECTS or not location:
        return None
    try:
        return join(archived.capture.url, location)
    except BadInput:
        return None


def location_header(archived: CaptureReader) -> str:
    """Return the Location header as UTF-8; headers are read as Latin-1."""
    return (archived.headers.get("Location") or "").encode("latin-1", "replace").decode("utf-8", "replace")


def _redirects_to_itself(archived: CaptureReader, address: CaptureAddress) -> bool:
    there = redirect_target(archived)
    return there is not None and surt(there) == surt(address.url)
