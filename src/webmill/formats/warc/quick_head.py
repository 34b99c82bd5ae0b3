"""Parse the header of a record by one regular expression, learned from earlier headers.

Writers repeat the same fields in the same order. So the first header of a kind is parsed by `parse_head` and leaves its
shape, a pattern that matches only headers with exactly these fields; later ones are matched by it, several times as
fast. A header that no shape matches is parsed by `parse_head` again: both give the same result.
"""

from __future__ import annotations

import re

from webmill.errors import BadInput
from webmill.formats.warc import framing
from webmill.formats.warc.head import WarcLimits, parse_head
from webmill.model import Headers

RawFields = dict[bytes, bytes]

MAX_SHAPES = 32  # tried in turn
MAX_LEARNED = 256  # a file with ever new headers should not compile a pattern for each

# The names that are needed, as the standard spells them.
_SPELLED = {
    name.lower(): name.encode()
    for name in (
        *("WARC-Type", "WARC-Date", "WARC-Record-ID", "WARC-Target-URI", "WARC-Concurrent-To", "Content-Length"),
        *("Content-Type", "WARC-Payload-Digest", "WARC-Block-Digest", "WARC-Identified-Payload-Type", "WARC-Truncated"),
        *("WARC-Segment-Number", "WARC-JSON-Metadata"),
    )
}
_LINE = re.compile(rb"([A-Za-z0-9_-]+): ([^\r\n]*)\r\n")
_VERSION = re.compile(rb"WARC/1\.[01]\r\n")
_TYPE = re.compile(rb"[a-z_-]{1,20}")


def known_fields(headers: Headers) -> RawFields:
    """Return the first value of each field that is needed."""
    fields: RawFields = {}
    for name, value in headers.pairs:
        spelled = _SPELLED.get(name.lower())
        if spelled:
            fields.setdefault(spelled, value.encode("utf-8", "surrogateescape"))
    return fields


class _Shape:
    """A pattern for headers with certain fields in a certain order."""

    def __init__(self, version: bytes, lines: list[tuple[bytes, bytes]]) -> None:
        spelled = [_SPELLED.get(name.decode().lower()) for name, _ in lines]
        parts = [
            re.escape(name) + b": " + _pattern(spelled, place, value) + rb"\r\n"
            for place, (name, value) in enumerate(lines)
        ]
        self.match = re.compile(re.escape(version) + b"".join(parts) + rb"\r\n").match
        self.names = tuple(dict.fromkeys(filter(None, spelled)))
        self.line_ends = len(lines) + 2
        self.follower: _Shape | None = None  # the shape that followed this one the last time


def _pattern(spelled: list[bytes | None], place: int, value: bytes) -> bytes:
    name = spelled[place]
    if name == b"Content-Length":
        return b"([0-9]{1,18})"
    if name == b"WARC-Type" and _TYPE.fullmatch(value):
        return b"(" + re.escape(value) + b")"  # a header of another record type fails at once
    # A lone line feed is allowed here, since excluding one byte is several times as fast as two; `read` counts them.
    # White space around a value is not part of it, so a header with it does not match.
    return rb"([^ \t\r][^\r]*+)(?<![ \t])" if name and spelled.index(name) == place else rb"[^\r]*+"


class WarcHeadReader:
    """Parses headers, learning the shapes of those it has seen."""

    def __init__(self, *, limits: WarcLimits) -> None:
        self._limits = limits
        self._shapes: list[_Shape] = []
        self._last = _Shape(b"", [])
        self._learned = 0

    def read(self, start: bytes) -> tuple[RawFields, int, int] | None:
        """Return the fields, the length of the header and of the block; None if there is no complete valid header."""
        last = self._last
        shape = last.follower
        found = shape.match(start) if shape else None
        if found is None:
            for shape in self._shapes:
                if found := shape.match(start):
                    break
        if found is None or shape is None:
            return self._read_any(start)
        last.follower = self._last = shape
        end = found.end()
        if start.count(b"\n", 0, end) != shape.line_ends or end > self._limits.head:
            return self._read_any(start)
        fields = dict(zip(shape.names, found.groups(), strict=True))
        return fields, end, int(fields[b"Content-Length"])

    def _read_any(self, start: bytes) -> tuple[RawFields, int, int] | None:
        end = framing.HEAD_END.search(start, 0, self._limits.head)
        if not end or not start.startswith(framing.WARC):
            return None
        text = start[: end.end()]
        try:
            head = parse_head(text, limits=self._limits)
        except BadInput:
            return None
        self._learn(text)
        return known_fields(head.headers), len(text), head.block

    def _learn(self, head: bytes) -> None:
        version = _VERSION.match(head)
        if not version or self._learned >= MAX_LEARNED:
            return
        lines = _LINE.findall(head, version.end())
        names = [name.lower() for name, _ in lines]
        is_plain = head == version[0] + b"".join(b"%b: %b\r\n" % line for line in lines) + b"\r\n"
        if is_plain and names.count(b"content-length") == names.count(b"warc-type") == 1:
            self._learned += 1
            shape = _Shape(version[0], lines)
            if shape.match(head):
                self._shapes.insert(0, shape)
                del self._shapes[MAX_SHAPES:]
