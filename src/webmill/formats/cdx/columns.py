"""CDX: one capture per line, in columns with a space between them; `-` is a missing value. The form before CDXJ.

A header may name the columns by letters (https://archive.org/web/researcher/cdx_legend.php):

     CDX N b a m s k r M S V g

Without one, the number of columns tells: 9, 10 and 11 as pywb and the Wayback Machine write them, 7 as an index server
answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Columns = tuple[str, ...]

LETTERS = {
    "N": "urlkey",
    "b": "timestamp",
    "a": "url",
    "m": "mime",
    "s": "status",
    "k": "digest",
    "r": "redirect",
    "M": "robotflags",
    "S": "length",
    "V": "offset",
    "g": "filename",
}
HEADERS = {
    7: " CDX N b a m s k S",
    9: " CDX N b a m s k r V g",
    10: " CDX N b a m s k r M V g",
    11: " CDX N b a m s k r M S V g",
}
MISSING = "-"
_HEADER = re.compile(rb" ?CDX(?: [A-Za-z])+ ?\r?\n?")
_SPACES = re.compile(r"[\x00-\x20\x7f]")


def parse_header(line: bytes) -> Columns | None:
    """Return the columns that a header names, unknown ones by their letter; None if it is not a header."""
    if not _HEADER.fullmatch(line):
        return None
    return tuple(LETTERS.get(letter, letter) for letter in line.decode().split()[1:])


BY_COUNT = {count: parse_header(header.encode()) or () for count, header in HEADERS.items()}


def split_columns(line: bytes, columns: Columns | None = None) -> dict[str, str] | None:
    """Return the values of a line by name, without those that are missing; None if it has other columns.

    A missing status stays: where revisits are resolved, pywb replaces it by that of the original.
    """
    values = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape").split(" ")
    names = columns or BY_COUNT.get(len(values), ())
    if len(names) != len(values):
        return None
    return {
        name: value
        for name, value in zip(names, values, strict=True)
        if value and (value != MISSING or name == "status")
    }


def format_columns(values: Mapping[str, str], count: int) -> bytes:
    """Return the values as a line of 9, 10 or 11 columns. No column has a space: one inside a value becomes %20."""
    texts = (_SPACES.sub(_escape, values.get(name, "")) or MISSING for name in BY_COUNT[count])
    return (" ".join(texts) + "\n").encode("utf-8", "surrogateescape")


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
