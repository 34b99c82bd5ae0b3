"""Which pages are looked at: named ones, or some of all, the same in each run."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from itertools import islice

from webmill.errors import NotFound
from webmill.formats.cdx.query import KeyRange
from webmill.index.lookup.indexes import CaptureIndex
from webmill.model import CaptureRef
from webmill.pipeline.captures import nearest_captures, parse_index_lines

LATEST = "29991231235959"
MOST_READ = 5_000_000  # index lines of one run
_PAGE_MARKS = (b"text/html", b"application/xhtml+xml")
_STATUS = b'"200"'


def named_pages(index: CaptureIndex, urls: Iterable[str]) -> list[CaptureRef]:
    """Return the newest capture of each URL. NotFound: there is none."""
    found: list[CaptureRef] = []
    for url in urls:
        line = next(nearest_captures(index, url, moment=LATEST), None)
        if line is None:
            raise NotFound(f"there is no capture of {url} here; `webmill save` captures it")
        found.append(line.capture)
    return found


def sample_pages(index: CaptureIndex, count: int) -> list[CaptureRef]:
    """Return `count` pages, chosen by the digest of their keys: a later run chooses the same, and more of them."""
    newest: dict[str, CaptureRef] = {}
    heap: list[tuple[int, str]] = []  # the smallest digests, negated
    for capture in _pages(index):
        if capture.urlkey in newest:
            newest[capture.urlkey] = capture  # lines are sorted by time
            continue
        rank = -int.from_bytes(hashlib.sha256(capture.urlkey.encode("utf-8", "replace")).digest()[:8])
        if len(heap) < count:
            heapq.heappush(heap, (rank, capture.urlkey))
        elif rank > heap[0][0]:
            del newest[heapq.heapreplace(heap, (rank, capture.urlkey))[1]]
        else:
            continue
        newest[capture.urlkey] = capture
    return [newest[key] for _, key in sorted(heap, reverse=True)]


def _pages(index: CaptureIndex) -> Iterator[CaptureRef]:
    everything = KeyRange(b"", b"\xff")
    for line in islice(index.lines(everything), MOST_READ):
        if _STATUS in line and any(mark in line for mark in _PAGE_MARKS):
            for parsed in parse_index_lines([line]):
                if parsed.status == "200" and parsed.capture.url.startswith(("http://", "https://")):
                    yield parsed.capture
