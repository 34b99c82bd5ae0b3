"""The tools that list and read captures, published or not."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.cdxj import IndexLine, prefix_of, read_index_line
from webmill.formats.cdx.query import KeyRange, split_url_pattern
from webmill.formats.timestamps import earliest, latest
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import url_range
from webmill.model import Document
from webmill.pipeline.captures import nearest_captures
from webmill.pipeline.collection_reader import END_OF_TIME
from webmill.serve.mcp.arguments import CaptureAtArguments, CapturesArguments
from webmill.serve.mcp.citations import address_of, cite_capture
from webmill.serve.mcp.cursors import AnswerSize, make_cursor, read_cursor
from webmill.serve.mcp.documents import cut_part
from webmill.serve.mcp.opened import OpenedCollection
from webmill.serve.mcp.replies import ArchivedText, ListedCapture, ListedCaptures, ReadText
from webmill.serve.mcp.untrusted import LONGEST_TITLE, clean, clip

MOST_LINES = 100_000  # of an index that are read for one answer


class LinePlace(msgspec.Struct, frozen=True, array_like=True):
    """Behind so many lines that begin with this key and timestamp."""

    prefix: str
    number: int


class TextPlace(msgspec.Struct, frozen=True, array_like=True):
    """A place in the text of the capture of this second."""

    timestamp: str
    number: int


def captures(asked: OpenedCollection, arguments: CapturesArguments) -> ListedCaptures:
    place = read_cursor(arguments, LinePlace)
    address_of(split_url_pattern(arguments.url)[0])  # which says what is wrong with a URL
    period = (
        earliest(arguments.since).encode() if arguments.since else b"",
        latest(arguments.until).encode() if arguments.until else b"\xff",
    )
    walk = IndexWalk(asked.site.index(), url_range(arguments.url), place, period)
    found: list[ListedCapture] = []
    size = AnswerSize()
    reached = place
    for line in walk.lines():
        listed = list_capture(asked, line)
        if len(found) == arguments.limit or not size.has_room(listed):
            break
        found.append(listed)
        reached = walk.place
    else:
        reached = walk.place if walk.is_cut else None
    return ListedCaptures(
        captures=found,
        damaged_lines=walk.damaged,
        next_cursor=make_cursor(arguments, reached) if reached else None,
    )


class IndexWalk:
    """Reads the captures of a range and a period, from a place on; `place` is that of the line given last.

    `is_cut`: there are more lines than are read for one answer.
    """

    def __init__(
        self, index: CaptureIndex, wanted: KeyRange, place: LinePlace | None, period: tuple[bytes, bytes]
    ) -> None:
        self._index, self._period = index, period
        self.place = place or LinePlace("", 0)
        self.damaged = 0
        self.is_cut = False
        start = max(wanted.start, self.place.prefix.encode(errors="replace"))
        self._wanted = KeyRange(start, wanted.end)

    def lines(self) -> Iterator[IndexLine]:
        if self._wanted.start >= self._wanted.end:
            return
        skipped = self.place
        first, last = self._period
        for seen, raw in enumerate(self._index.lines(self._wanted)):
            if seen >= MOST_LINES + skipped.number:
                self.is_cut = True
                return
            prefix = prefix_of(raw)
            text = prefix.decode("ascii", "replace")
            number = self.place.number + 1 if seen and text == self.place.prefix else 1
            self.place = LinePlace(text, number)
            is_new = text != skipped.prefix or number > skipped.number
            if is_new and first <= prefix.rpartition(b" ")[2] <= last:
                try:
                    yield read_index_line(raw)
                except BadInput:
                    self.damaged += 1


def list_capture(asked: OpenedCollection, line: IndexLine) -> ListedCapture:
    return ListedCapture(
        citation=cite_capture(asked, line.capture),
        status=clip(line.status, 10),
        media_type=clip(line.mime, 200),
        is_revisit=line.is_revisit,
    )


def capture_at(asked: OpenedCollection, arguments: CaptureAtArguments) -> ReadText:
    place = read_cursor(arguments, TextPlace)
    moment = place.timestamp if place else earliest(arguments.at) if arguments.at else END_OF_TIME
    address = address_of(arguments.url)
    line = next(nearest_captures(asked.site.index(), address, moment=moment), None)
    if line is None:
        raise NotFound(f"there is no capture of {address[:300]} in this collection")
    document, problem = read_capture(asked, line)
    text = clean(document.text or "") if document else ""
    start = place.number if place else 0
    part, following = cut_part(text, start)
    timestamp = line.capture.timestamp
    return ReadText(
        citation=cite_capture(asked, line.capture),
        language=document.language if document else None,
        status=clip(line.status, 10),
        media_type=clip(line.mime, 200),
        characters=len(text),
        position=start,
        problem=problem,
        untrusted=ArchivedText(title=clip((document.title if document else "") or "", LONGEST_TITLE), text=part),
        next_cursor=make_cursor(arguments, TextPlace(timestamp, following)) if following else None,
    )


def read_capture(asked: OpenedCollection, line: IndexLine) -> tuple[Document | None, str]:
    """Return what is read in a capture; or None, and why nothing is."""
    try:
        document = asked.texts.read(line.capture.url, line.capture.timestamp)
    except NotFound as error:
        return None, clip(str(error), 500)
    return document, "" if document.outcome == "ok" else f"no text was found: {document.outcome}"
