"""Which capture of an address to show when only the address is known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from webmill.errors import WebmillError
from webmill.formats.cdxj import parse
from webmill.index.lookup import Index
from webmill.index.query import url_range
from webmill.serve.site import Site

MOST_LINES = 20_000  # of one address that are looked through
_GOOD = (b'"status": "200"', b'"status":"200"')


class Capture(msgspec.Struct, frozen=True):
    url: str
    timestamp: str


def newest(site: Site, urls: Iterable[str]) -> dict[str, Capture]:
    """By address; those without a good capture, or whose index cannot be read, are left out."""
    found: dict[str, Capture] = {}
    try:
        index = site.index()
        for url in urls:
            if url and (capture := _newest(index, url)):
                found[url] = capture
    except WebmillError:  # what can be searched need not be archived here
        return found
    return found


def _newest(index: Index, url: str) -> Capture | None:
    last = None
    for line in islice(index.lines(url_range(url, "exact")), MOST_LINES):
        if any(good in line for good in _GOOD):
            last = line
    if last is None:
        return None
    capture = parse(last)
    return Capture(capture.text("url") or url, capture.timestamp)
