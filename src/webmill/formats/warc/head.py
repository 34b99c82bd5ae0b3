"""Parse the header of a WARC record (ISO 28500, 4-5): version line, fields, empty line.

Parsed leniently: any minor version, lines that end in LF alone or in CR CR LF (a copy in text mode), folded fields, any
bytes in values.
"""

from __future__ import annotations

import re

import msgspec

from webmill.errors import BadInput
from webmill.model import Headers

VERSION = re.compile(rb"WARC/\d{1,3}\.\d{1,3}\r{0,2}\n")
DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)


class WarcLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader holds in memory at most. Longer blocks are checked, but returned truncated."""

    block: int = 64 << 20
    head: int = 64 << 10
    fields: int = 1000


class WarcHead(msgspec.Struct, frozen=True, gc=False):
    """The parsed header of a record."""

    version: str
    headers: Headers
    block: int  # the length of the block that follows


def parse_head(head: bytes | bytearray, *, limits: WarcLimits) -> WarcHead:
    """Parse a header, from the version line to the empty line, both included."""
    first = VERSION.match(head)
    if not first:
        raise BadInput(f"not a WARC version line: {bytes(head[:40])!r}", reason="bad_header")
    text = head[first.end() :].decode("utf-8", "surrogateescape")
    pairs = _fields(text)
    if len(pairs) > limits.fields:
        raise BadInput(f"{len(pairs)} header fields; the limit is {limits.fields}", reason="too_large")
    return WarcHead(head[: first.end()].rstrip().decode("ascii"), Headers(pairs), _block_length(pairs))


def _fields(text: str) -> list[tuple[str, str]]:
    """Split plain fields in one pass; parse line by line if any line is not a plain field."""
    lines = text.split("\r\n")  # the last two are empty: the end of the empty line, and what follows it
    pairs = [
        (name, value.strip(" \t"))
        for name, _, value in [line.partition(":") for line in lines[:-2]]
        if value and name and name[0] not in " \t"
    ]
    if len(pairs) == len(lines) - 2 == text.count("\n") - 1 and not lines[-2] and " :" not in text:
        return pairs
    return _odd_fields(text)


def _odd_fields(text: str) -> list[tuple[str, str]]:
    fields: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        line = line.rstrip("\r")
        name, colon, value = line.partition(":")
        if line[:1] in (" ", "\t") and fields:
            fields[-1][1].append(line.strip(" \t"))
        elif colon and name.strip(" \t"):
            fields.append((name.strip(" \t"), [value.strip(" \t")]))
        elif line:
            raise BadInput(f"a header line without a name: {line[:40]!r}", reason="bad_header")
    return [(name, " ".join(parts)) for name, parts in fields]


def _block_length(pairs: list[tuple[str, str]]) -> int:
    lengths = {value for name, value in pairs if len(name) == 14 and name.lower() == "content-length"}
    if len(lengths) != 1:
        what = "no Content-Length" if not lengths else f"several Content-Lengths: {sorted(lengths)[:4]}"
        raise BadInput(what, reason="bad_length")
    length = lengths.pop()
    if not DIGITS.fullmatch(length):
        raise BadInput(f"Content-Length is {length[:40]!r}", reason="bad_length")
    return int(length)
