"""ARC version 1, the format before WARC: one line of five fields, then the block, then a newline.

    URL IP-address Archive-date Content-type Archive-length

A URL may contain spaces (some crawlers wrote them), so fields are counted from the right. The first record of a file
has a `filedesc:` URL; its block describes the file. Fields have the names that warcio gives them.
"""

from __future__ import annotations

import re

from webmill.errors import BadInput
from webmill.model import Headers

VERSION = "ARC/1"
NAMES = ("uri", "ip-address", "archive-date", "content-type", "length")
MAX_LINE = 8192
# Where the next record may begin after an error: a line with a URL, a 14-digit date and a length.
NEXT_RECORD = re.compile(rb"\n[A-Za-z][A-Za-z0-9+.-]{1,30}:[^\n]{1,8000} \d{14} [^ \n]{1,100} \d{1,18}\r?\n")
NEXT_RECORD_MAX = 8192
DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{1,30}:")


def looks_like_arc(start: bytes | bytearray) -> bool:
    """Return whether these bytes begin with the header line of an ARC record."""
    return URL.match(start) is not None and (_split(start) is not None or start.startswith(b"filedesc:"))


def parse_line(line: bytes | bytearray) -> tuple[Headers, int]:
    """Return the fields, and the length of the block after the line."""
    parts = _split(line)
    if parts is None:
        raise BadInput(f"not an ARC record line: {bytes(line[:40])!r}", reason="bad_header")
    values = [part.decode("utf-8", "surrogateescape") for part in parts]
    if not DIGITS.fullmatch(values[-1]):
        raise BadInput(f"the ARC record's length is {values[-1][:40]!r}", reason="bad_length")
    return Headers(zip(NAMES, values, strict=True)), int(values[-1])


def _split(start: bytes | bytearray) -> list[bytes] | None:
    line = bytes(start[:MAX_LINE]).partition(b"\n")[0].rstrip(b"\r")
    parts = line.rsplit(b" ", len(NAMES) - 1)
    return parts if len(parts) == len(NAMES) and parts[2].isdigit() else None
