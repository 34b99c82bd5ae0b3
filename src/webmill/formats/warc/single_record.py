"""Read one record by its offset: the bytes of a range request, or one block of any size as a stream."""

from __future__ import annotations

import io

from webmill.errors import BadInput
from webmill.formats.compression.gzip_members import GzipMemberReader
from webmill.formats.compression.zstd_frames import ZstdFrameReader, new_decoder
from webmill.formats.warc import framing
from webmill.formats.warc.head import WarcHead, WarcLimits
from webmill.formats.warc.reader import DEFAULT, detect_format, read_records
from webmill.formats.window import ByteSource, ByteWindow
from webmill.model import Damage, Headers, Record

# The record itself is complete in spite of these.
HARMLESS = frozenset({"missing_terminator", "padding"})


def read_record_at(stored: bytes | ByteSource, *, limits: WarcLimits = DEFAULT, offset: int = 0) -> Record:
    """Return the only record of `stored`, the bytes of a file from `offset` on.

    Raise BadInput if it is not exactly one.
    """
    source = io.BytesIO(stored) if isinstance(stored, bytes) else stored
    found: Record | None = None
    for item in read_records(source, limits=limits, start=offset):
        if isinstance(item, Damage) and item.reason not in HARMLESS:
            raise BadInput(item.message, reason=item.reason, offset=item.offset)
        if isinstance(item, Record):
            if found:
                raise BadInput("the range holds more than one record", reason="bad_length", offset=offset)
            found = item
    if not found:
        raise BadInput("the range holds no record", reason="not_warc", offset=offset)
    return found


class BlockStream:
    """The block of one record, as a stream."""

    def __init__(self, head: WarcHead, window: ByteWindow) -> None:
        self.version: str = head.version
        self.headers: Headers = head.headers
        self.length: int = head.block
        self._left = head.block
        self._window = window

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; b"" at the end of the block, after the checksum of its member was checked."""
        window = self._window
        if self._left and not window.has(1):
            raise BadInput(f"{self._left} bytes of the block are missing", reason="truncated_record")
        if not self._left:
            window.has(len(b"\r\n\r\n") + 1)  # reading past the terminator checks the member's checksum
            return b""
        piece = bytes(window.data[window.at : window.at + min(size, self._left)])
        window.at += len(piece)
        window.mark = window.position
        self._left -= len(piece)
        return piece


def open_block(source: ByteSource, *, limits: WarcLimits = DEFAULT) -> BlockStream:
    """Open the block of the record at the position of `source` as a stream, for blocks too large for memory.

    Raise BadInput at once for an invalid header, and while reading for damage further on.
    """
    raw = ByteWindow(source)
    kind = detect_format(raw)
    window = raw
    if kind in ("gzip", "zstd"):
        window = ByteWindow(GzipMemberReader(raw) if kind == "gzip" else ZstdFrameReader(raw, new_decoder()))
        window.has(1)
        kind = framing.sniff(window)
    if not kind:
        raise BadInput("no record begins here", reason="not_warc")
    head = framing.read_head(window, kind, limits=limits)
    if isinstance(head, Damage):
        raise BadInput(head.message, reason=head.reason, offset=head.offset)
    return BlockStream(head, window)
