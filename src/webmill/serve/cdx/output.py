"""Index lines in the requested format: CDXJ, one JSON object per line, or columns of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, Value, parse
from webmill.formats.cdx.zipnum import ZipnumBlock, format_summary_line
from webmill.formats.url.surt import without_surrogates
from webmill.index.lookup.query import Reject, parse_lines
from webmill.serve.captures.address import web_address
from webmill.serve.captures.response import format_link, memento_date
from webmill.serve.cdx.params import Output

MEDIA_TYPES: dict[Output, str] = {
    "cdxj": "text/x-cdxj; charset=utf-8",
    "json": "text/x-ndjson; charset=utf-8",
    "text": "text/plain; charset=utf-8",
    "link": "text/plain; charset=utf-8",  # of blocks, which have no links
}

_PLAIN = re.compile(rb'([!#-\[\]-~]+) ([0-9]{14}) \{(?=")')  # a key without quote and backslash; not `{}`
_object = msgspec.json.Decoder(msgspec.Raw)
_CONTROLS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029]")


def format_lines(
    lines: Iterable[bytes], output: Output, fields: tuple[str, ...], *, on_reject: Reject | None = None
) -> Iterable[bytes]:
    """Return the lines in the format; CDXJ and text without `fields` are unchanged. Otherwise a bad line is left out
    and passed to `on_reject`, or raised without one.
    """
    if output == "json":
        return _write_lines(lines, partial(_json_of, fields=fields) if fields else line_as_json, on_reject)
    if not fields:
        return lines
    return _write_lines(lines, partial(_cdxj_of if output == "cdxj" else _text_of, fields=fields), on_reject)


def _write_lines(lines: Iterable[bytes], write: Callable[[bytes], bytes], on_reject: Reject | None) -> Iterator[bytes]:
    for line in lines:
        try:
            yield write(line)
        except BadInput as error:
            if on_reject is None:
                raise
            on_reject(line, error)


def line_as_json(line: bytes) -> bytes:
    """Return the line as JSON: key and timestamp are put into its JSON, which is checked but not decoded (hot path)."""
    plain = _PLAIN.match(line)
    if plain is None:
        return _encode(_members(parse(line)))
    try:
        _object.decode(line[plain.end() - 1 :])
        if not line.isascii():
            line.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{error} in {line[:80]!r}", reason="bad_json") from error
    return b'{"urlkey": "%b", "timestamp": "%b", %b' % (*plain.groups(), line[plain.end() :])


def format_links(lines: Iterable[bytes], *, address: str, on_reject: Reject) -> Iterator[bytes]:
    """Yield each capture as a link to its memento, as a TimeMap has them (RFC 7089)."""
    before = ""
    for url, date in mementos(lines, address=address, on_reject=on_reject):
        if before:
            yield f"{before},\n".encode()
        before = format_link(url, "memento", datetime=date)
    if before:
        yield f"{before}\n".encode()


def mementos(lines: Iterable[bytes], *, address: str, on_reject: Reject) -> Iterator[tuple[str, str]]:
    """Yield address and date of the captures. One whose timestamp is not a date is left out, and rejected."""
    for line, capture in parse_lines(lines, on_reject):
        try:
            date = memento_date(capture.timestamp)
        except BadInput as error:
            on_reject(line, error)
            continue
        yield address + web_address(capture.timestamp, capture.text("url")), date


def format_blocks(blocks: Iterable[ZipnumBlock], output: Output) -> Iterator[bytes]:
    """Yield lines of the summary, for `showPagedIndex`."""
    for block in blocks:
        if output != "json":
            yield format_summary_line(block)
            continue
        shown: dict[str, object] = {"urlkey": block.key.decode("utf-8", "replace"), "part": block.shard}
        shown |= {"offset": block.offset, "length": block.length}
        yield _encode(shown if block.number is None else shown | {"lineno": block.number})


def _json_of(line: bytes, *, fields: tuple[str, ...]) -> bytes:
    members = _members(parse(line))
    return _encode({name: members[name] for name in fields if name in members})


def _cdxj_of(line: bytes, *, fields: tuple[str, ...]) -> bytes:
    capture = parse(line)
    members = {name: capture.fields[name] for name in fields if name in capture.fields}
    return f"{without_surrogates(capture.urlkey)} {capture.timestamp} ".encode() + _encode(members)


def _text_of(line: bytes, *, fields: tuple[str, ...]) -> bytes:
    """Return the fields as text; line breaks are escaped, a missing value is `-`."""
    capture = parse(line)
    members = _members(capture)
    words = (capture.text(name) if name in capture.fields else str(members.get(name, "-")) for name in fields)
    return (_CONTROLS.sub(_escape, without_surrogates(" ".join(words))) + "\n").encode()


def _members(capture: CdxjLine) -> dict[str, Value]:
    return {"urlkey": without_surrogates(capture.urlkey), "timestamp": capture.timestamp} | capture.fields


def _encode(members: object) -> bytes:
    try:
        return msgspec.json.encode(members) + b"\n"
    except UnicodeEncodeError as error:  # a lone surrogate
        raise BadInput("a field is not valid Unicode", reason="bad_json") from error


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
