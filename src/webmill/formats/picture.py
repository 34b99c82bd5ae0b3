"""What kind of picture bytes are, and how large: read from its first bytes, without decoding it.

PNG: https://www.w3.org/TR/png-3/ 5; JPEG: ITU-T T.81, B.2.
"""

from __future__ import annotations

from struct import unpack_from

import msgspec

from webmill.errors import BadInput
from webmill.formats.png import SIGNATURE

JPEG = b"\xff\xd8\xff"
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # segments that begin a frame, and so have its size
_ALONE = {0x01, *range(0xD0, 0xD9)}  # markers without a segment
MOST_SEGMENTS = 1000  # before the frame


class PictureSize(msgspec.Struct, frozen=True):
    type: str
    width: int
    height: int

    @property
    def pixels(self) -> int:
        return self.width * self.height


def picture_size(data: bytes) -> PictureSize:
    """Return type and size of a PNG or JPEG. BadInput (bad_picture): it is neither, or ends before it says its size."""
    if data.startswith(SIGNATURE):
        if data[12:16] == b"IHDR" and len(data) >= 24:
            return _checked("image/png", *unpack_from(">II", data, 16))
    elif data.startswith(JPEG):
        return _jpeg_size(data)
    raise BadInput("not a PNG or JPEG picture", reason="bad_picture")


def _jpeg_size(data: bytes) -> PictureSize:
    at = 2
    for _ in range(MOST_SEGMENTS):
        while data[at : at + 2] == b"\xff\xff":  # a marker may be filled up
            at += 1
        if at + 4 > len(data) or data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker in _ALONE:
            at += 2
        elif marker in _FRAMES and at + 9 <= len(data):
            height, width = unpack_from(">HH", data, at + 5)
            return _checked("image/jpeg", width, height)
        else:
            at += 2 + unpack_from(">H", data, at + 2)[0]
    raise BadInput("a JPEG picture without a frame", reason="bad_picture")


def _checked(kind: str, width: int, height: int) -> PictureSize:
    if not width or not height:
        raise BadInput("a picture without a size", reason="bad_picture")
    return PictureSize(kind, width, height)
