"""The newest good capture of pages of which only the key is known: for a search hit, the page as it was archived."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import msgspec

from webmill.collection import Collection
from webmill.errors import BadInput, NotFound
from webmill.formats.cdx_query import KeyRange
from webmill.formats.cdxj import Capture, parse, place_of
from webmill.index.lookup import Index, open_index
from webmill.index.zipnum import SUMMARY

MOST = 1000  # captures of one page that are looked at, the newest ones
_BEHIND = 10**14  # no timestamp is as late


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """`file`, `offset` and `length` are those of the WARC record."""

    url: str
    timestamp: str
    file: str
    offset: int
    length: int


def indexes_of(root: Path) -> Index:
    """All indexes of a collection as one: ZipNum, or the sorted files that it is made of. `NotFound`: there is none."""
    crawls = [Collection(root, path.name) for path in (root / "cc-index" / "collections").glob("[!.]*")]
    found = [crawl.zipnum / SUMMARY for crawl in crawls if (crawl.zipnum / SUMMARY).is_file()]
    found = found or list(Collection(root, root.name).cdxj.glob("[!.]*.cdxj"))
    if not found:
        raise NotFound(f"nothing is indexed in {root} yet: `webmill index {root}`")
    return open_index(*sorted(found))


def newest(index: Index, urlkeys: Iterable[str]) -> dict[str, Captured]:
    """By urlkey: the newest capture with a status of 2xx (200 before the others) that holds the page itself.

    Not a revisit, which holds no page: what is published and searched was read from the capture it repeats. Keys
    without such a capture are left out. A page may have any number of captures: only its last 1000 are looked at.
    """
    found: dict[str, Captured] = {}
    for urlkey in sorted(set(urlkeys)):  # neighbours are in one block
        best = max(filter(None, map(_graded, last_lines(index, urlkey))), key=lambda graded: graded[0], default=None)
        if best:
            found[urlkey] = best[1]
    return found


def last_lines(index: Index, urlkey: str, *, most: int = MOST) -> list[bytes]:
    """The last lines of a key; all, if they are not more than `most`. Else some of the last, found by bisecting time:
    sorted lines can be read only forward.
    """
    low, high = 0, _BEHIND
    lines = _since(index, urlkey, low, most=most)
    while lines and len(lines) > most and high - low > 1:
        middle = (low + high) // 2
        later = _since(index, urlkey, middle, most=most)
        low, high, lines = (middle, high, later) if later else (low, middle, lines)
    return lines[:most]


def _since(index: Index, urlkey: str, moment: int, *, most: int) -> list[bytes]:
    key = urlkey.encode("utf-8", "surrogateescape")
    wanted = KeyRange(b"%s %014d" % (key, moment), key + b"!")
    return list(islice(index.lines(wanted), most + 1))


def _graded(line: bytes) -> tuple[tuple[bool, str], Captured] | None:
    """None for what is no page, and for what cannot be read: another capture may do."""
    try:
        capture = parse(line)
        status = capture.text("status")
        if len(status) != 3 or status[0] != "2" or capture.text("mime") == "warc/revisit":
            return None
        return (status == "200", capture.timestamp), _captured(capture)
    except BadInput:
        return None


def _captured(capture: Capture) -> Captured:
    file, offset, length = place_of(capture)
    return Captured(url=capture.text("url"), timestamp=capture.timestamp, file=file, offset=offset, length=length)
