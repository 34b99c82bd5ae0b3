"""Reads PNG pictures as browsers take them: 8 bits, RGB or RGBA, not interlaced (https://www.w3.org/TR/png-3/)."""

from __future__ import annotations

import zlib
from struct import unpack_from

import numpy as np
import numpy.typing as npt

from webmill.errors import BadInput

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_PIXELS = 40_000_000
CHANNELS = {2: 3, 6: 4}
Pixels = npt.NDArray[np.uint8]


def read_png(data: bytes) -> Pixels:
    """Return the pixels: rows, columns, red green blue. BadInput (bad_png): it is none of these pictures."""
    try:
        width, height, channels, packed = _chunks(data)
        size = height * (1 + width * channels)
        raw = zlib.decompressobj().decompress(packed, size)
    except (zlib.error, ValueError, IndexError) as error:
        raise BadInput(f"not a PNG picture that can be read here: {error}", reason="bad_png") from error
    if len(raw) != size:
        raise BadInput("the PNG picture is cut off", reason="bad_png")
    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * channels)
    return _unfilter(rows, channels).reshape(height, width, channels)[:, :, :3]


def _chunks(data: bytes) -> tuple[int, int, int, bytes]:
    if not data.startswith(SIGNATURE):
        raise ValueError("no signature")
    at, packed, head = len(SIGNATURE), [], b""
    while at + 8 <= len(data):
        length, kind = unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            head = body
        elif kind == b"IDAT":
            packed.append(body)
        at += 12 + length
    if len(head) != 13:
        raise ValueError("no header")
    width, height, depth, colour, _, _, interlaced = unpack_from(">IIBBBBB", head)
    if depth != 8 or colour not in CHANNELS or interlaced or not 0 < width * height <= MOST_PIXELS:
        raise ValueError("another kind of PNG")
    return width, height, CHANNELS[colour], b"".join(packed)


def _unfilter(rows: Pixels, channels: int) -> Pixels:
    """Undo the filter of each row: its first byte says which."""
    out = np.zeros((rows.shape[0], rows.shape[1] - 1), np.uint8)
    above = np.zeros(out.shape[1], np.uint8)
    for number, row in enumerate(rows):
        kind, line = int(row[0]), row[1:]
        if kind == 0:
            out[number] = line
        elif kind == 1:
            out[number] = np.cumsum(line.reshape(-1, channels), axis=0, dtype=np.uint64).astype(np.uint8).ravel()
        elif kind == 2:
            out[number] = line + above
        elif kind in (3, 4):
            out[number] = _by_neighbours(line, above, channels, is_paeth=kind == 4)
        else:
            raise BadInput(f"the PNG picture has a filter {kind}", reason="bad_png")
        above = out[number]
    return out


def _by_neighbours(line: Pixels, above: Pixels, channels: int, *, is_paeth: bool) -> Pixels:
    done, up = bytearray(line.tobytes()), above.tobytes()
    for at, value in enumerate(done):
        left = done[at - channels] if at >= channels else 0
        if is_paeth:
            corner = up[at - channels] if at >= channels else 0
            done[at] = (value + _paeth(left, up[at], corner)) & 255
        else:
            done[at] = (value + (left + up[at]) // 2) & 255
    return np.frombuffer(bytes(done), np.uint8)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    near = abs(guess - left), abs(guess - above), abs(guess - corner)
    return left if near[0] <= near[1] and near[0] <= near[2] else above if near[1] <= near[2] else corner
