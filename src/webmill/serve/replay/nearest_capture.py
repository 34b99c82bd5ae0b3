"""Which capture is shown for an address and a time, on both origins alike."""

from __future__ import annotations

from webmill.errors import BadInput, NotFound
from webmill.formats.url.normalise import join
from webmill.formats.url.surt import surt
from webmill.pipeline.archived import Archived, open_capture
from webmill.pipeline.captures import nearest
from webmill.serve.capture_address import CaptureAddress
from webmill.serve.site import Site

REDIRECTS = (301, 302, 303, 307, 308)
MOST_TRIED = 10


def open_nearest(site: Site, asked: CaptureAddress) -> Archived:
    """The nearest capture, to be closed; `NotFound` says why there is none.

    One that leads to its own address is passed over: an index does not tell http from https, so a page that sent its
    visitors from the one to the other would send them in circles. So is one that says no more than that a page which
    its asker had was still the same.
    """
    index = site.index()
    why, tried = "no capture of this address is here", 0
    for line in nearest(index, asked.url, moment=asked.moment):
        why = "every capture at hand leads to its own address, or says only that nothing had changed"
        if line.status == "304" and not line.is_revisit:  # there may be many in a row
            continue
        archived = open_capture(index, site.files, line.capture)
        if archived.status != 304 and not _redirects_to_itself(archived, asked):
            return archived
        archived.close()
        tried += 1
        if tried == MOST_TRIED:
            break
    raise NotFound(why)


def redirect_target(archived: Archived) -> str | None:
    """Where the server sent its visitors, if that is an address of the web."""
    location = location_header(archived)
    if archived.status not in REDIRECTS or not location:
        return None
    try:
        return join(archived.capture.url, location)
    except BadInput:
        return None


def location_header(archived: Archived) -> str:
    """Sent as UTF-8 or escaped; a head is read as Latin-1."""
    return (archived.headers.get("Location") or "").encode("latin-1", "replace").decode("utf-8", "replace")


def _redirects_to_itself(archived: Archived, asked: CaptureAddress) -> bool:
    there = redirect_target(archived)
    return there is not None and surt(there) == surt(asked.url)
