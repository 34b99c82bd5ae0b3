"""Read records from a stream of uncompressed bytes: header, Content-Length bytes, two empty lines.

Lengths are trusted. A line inside a block that looks like a record is ignored; the next record is searched for only
after an error, from the byte after the start of the broken record.
"""

from __future__ import annotations

import re

from webmill.errors import BadInput
from webmill.formats.warc import arc
from webmill.formats.warc.head import WarcHead, WarcLimits, parse_head
from webmill.formats.window import ByteWindow
from webmill.model import Damage, Record

WARC = b"WARC/"
# A header ends at the first empty line; another version line before that proves that it has no end.
HEAD_END = re.compile(rb"\n\r{0,2}\n|\nWARC/[0-9]\.[0-9]{1,3}\r{0,2}\n")
NEXT_RECORD = re.compile(rb"\nWARC/[0-9]\.[0-9]{1,3}\r{0,2}\n[A-Za-z]")
NEXT_RECORD_MAX = 20
BLANK = re.compile(rb"[\r\n]*")
TERMINATORS = (b"\r\n\r\n", b"\n\n", b"\r\r\n\r\r\n")
ARC_LINE_END = re.compile(rb"\n")
ARC_TERMINATORS = (b"\r\n", b"\n", b"")


def skip_blank(window: ByteWindow) -> bool:
    """Skip empty lines; return False at the end of the data."""
    while window.has(1):
        if window.data[window.at] not in b"\r\n":
            return True
        window.at = BLANK.match(window.data, window.at).end()  # type: ignore[union-attr]  # it also matches nothing
    return False


def sniff(window: ByteWindow) -> str:
    """Return `warc`, `arc` or nothing by the next bytes; fewer than five are enough at the end of the data."""
    if window.data.startswith(WARC, window.at):
        return "warc"
    window.has(arc.MAX_LINE)
    start = window.data[window.at : window.at + arc.MAX_LINE]
    if start.startswith(WARC) or (start and WARC.startswith(start)):
        return "warc"
    return "arc" if arc.looks_like_arc(start) else ""


def read_framed(window: ByteWindow, kind: str, *, limits: WarcLimits) -> tuple[Record | Damage, ...]:
    """Return the record at the window, of a known kind, and damage, if any. The window moves past both.

    Offsets are those of the window's stream.
    """
    window.mark = start = window.position
    found = read_head(window, kind, limits=limits)
    if isinstance(found, Damage):
        return (found,)
    block = min(found.block, limits.block)
    rest = found.block - block
    if window.size is not None and window.position + found.block > window.size:
        return (_incomplete_block(window, kind, start, found),)
    content = window.take(block)
    if content is None or (rest and not window.skip(rest)):
        return (_incomplete_block(window, kind, start, found),)
    flaw = _skip_terminator(window, kind)
    length = (flaw.offset if flaw else window.position) - start
    record = Record(found.version, found.headers, content, start, length, rest > 0)
    return (record, flaw) if flaw else (record,)


def read_sole_record(member: bytes | bytearray, *, place: tuple[int, int], limits: WarcLimits) -> Record | None:
    """Return the record that fills an inflated member exactly, as nearly all do; None: `read_framed` must decide."""
    found = HEAD_END.search(member, 0, limits.head)
    if not found or not member.startswith(WARC) or not member.endswith(TERMINATORS[0]):
        return None
    try:
        head = parse_head(member[: found.end()], limits=limits)
    except BadInput:
        return None
    end = found.end() + head.block
    if end + len(TERMINATORS[0]) != len(member) or head.block > limits.block:
        return None
    content = bytes(memoryview(member)[found.end() : end])
    return Record(head.version, head.headers, content, place[0], place[1] - place[0])


def read_head(window: ByteWindow, kind: str, *, limits: WarcLimits) -> WarcHead | Damage:
    """Return the header, or damage if it is invalid, and move the window past it."""
    start = window.position
    most = arc.MAX_LINE if kind == "arc" else limits.head
    length = _head_length(window, kind, most=most)
    if length is None:
        ended = window.size is not None and window.size - start < most
        reason, message = (
            ("truncated_record", "the data ends inside a header") if ended else ("too_large", "the header is too large")
        )
        return resynchronise(window, kind, start, reason=reason, message=message)
    head = window.data[window.at : window.at + length]
    try:
        parsed = _parse_arc(head) if kind == "arc" else parse_head(head, limits=limits)
    except BadInput as error:
        return resynchronise(window, kind, start, reason=error.reason, message=error.message)
    window.at += length
    return parsed


def _head_length(window: ByteWindow, kind: str, *, most: int) -> int | None:
    pattern = ARC_LINE_END if kind == "arc" else HEAD_END
    while True:
        found = pattern.search(window.data, window.at, window.at + most)
        if found:
            return found.end() - window.at
        if len(window.data) - window.at >= most or not window.read_more():
            return None


def _parse_arc(line: bytes | bytearray) -> WarcHead:
    headers, length = arc.parse_line(line)
    return WarcHead(arc.VERSION, headers, length)


def _incomplete_block(window: ByteWindow, kind: str, start: int, head: WarcHead) -> Damage:
    """Return the damage of an incomplete block: the data was cut, or the length is wrong and other records follow."""
    message = f"the data ends before the block's {head.block} bytes"
    damage = resynchronise(window, kind, start, reason="truncated_record", message=message)
    if window.has(1):
        return Damage(start, damage.end, "bad_length", f"a length of {head.block} runs over the records that follow")
    return damage


def _skip_terminator(window: ByteWindow, kind: str) -> Damage | None:
    """Skip the terminator: for WARC two empty lines, else return damage; for ARC a newline, which may be absent."""
    window.has(len(TERMINATORS[-1]))
    for terminator in ARC_TERMINATORS if kind == "arc" else TERMINATORS:
        if window.data.startswith(terminator, window.at):
            window.at += len(terminator)
            return None
    return _missing_terminator(window)


def _missing_terminator(window: ByteWindow) -> Damage:
    """Return the damage between a block and the next record, mostly due to a Content-Length that is too small."""
    start = window.position
    if window.data.startswith(WARC, window.at):
        return Damage(start, start, "missing_terminator", "the next record follows the block without a terminator")
    message = "the block is not followed by two empty lines"
    return resynchronise(window, "warc", start, search_from=start, reason="missing_terminator", message=message)


def resynchronise(
    window: ByteWindow, kind: str, start: int, *, reason: str, message: str, search_from: int | None = None
) -> Damage:
    """Move to the next line after `start` that begins a record of this kind, or to the end; return the damage."""
    window.step_back(start + 1 if search_from is None else search_from)
    pattern, longest = (arc.NEXT_RECORD, arc.NEXT_RECORD_MAX) if kind == "arc" else (NEXT_RECORD, NEXT_RECORD_MAX)
    if window.search(pattern, longest=longest):
        window.at += 1
    return Damage(start, window.position, reason, message)
