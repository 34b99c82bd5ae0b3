"""The tools that list and read captures, published or not."""

from __future__ import annotations

from itertools import islice

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.cdxj import IndexLine, read_index_line
from webmill.formats.cdx.query import split_url_pattern
from webmill.formats.timestamps import earliest, latest
from webmill.index.lookup.query import url_range
from webmill.model import Document
from webmill.pipeline.captures import nearest_captures
from webmill.pipeline.collection_reader import END_OF_TIME
from webmill.serve.api.cursors import AnswerSize, make_cursor, read_cursor
from webmill.serve.api.index_lines import IndexWalk, LinePlace
from webmill.serve.api.untrusted import LONGEST_TITLE, clean, clip, fact
from webmill.serve.mcp.arguments import CaptureAtArguments, CapturesArguments
from webmill.serve.mcp.citations import address_of, cite_capture
from webmill.serve.mcp.documents import cut_part
from webmill.serve.mcp.opened import OpenedCollection
from webmill.serve.mcp.replies import ArchivedText, ListedCapture, ListedCaptures, ReadText

MOST_LINES = 100_000  # of an index that are read for one answer


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
    walk = IndexWalk(asked.site.index(), url_range(arguments.url), place)
    found: list[ListedCapture] = []
    size, damaged, seen = AnswerSize(), 0, 0
    reached: LinePlace | None = place
    for seen, (raw, prefix) in enumerate(islice(walk.lines(), MOST_LINES), 1):  # noqa: B007  used below
        if not period[0] <= prefix.rpartition(b" ")[2] <= period[1]:
            continue
        try:
            listed = list_capture(asked, read_index_line(raw))
        except BadInput:
            damaged += 1
            continue
        if len(found) == arguments.limit or not size.has_room(listed):
            break
        found.append(listed)
        reached = walk.place
    else:
        reached = walk.place if seen == MOST_LINES else None
    return ListedCaptures(
        captures=found, damaged_lines=damaged, next_cursor=make_cursor(arguments, reached) if reached else None
    )


def list_capture(asked: OpenedCollection, line: IndexLine) -> ListedCapture:
    return ListedCapture(
        citation=cite_capture(asked, line.capture),
        status=fact("status", line.status),
        media_type=fact("media type", line.mime),
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
        language=fact("language", document.language if document else None) or None,
        status=fact("status", line.status),
        media_type=fact("media type", line.mime),
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
