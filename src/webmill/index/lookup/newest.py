"""The newest good capture of pages of which only the key is known: for a search hit, the page as it was archived."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from webmill.collection import Collection
from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.cdxj import read_index_line
from webmill.formats.cdx.query import KeyRange
from webmill.index.lookup.indexes import CaptureIndex, open_index
from webmill.index.zipnum.writer import SUMMARY
from webmill.model import CaptureRef

MOST = 1000  # captures of one page that are looked at, the newest ones
_BEHIND = 10**14  # no timestamp is as late


def open_collection_index(root: Path) -> CaptureIndex:
    """All indexes of a collection as one: ZipNum, or the sorted files that it is made of. `NotFound`: there is none."""
    crawls = [Collection(root, path.name) for path in (root / "cc-index" / "collections").glob("[!.]*")]
    found = [crawl.zipnum / SUMMARY for crawl in crawls if (crawl.zipnum / SUMMARY).is_file()]
    found = found or list(Collection(root, root.name).cdxj.glob("[!.]*.cdxj"))
    if not found:
        raise NotFound(f"nothing is indexed in {root} yet: `webmill index {root}`")
    return open_index(*sorted(found))


def newest_captures(index: CaptureIndex, urlkeys: Iterable[str]) -> dict[str, CaptureRef]:
    """By urlkey: the newest capture with a status of 2xx (200 before the others) that holds the page itself.

    Not a revisit, which holds no page: what is published and searched was read from the capture it repeats. Keys
    without such a capture are left out. A page may have any number of captures: only its last 1000 are looked at.
    """
    found: dict[str, CaptureRef] = {}
    for urlkey in sorted(set(urlkeys)):  # neighbours are in one block
        best = max(filter(None, map(_graded, last_lines(index, urlkey))), key=lambda graded: graded[0], default=None)
        if best:
            found[urlkey] = best[1]
    return found


def last_lines(index: CaptureIndex, urlkey: str, *, most: int = MOST) -> list[bytes]:
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


def _since(index: CaptureIndex, urlkey: str, moment: int, *, most: int) -> list[bytes]:
    key = urlkey.encode("utf-8", "surrogateescape")
    wanted = KeyRange(b"%s %014d" % (key, moment), key + b"!")
    return list(islice(index.lines(wanted), most + 1))


def _graded(raw: bytes) -> tuple[tuple[bool, str], CaptureRef] | None:
    """None for what is no page, and for what cannot be read: another capture may do."""
    try:
        line = read_index_line(raw)
    except BadInput:
        return None
    if len(line.status) != 3 or line.status[0] != "2" or line.is_revisit:
        return None
    return (line.status == "200", line.capture.timestamp), line.capture
