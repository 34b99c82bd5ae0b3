"""Files of frames: pieces of bytes, each with its length and a checksum, to be read one after the other.

"wmframe" 1 · length (uint32) · crc32 (uint32) · bytes · length · …        little-endian
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

from webmill.errors import BadInput
from webmill.infra.files import os_errors

MAGIC = b"wmframe\x01"
HEAD = struct.Struct("<II")
LARGEST = 256 << 20  # bytes of one


def write_frames(path: Path, frames: Iterable[bytes]) -> None:
    """Write a file of frames, not synced."""
    with os_errors(str(path)), path.open("wb") as file:
        file.write(MAGIC)
        for frame in frames:
            file.write(HEAD.pack(len(frame), crc32(frame)))
            file.write(frame)


def read_frames(path: Path) -> Iterator[bytes]:
    with os_errors(str(path)), path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise BadInput("not a file of frames", reason="corrupt", source=str(path))
        while head := file.read(HEAD.size):
            at = file.tell() - len(head)
            size, check = HEAD.unpack(head) if len(head) == HEAD.size else (LARGEST + 1, 0)
            frame = file.read(size) if size <= LARGEST else b""
            if len(frame) != size or crc32(frame) != check:
                raise BadInput("a frame is damaged or cut short", reason="corrupt", source=str(path), offset=at)
            yield frame
