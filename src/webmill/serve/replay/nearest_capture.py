"""Finds the capture to show for an address and a time, on both origins."""

from __future__ import annotations

from webmill.errors import BadInput, NotFound
from webmill.formats.url.normalise import join
from webmill.formats.url.surt import surt
from webmill.pipeline.capture_reader import CaptureReader, open_capture
from webmill.pipeline.captures import nearest_captures
from webmill.serve.captures.address import CaptureAddress
from webmill.serve.site import Site

REDIRECTS = (301, 302, 303, 307, 308)
MOST_TRIED = 10


def open_nearest(site: Site, address: CaptureAddress) -> CaptureReader:
    """Return the nearest capture, to be closed by the caller; `NotFound` says why there is none.

    Captures that redirect to their own address are skipped: an index does not distinguish http and https, so a redirect
    from one to the other would loop. So are captures that only say "not modified" to a conditional request.
    """
    index = site.index()
    why, tried = "there is no capture of this address here", 0
    for line in nearest_captures(index, address.url, moment=address.moment):
        why = "every capture of this address redirects to itself or only says “not modified”"
        if line.status == "304" and not line.is_revisit:  # there may be many in a row
            continue
        archived = open_capture(index, site.files, line.capture)
        if archived.status != 304 and not _redirects_to_itself(archived, address):
            return archived
        archived.close()
        tried += 1
        if tried == MOST_TRIED:
            break
    raise NotFound(why)


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
