"""Read Zstandard files of many frames (RFC 8878): where each ends, and what it holds.

Frames are read block by block, so the end is exact without relying on the buffering of a decoder. A WARC file may begin
with a skippable frame that holds a dictionary for all the others (the convention of .warc.zst: magic 5D 2A 4D 18, the
dictionary itself plain or compressed).
"""

from __future__ import annotations

import io
import re
from typing import IO, cast

import zstandard

from webmill.formats.compression.gzip_members import DamagedMember
from webmill.formats.window import ByteWindow

MAGIC = b"\x28\xb5\x2f\xfd"
FRAME_START = re.compile(rb"\x28\xb5\x2f\xfd")
MAX_WINDOW = 8 << 20
MAX_DICTIONARY = 16 << 20
DICTIONARY_FRAME = b"\x5d\x2a\x4d\x18"
MAX_BLOCK = 128 << 10


def is_frame(start: bytes) -> bool:
    """Return whether these four bytes begin a frame, skippable or not."""
    return start == MAGIC or (len(start) == 4 and start[1:] == b"\x2a\x4d\x18" and start[0] >> 4 == 5)


class ZstdFrameReader:
    """Reads the frame at `raw` piece by piece, and leaves `raw` at its end. A skippable frame has no content.

    `decoder` is for the frames that follow: a new one if this frame held a dictionary.
    """

    def __init__(self, raw: ByteWindow, decoder: zstandard.ZstdDecompressor) -> None:
        self.decoder = decoder
        self._start = raw.position
        self._stream: zstandard.ZstdDecompressionReader | None = None
        raw.has(4)
        magic = bytes(raw.data[raw.at : raw.at + 4])
        if magic == MAGIC:
            blocks = cast("IO[bytes]", _ZstdBlocks(raw))  # the decoder only calls `read`
            self._stream = decoder.stream_reader(blocks, read_size=MAX_BLOCK)
        elif magic == DICTIONARY_FRAME:
            self.decoder = _decoder_with(_skippable(raw, most=MAX_DICTIONARY))
        else:
            _skippable(raw, most=0)

    def read(self, size: int, /) -> bytes:
        if self._stream is None:
            return b""
        try:
            return self._stream.read(min(size, 1 << 20))
        except zstandard.ZstdError as error:
            text = str(error)
            reason = "bad_crc" if "checksum" in text else "bad_zstd"
            raise DamagedMember(f"zstd frame: {text}", reason=reason, offset=self._start) from None


class _ZstdBlocks:
    """The stored bytes of one frame, split by its block headers: `read` ends where the frame ends."""

    def __init__(self, raw: ByteWindow) -> None:
        self._raw = raw
        self._pending = _take(raw, _header_length(raw))
        self._checksum = bool(self._pending[4] & 4)
        self._last = False

    def read(self, size: int = -1, /) -> bytes:
        if not self._pending and not self._last:
            self._pending = self._block()
        piece, self._pending = self._pending[:size], self._pending[size:]
        return piece

    def _block(self) -> bytes:
        header = _take(self._raw, 3)
        word = int.from_bytes(header, "little")
        self._last = bool(word & 1)
        stored = 1 if (word >> 1) & 3 == 1 else word >> 3  # a run of one byte is stored as that byte
        if stored > MAX_BLOCK:
            raise DamagedMember("zstd frame: a block over 128 KiB", reason="bad_zstd", offset=self._raw.position)
        tail = 4 if self._last and self._checksum else 0
        return header + _take(self._raw, stored + tail)


def _header_length(raw: ByteWindow) -> int:
    """Return the length of the frame header, whose descriptor says which fields there are (RFC 8878, 3.1.1.1)."""
    if not raw.has(5):
        _take(raw, 5)
    descriptor = raw.data[raw.at + 4]
    single = descriptor >> 5 & 1
    content_size = (single, 2, 4, 8)[descriptor >> 6]
    dictionary_id = (0, 1, 2, 4)[descriptor & 3]
    return 5 + (1 - single) + dictionary_id + content_size


def _take(raw: ByteWindow, count: int) -> bytes:
    if not raw.has(count):  # not ByteWindow.take: the bytes must be kept in case the frame is damaged
        raise DamagedMember("the file ends inside a zstd frame", reason="truncated_member", offset=raw.position)
    raw.at += count
    return bytes(raw.data[raw.at - count : raw.at])


def _skippable(raw: ByteWindow, *, most: int) -> bytes:
    """Skip a skippable frame; return its content if it is not longer than `most`."""
    size = int.from_bytes(_take(raw, 8)[4:], "little")
    if size <= most:
        return _take(raw, size)
    if not raw.skip(size):
        raise DamagedMember("the file ends inside a zstd frame", reason="truncated_member", offset=raw.position)
    return b""


def new_decoder() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)


def _decoder_with(dictionary: bytes) -> zstandard.ZstdDecompressor:
    try:
        if dictionary.startswith(MAGIC):
            dictionary = new_decoder().stream_reader(io.BytesIO(dictionary)).read(MAX_DICTIONARY)
        content = zstandard.ZstdCompressionDict(dictionary)
        return zstandard.ZstdDecompressor(dict_data=content, max_window_size=MAX_WINDOW)
    except (zstandard.ZstdError, ValueError) as error:
        raise DamagedMember(f"zstd dictionary: {error}", reason="bad_zstd") from None
