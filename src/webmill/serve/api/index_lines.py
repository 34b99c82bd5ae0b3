"""/api/index: the lines of the index between two keys, in parts. A client that has them has all that an index is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from webmill.errors import Conflict, Unavailable
from webmill.formats.cdx.cdxj import prefix_of
from webmill.formats.cdx.query import KeyRange
from webmill.index.lookup.indexes import CaptureIndex
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.cursors import make_cursor, read_cursor
from webmill.serve.cdx.output import MEDIA_TYPES
from webmill.serve.http.responses import NO_STORE

MOST_LINES = 10_000  # in one answer
MOST_BYTES = 4 << 20
MOST_SKIPPED = 1_000_000  # lines with one key and timestamp


class LinesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines of the index."""

    start: Annotated[
        str, Meta(max_length=16_000, description="The first line is this one or behind it: `com,example)/ 2024`.")
    ] = ""
    end: Annotated[
        str, Meta(max_length=16_000, description="All lines are before this; without it, to the end of the index.")
    ] = ""
    crawl: Annotated[str, Meta(max_length=200, description="Only this crawl; without it, all of them as one.")] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_LINES, description="Lines in one answer.")] = 1_000
    cursor: Annotated[str, Meta(max_length=24_000, description="As the `Link` of the answer before has it.")] = ""


class LinePlace(msgspec.Struct, frozen=True, array_like=True):
    """Behind so many lines that begin with this key and timestamp, whose bytes are written as Latin-1."""

    prefix: str
    number: int

    @property
    def key(self) -> bytes:
        return self.prefix.encode("latin-1", "replace")


class IndexWalk:
    """Reads the lines of a range, from a place on; `place` is that of the line given last."""

    def __init__(self, index: CaptureIndex, wanted: KeyRange, place: LinePlace | None) -> None:
        self._index, self._skipped = index, place or LinePlace("", 0)
        self.place = self._skipped
        self._wanted = KeyRange(max(wanted.start, self._skipped.key), wanted.end)

    def lines(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield each line with its key and timestamp."""
        if self._wanted.start >= self._wanted.end or not 0 <= self._skipped.number <= MOST_SKIPPED:
            return
        prefix, number = b"", 0
        skipped = self._skipped.key
        for raw in self._index.lines(self._wanted):
            found = prefix_of(raw)
            number = number + 1 if found == prefix else 1
            prefix = found
            if prefix != skipped or number > self._skipped.number:
                self.place = LinePlace(prefix.decode("latin-1"), number)
                yield raw, prefix


def index_lines(reader: ContentReader, request: Request, asked: LinesQuery) -> Response:
    """Return a part of the lines, and in `Link` where the next one is. `NotFound`: there is no index."""
    start, end = raw_value(request, "start"), raw_value(request, "end")
    walk = IndexWalk(
        reader.site.index(asked.crawl or None), KeyRange(start, end or b"\xff"), read_cursor(asked, LinePlace)
    )
    found = bytearray()
    headers = dict(NO_STORE)
    place = walk.place
    try:
        for number, (line, _) in enumerate(walk.lines()):
            if number == asked.limit or (found and len(found) + len(line) > MOST_BYTES):
                headers["Link"] = f'<{following(request, make_cursor(asked, place))}>; rel="next"'
                break
            found += line
            place = walk.place
    except Conflict as error:
        raise Unavailable("the index was just replaced; try again", retry_after=1) from error
    return Response(bytes(found), media_type=MEDIA_TYPES["cdxj"], headers=headers)


def following(request: Request, cursor: str) -> str:
    """Return the address of the request with another cursor."""
    others = [(name, value) for name, value in sent_query(request) if name != "cursor"]
    return f"{request.url.path}?{urlencode([*others, ('cursor', cursor)], errors='surrogateescape')}"


def raw_value(request: Request, name: str) -> bytes:
    """Return a value as the bytes that were sent: keys need not be UTF-8."""
    return as_bytes(dict(sent_query(request)).get(name, ""))


def sent_query(request: Request) -> list[tuple[str, str]]:
    sent: bytes = request.scope["query_string"]
    return parse_qsl(sent.decode("latin-1"), keep_blank_values=True, errors="surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
