"""Records that take the place of others, byte for byte as long, so that no other record of a file moves.

A tombstone is a `metadata` record without a target, which says when something was taken down and nothing else: no
index has a line for it, and every reader passes it. In gzip it is one member, padded by stored blocks or by an extra
field of its header (RFC 1952); in Zstandard one frame of raw blocks (RFC 8878).
"""

from __future__ import annotations

import uuid
import zlib
from datetime import UTC, datetime

from webmill.errors import BadInput

LONGEST_STORED = 65535  # bytes of a stored block
GZIP_HEAD, GZIP_TAIL = 10, 8
BLOCK_HEAD = 5
ZSTD_HEAD = b"\x28\xb5\x2f\xfd\x00\x38"  # no size of the content; a window of 128 KiB
LONGEST_RAW, RAW_HEAD = 1 << 17, 3
_NAMES = uuid.UUID("6f1f4d5e-5d0e-4f0c-9a53-7a2b1c0f3e11")
_TEXT = b"What was here was taken down."


def tombstone(size: int, kind: str, *, at: datetime, name: str) -> bytes:
    """Return a tombstone of exactly `size` bytes. `kind`: warc, gzip or zstd. `name`: of the place, for its record id.
    BadInput: there is no room for one, or no tombstone of this kind."""
    makers = {"warc": _record, "gzip": _member, "zstd": _frame}
    made = makers[kind](size, at, name) if kind in makers else None
    if made is None or len(made) != size:
        raise BadInput(f"no room for a tombstone in {size} bytes ({kind})", reason="no_room")
    return made


def _record(size: int, at: datetime, name: str) -> bytes | None:
    """Return a record of this size, without the two empty lines after it."""
    for padding in range(4):  # where one digit more of the length does not fit
        head = _head(at, name, padding)
        for digits in range(1, 12):
            room = size - len(head) - digits - 4
            if room >= 0 and len(str(room)) == digits:
                body = _TEXT.ljust(room) if room >= len(_TEXT) else b" " * room
                return b"%s%d\r\n\r\n%s" % (head, room, body)
    return None


def _head(at: datetime, name: str, padding: int) -> bytes:
    date = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    id_ = uuid.uuid5(_NAMES, name)
    return (
        f"WARC/1.0\r\nWARC-Type: metadata\r\nWARC-Record-ID: <urn:uuid:{id_}>\r\nWARC-Date: {date}\r\n"
        f"Content-Type: text/plain{' ' * padding}\r\nContent-Length: "
    ).encode()


def _member(size: int, at: datetime, name: str) -> bytes | None:
    """Return a gzip member of this size: stored, or compressed where that has no room."""
    blocks = max(1, -(-(size - GZIP_HEAD - GZIP_TAIL) // (LONGEST_STORED + BLOCK_HEAD)))
    record = _record(size - GZIP_HEAD - GZIP_TAIL - BLOCK_HEAD * blocks - 4, at, name)
    if record is not None:
        return _gzip(_stored(record + b"\r\n\r\n", blocks), record + b"\r\n\r\n", extra=None)
    smallest = _head(at, name, 0) + b"0\r\n\r\n\r\n\r\n"
    for content in (smallest, b""):
        data = _deflated(content)
        extra = size - GZIP_HEAD - 2 - len(data) - GZIP_TAIL
        if 4 <= extra <= LONGEST_STORED or extra == 0:
            return _gzip(data, content, extra=extra)
        if extra == -2:
            return _gzip(data, content, extra=None)
    return None


def _gzip(data: bytes, content: bytes, *, extra: int | None) -> bytes:
    flags = b"\0" if extra is None else b"\x04"
    head = b"\x1f\x8b\x08" + flags + bytes(4) + b"\x00\xff"
    if extra is not None:
        field = b"wm" + (extra - 4).to_bytes(2, "little") + bytes(extra - 4) if extra else b""
        head += extra.to_bytes(2, "little") + field
    return head + data + zlib.crc32(content).to_bytes(4, "little") + len(content).to_bytes(4, "little")


def _frame(size: int, at: datetime, name: str) -> bytes | None:
    """Return a Zstandard frame of this size, of raw blocks."""
    blocks = max(1, -(-(size - len(ZSTD_HEAD)) // (LONGEST_RAW + RAW_HEAD)))
    record = _record(size - len(ZSTD_HEAD) - RAW_HEAD * blocks - 4, at, name)
    if record is None:
        return None
    out = bytearray(ZSTD_HEAD)
    content = record + b"\r\n\r\n"
    for number in range(blocks):
        piece = content[number * LONGEST_RAW : (number + 1) * LONGEST_RAW]
        out += (len(piece) << 3 | (number == blocks - 1)).to_bytes(RAW_HEAD, "little") + piece
    return bytes(out)


def _stored(content: bytes, blocks: int) -> bytes:
    out = bytearray()
    for number in range(blocks):
        piece = content[number * LONGEST_STORED : (number + 1) * LONGEST_STORED]
        size = len(piece).to_bytes(2, "little")
        out += bytes([number == blocks - 1]) + size + bytes(byte ^ 0xFF for byte in size) + piece
    return bytes(out)


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()
