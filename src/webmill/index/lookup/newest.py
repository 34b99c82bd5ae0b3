"""The newest good capture of a urlkey: for a search hit, the page as it was archived."""

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

MAX_CAPTURES = 1000  # of one page that are considered, the newest ones
UNCHANGED = ("304", "-", "")  # statuses of revisits: what the server sent, or nothing
_AFTER_ALL = 10**14  # later than any timestamp


def open_collection_index(root: Path) -> CaptureIndex:
    """Open all indexes of a collection as one: ZipNum, or else its sorted CDXJ files. `NotFound` if there is none."""
    crawls = [Collection(root, path.name) for path in (root / "cc-index" / "collections").glob("[!.]*")]
    found = [crawl.zipnum / SUMMARY for crawl in crawls if (crawl.zipnum / SUMMARY).is_file()]
    found = found or list(Collection(root, root.name).cdxj.glob("[!.]*.cdxj"))
    if not found:
        raise NotFound(f"nothing is indexed in {root} yet: run `webmill index {root}`")
    return open_index(*sorted(found))


def newest_captures(index: CaptureIndex, urlkeys: Iterable[str]) -> dict[str, CaptureRef]:
    """Return, by urlkey, the newest capture with a status of 2xx (200 first) that holds the page itself.

    A revisit holds no page: what is published and searched was read from the capture it repeats. One is returned only
    where no other capture is found: its original is of another URL, or older than the last 1000 captures of the page,
    which are all that are considered. Keys without either are left out.
    """
    found: dict[str, CaptureRef] = {}
    for urlkey in sorted(set(urlkeys)):  # neighbours are in one block
        best = max(filter(None, map(_grade, last_lines(index, urlkey))), key=lambda grade: grade[0], default=None)
        if best:
            found[urlkey] = best[1]
    return found


def last_lines(index: CaptureIndex, urlkey: str, *, most: int = MAX_CAPTURES) -> list[bytes]:
    """Return the last lines of a key: all, if they are not more than `most`, else some of the last, found by bisecting
    the time, since lines can only be read forward.
    """
    low, high = 0, _AFTER_ALL
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


def _grade(raw: bytes) -> tuple[tuple[bool, bool, str], CaptureRef] | None:
    """Return the rank of a capture, and the capture; None if it leads to no page or cannot be read."""
    try:
        line = read_index_line(raw)
    except BadInput:
        return None
    is_good = len(line.status) == 3 and line.status[0] == "2"
    if not is_good and not (line.is_revisit and line.status in UNCHANGED):
        return None
    return (not line.is_revisit, line.status == "200", line.capture.timestamp), line.capture
