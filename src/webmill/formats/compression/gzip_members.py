"""Gzip files of many members (RFC 1952): where each ends, proven, and what it holds.

A member counts as read only when its deflate stream ended, and its CRC-32 and length (ISIZE) are right.
"""

from __future__ import annotations

import re

import deflate
from zlib_ng import zlib_ng

from webmill.errors import BadInput
from webmill.formats.window import ByteWindow

MAGIC = b"\x1f\x8b\x08"
MEMBER_START = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]")  # the flags of RFC 1952 use the low five bits
SMALLEST = 20  # header 10, deflate of nothing 2, trailer 8
MAX_STORED = 4 << 20  # what one call may inflate: stored bytes
MAX_INFLATED = 16 << 20  # and inflated bytes
INPUT = 1 << 16
PREFIX_INPUT = (
    1 << 12
)  # stored bytes by which a member is recognised: where there is one in every third byte, it is read often
OUTPUT = 1 << 20
INFLATE_ERROR: type[Exception] = zlib_ng.error  # type: ignore[assignment]  # its stub calls the class an instance


class DamagedMember(BadInput):
    """A member that is no member: truncated_member, bad_gzip, bad_crc."""


def inflate_whole(raw: ByteWindow, *, most: int) -> bytearray | None:
    """The member at `raw`, in one call to libdeflate, when it is small and where it ends is plain to see.

    The guess is the next magic (or the end of the data); the proof is that the last eight bytes before it are the
    CRC and length of what came out. None says only that the guess was wrong: `GzipMemberReader` has the last word.
    """
    end = SMALLEST
    for _ in range(3):  # a magic inside compressed data happens once in some 100 MB
        guess = _next_magic(raw, end)
        if guess is None:
            return None
        inflated = _inflate_exactly(memoryview(raw.data)[raw.at : raw.at + guess], most=most)
        if inflated is not None:
            raw.at += guess
            return inflated
        end = guess + 1
    return None


def _next_magic(raw: ByteWindow, skip: int) -> int | None:
    """How far from here the next member may begin; None when too far, or nothing is left."""
    while True:
        found = MEMBER_START.search(raw.data, raw.at + skip)
        if found:
            return found.start() - raw.at
        there = len(raw.data) - raw.at
        if there > MAX_STORED:
            return None
        before, skip = skip, max(skip, there - len(MAGIC))
        if not raw.more():
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
    """Reads the one member at `raw` piece by piece, however large; `raw` is left at its end."""

    def __init__(self, raw: ByteWindow) -> None:
        self._raw = raw
        self._start = raw.position
        self._inflate = zlib_ng.decompressobj(31)

    def read(self, size: int, /) -> bytes:
        """Up to `size` inflated bytes; b"" once the member is proven whole."""
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
            raw.at += len(chunk)  # a failure must have its price, or resynchronising could go on for ever
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
    """The first inflated bytes of the member at `raw`, which stays where it is; b"" when it is none."""
    raw.has(PREFIX_INPUT)
    try:
        start: bytes = zlib_ng.decompressobj(31).decompress(memoryview(raw.data)[raw.at : raw.at + PREFIX_INPUT], most)
    except INFLATE_ERROR:
        return b""
    return start
