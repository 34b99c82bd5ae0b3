"""Read gzip files of many members (RFC 1952): where each ends, verified, and what it holds.

A member is valid only if its deflate stream ended, and its CRC-32 and length (ISIZE) are right.
"""

from __future__ import annotations

import re

import deflate
from zlib_ng import zlib_ng

from webmill.errors import BadInput
from webmill.formats.window import ByteWindow

MAGIC = b"\x1f\x8b\x08"
MEMBER_START = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]")  # the flags of RFC 1952 use the low five bits
HEADER_CRC = 0x02  # a flag; libdeflate does not check what it says
SMALLEST = 20  # header 10, deflate of nothing 2, trailer 8
MAX_STORED = 4 << 20  # stored bytes that one call may inflate
MAX_INFLATED = 16 << 20  # inflated bytes of one call
INPUT = 1 << 16
PREFIX_INPUT = (
    1 << 12
)  # stored bytes by which a member is recognised; small, since there may be a candidate at every third byte
OUTPUT = 1 << 20
INFLATE_ERROR: type[Exception] = zlib_ng.error  # type: ignore[assignment]  # its stub calls the class an instance


class DamagedMember(BadInput):
    """A damaged member: truncated_member, bad_gzip, bad_crc."""


def inflate_whole(raw: ByteWindow, *, most: int) -> bytearray | None:
    """Inflate the member at `raw` in one call to libdeflate, if it is small and its end is easy to find.

    The next magic (or the end of the data) is taken for the end, and verified: the eight bytes before it must be the
    CRC and length of the output. None only means that this failed: `GzipMemberReader` decides.
    """
    end = SMALLEST
    for _ in range(3):  # a magic occurs inside compressed data once in about 100 MB
        guess = _next_magic(raw, end)
        if guess is None:
            return None
        inflated = _inflate_exactly(memoryview(raw.data)[raw.at : raw.at + guess], most=most)
        if inflated is not None:
            raw.at += guess
            return inflated
        end = guess + 1
    return None


def inflate_only_member(data: bytes, *, most: int) -> bytes | None:
    """Inflate data that is one member and nothing else, in one call to libdeflate. None: decide by reading it."""
    if len(data) < SMALLEST or data[3] & HEADER_CRC or data.find(MAGIC, 1) >= 0:  # a second member may begin there
        return None
    inflated = _inflate_exactly(memoryview(data), most=most)
    return None if inflated is None else bytes(inflated)


def _next_magic(raw: ByteWindow, skip: int) -> int | None:
    """Return the distance to the next possible member; None if it is too far, or nothing is left."""
    while True:
        found = MEMBER_START.search(raw.data, raw.at + skip)
        if found:
            return found.start() - raw.at
        there = len(raw.data) - raw.at
        if there > MAX_STORED:
            return None
        before, skip = skip, max(skip, there - len(MAGIC))
        if not raw.read_more():
            return there if there >= before else None


def _inflate_exactly(member: memoryview, *, most: int) -> bytearray | None:
    size = int.from_bytes(member[-4:], "little")
    # Deflate gains at most a factor of 1032: a larger claim is no reason to allocate.
    if not 0 < size <= min(most, 1032 * len(member)):
        return None
    try:
        inflated: bytearray = deflate.gzip_decompress(member, size)
    except deflate.DeflateError:
        return None
    if len(inflated) != size or deflate.crc32(inflated) != int.from_bytes(member[-8:-4], "little"):
        return None
    return inflated


class GzipMemberReader:
    """Reads the member at `raw` piece by piece, however large, and leaves `raw` at its end."""

    def __init__(self, raw: ByteWindow) -> None:
        self._raw = raw
        self._start = raw.position
        self._inflate = zlib_ng.decompressobj(31)

    def read(self, size: int, /) -> bytes:
        """Return up to `size` inflated bytes; b"" once the member is verified."""
        while not self._inflate.eof:
            piece = self._step(min(size, OUTPUT))
            if piece:
                return piece
        return b""

    def _step(self, most: int) -> bytes:
        raw = self._raw
        raw.has(1)
        chunk = memoryview(raw.data)[raw.at : raw.at + INPUT]
        try:
            piece: bytes = self._inflate.decompress(chunk, most)
        except INFLATE_ERROR as error:
            raw.at += len(chunk)  # always advance, or resynchronising could go on for ever
            raise self._damaged(error) from None
        if not chunk and not piece and not self._inflate.eof:
            raise DamagedMember(
                "the file ends inside a gzip member", reason="truncated_member", offset=self._start
            ) from None
        left = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        raw.at += len(chunk) - len(left)
        return piece

    def _damaged(self, error: Exception) -> DamagedMember:
        text = str(error)
        reason = "bad_crc" if "incorrect data check" in text or "incorrect length check" in text else "bad_gzip"
        return DamagedMember(f"gzip member: {text}", reason=reason, offset=self._start)


def inflate_prefix(raw: ByteWindow, *, most: int = 1024) -> bytes:
    """Return the first inflated bytes of the member at `raw`, which does not move; b"" if it is not a member."""
    raw.has(PREFIX_INPUT)
    try:
        start: bytes = zlib_ng.decompressobj(31).decompress(memoryview(raw.data)[raw.at : raw.at + PREFIX_INPUT], most)
    except INFLATE_ERROR:
        return b""
    return start
