"""Parse the header and trailer of a gzip member (RFC 1952, 2.3)."""

from __future__ import annotations

import msgspec

MAX_HEADER = 1024  # bytes that are enough to find the end of a header, unless it has a long comment
TRAILER = 8
_EXTRA, _NAME, _COMMENT, _CHECK = 4, 8, 16, 2
_FIXED = 10


class GzipFrame(msgspec.Struct, frozen=True, gc=False):
    """The length of the header of a gzip member, and the values of its trailer."""

    header: int  # bytes
    crc: int  # unsigned
    inflated: int  # bytes, modulo 2^32


def read_frame(start: bytes, trailer: bytes) -> GzipFrame | None:
    """Parse the first bytes of a member (`MAX_HEADER` of them, or all) and its last eight; None if it is not a
    member."""
    if not start.startswith(b"\x1f\x8b\x08") or len(start) < _FIXED or len(trailer) != TRAILER:
        return None
    crc, inflated = int.from_bytes(trailer[:4], "little"), int.from_bytes(trailer[4:], "little")
    return GzipFrame(_header_length(start), crc, inflated)


def _header_length(start: bytes) -> int:
    flags, at = start[3], _FIXED
    if flags & _EXTRA:
        at += 2 + int.from_bytes(start[at : at + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            at = start.find(b"\0", at) + 1 or len(start)
    return at + (2 if flags & _CHECK else 0)
