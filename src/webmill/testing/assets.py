"""Tiny files for the test web: a PNG, a PDF and a style sheet."""

from __future__ import annotations

import struct
import zlib


def png(*, colour: tuple[int, int, int], side: int = 8) -> bytes:
    """Return a square of one colour. The pixels are stored, not compressed: zlib's output differs between machines."""
    pixels = (b"\x00" + bytes(colour) * side) * side
    size = struct.pack("<HH", len(pixels), len(pixels) ^ 0xFFFF)
    stored = b"\x78\x01\x01" + size + pixels + struct.pack(">I", zlib.adler32(pixels))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", stored) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pdf(line: str) -> bytes:
    """Return a document of one page with one line of Latin text and a correct cross-reference table."""
    text = line.encode("ascii", "replace").translate(None, b"()\\")
    drawing = b"BT /F1 18 Tf 72 720 Td (" + text + b") Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Font << /F1 5 0 R >> >>",
    ]
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def css(*, colour: tuple[int, int, int]) -> bytes:
    red, green, blue = colour
    return (
        "body { font-family: serif; max-width: 40em; margin: auto }\n"
        f"h1 {{ color: rgb({red}, {green}, {blue}) }}\n"
        "nav a { margin-right: 1em }\n"
    ).encode()
