"""Which capture is shown for an address and a time, on both origins alike."""

from __future__ import annotations

from itertools import islice

from webmill.errors import BadInput, NotFound
from webmill.formats.surt import surt
from webmill.formats.urls import join
from webmill.serve.archived_address import Asked
from webmill.serve.captures import Archived, nearest, open_capture
from webmill.serve.site import Site

REDIRECTS = (301, 302, 303, 307, 308)
MOST_TRIED = 10


def open_shown(site: Site, asked: Asked) -> Archived:
    """The nearest capture, to be closed; `NotFound` says why there is none.

    One that leads to its own address is passed over: an index does not tell http from https, so a page that sent its
    visitors from the one to the other would send them in circles.
    """
    index = site.index()
    tried = 0
    for line in islice(nearest(index, asked), MOST_TRIED):
        archived = open_capture(site, index, line)
        if not _leads_back(archived, asked):
            return archived
        archived.close()
        tried += 1
    raise NotFound("every capture at hand leads to its own address" if tried else "no capture of this address is here")


def redirect_of(archived: Archived) -> str | None:
    """Where the server sent its visitors, if that is an address of the web."""
    location = archived.headers.get("Location")
    if archived.status not in REDIRECTS or not location:
        return None
    try:
        # Sent as UTF-8 or escaped; a head is read as Latin-1.
        return join(archived.line.url, location.encode("latin-1", "replace").decode("utf-8", "replace"))
    except BadInput:
        return None


def _leads_back(archived: Archived, asked: Asked) -> bool:
    there = redirect_of(archived)
    return there is not None and surt(there) == surt(asked.url)
