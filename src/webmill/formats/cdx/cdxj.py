"""CDXJ: one capture per line, `urlkey SP timestamp SP {json}`, sorted bytewise (pywb's and Common Crawl's index).

A urlkey should have no space, but Common Crawl's index has some that do: a key ends before ` timestamp {`. Lines of the
older form, in columns (`columns`), are read as well.

To pass on millions of lines, keep them as bytes and slice them with `key_of`, `prefix_of` and `json_of`; use `parse` to
read fields. Lines end only at `\\n`: never use `splitlines`, since a field may contain other line breaks.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring_ascii as _quoted

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.columns import Columns, split_columns
from webmill.formats.timestamps import is_timestamp
from webmill.formats.url.surt import without_surrogates
from webmill.model import CaptureRef, check_filename, check_position, normalise_digest

MAX_LINE = 1 << 20
MAX_DEPTH = 64
REVISIT = "warc/revisit"  # the mime of a revisit

# Every value that pywb and Common Crawl write is a string. Other values of other writers are kept as written: a number
# of 10,000 digits or 1e400 survives, since nothing computes with it.
Value = str | msgspec.Raw


class CdxjLine(msgspec.Struct, frozen=True):
    """One parsed line. `fields` are in the order of the line; the last value of a repeated name is kept."""

    urlkey: str
    timestamp: str
    fields: dict[str, Value]

    def text(self, name: str) -> str:
        """Return a field as text: its JSON if it is not a string, empty if it is missing."""
        return as_text(self.fields.get(name, ""))

    @property
    def is_revisit(self) -> bool:
        return self.text("mime") == REVISIT


class IndexLine(msgspec.Struct, frozen=True, kw_only=True):
    """What an index states about a capture: where it is stored, its media type and its status."""

    capture: CaptureRef
    mime: str = ""
    status: str = ""

    @property
    def is_revisit(self) -> bool:
        return self.mime == REVISIT


def as_text(value: Value) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


def capture_of(line: CdxjLine, *, shortest: int = 0) -> CaptureRef:
    """Return where the capture of a line is stored; it must have at least `shortest` bytes.

    Raise BadInput (no_filename, bad_filename, no_offset, bad_offset, no_length, bad_length), which names the line.
    """
    fields = line.fields
    try:
        return CaptureRef(
            url=line.text("url"),
            urlkey=line.urlkey,
            timestamp=line.timestamp,
            filename=check_filename(_as_optional_text(fields.get("filename"))),
            offset=check_position(_as_optional_text(fields.get("offset")), name="offset"),
            length=check_position(_as_optional_text(fields.get("length")), name="length", least=shortest),
            digest=normalise_digest(line.text("digest")),
        )
    except BadInput as error:
        source = f"{line.urlkey} {line.timestamp}"
        raise BadInput(error.message, reason=error.reason, source=source) from error


def _as_optional_text(value: Value | None) -> str | None:
    return value if isinstance(value, str) or value is None else as_text(value)


def read_index_line(raw: bytes) -> IndexLine:
    """Return what a line states about a capture. Raise BadInput as `parse` and `capture_of` do."""
    line = parse(raw)
    return IndexLine(capture=capture_of(line), mime=line.text("mime"), status=line.text("status"))


# --- slices of a line, for hot loops --------------------------------------------------------------------------------


_SPACED = re.compile(rb"([^ ].*?) ([0-9]{14}) (\{.*)", re.DOTALL)


def parts_of(line: bytes) -> list[bytes]:
    """Return urlkey, timestamp and JSON; fewer or other parts of a line that is not CDXJ."""
    parts = line.split(b" ", 2)
    if len(parts) == 3 and len(parts[1]) != 14 and (spaced := _SPACED.fullmatch(line)):
        return [*spaced.groups()]
    return parts


def key_of(line: bytes) -> bytes:
    return parts_of(line)[0]


def prefix_of(line: bytes) -> bytes:
    """Return `urlkey SP timestamp`, which a ZipNum summary has of the first line of each block."""
    return b" ".join(parts_of(line)[:2])


def json_of(line: bytes) -> bytes:
    return b"".join(parts_of(line)[2:])


def timestamp_of(line: bytes) -> bytes:
    """Return the timestamp; empty where there is none."""
    return parts_of(line)[1] if b" " in line else b""


# --- whole lines ----------------------------------------------------------------------------------------------------


def parse(line: bytes) -> CdxjLine:
    """Parse a line. Raise BadInput: line_too_long, line_break, no_key, no_json, bad_timestamp, bad_json, too_deep."""
    if len(line) > MAX_LINE:
        raise BadInput(f"{len(line)} bytes in a line, at most {MAX_LINE}", reason="line_too_long")
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if b"\n" in line:
        raise BadInput("a line break within a line", reason="line_break")
    parts = line.split(b" ", 2)
    if len(parts) < 3 or len(parts[1]) != 14:  # hardly ever
        parts = parts_of(line)
    if len(parts) < 3 or not parts[2].startswith(b"{"):
        return _parse_columns(line)
    key, timestamp, data = parts
    if not key:
        raise BadInput("no key before the first space", reason="no_key")
    if not is_timestamp(timestamp):
        raise BadInput(f"not 14 digits: {timestamp[:40]!r}", reason="bad_timestamp")
    return CdxjLine(key.decode("utf-8", "surrogateescape"), timestamp.decode(), parse_json_fields(data))


def _parse_columns(line: bytes, columns: Columns | None = None) -> CdxjLine:
    values = split_columns(line, columns) or {}
    key, timestamp = values.pop("urlkey", ""), values.pop("timestamp", "")
    if not key or not is_timestamp(timestamp.encode("utf-8", "surrogateescape")):
        raise BadInput(f"no JSON object in {line[:80]!r}", reason="no_json")
    return CdxjLine(key, timestamp, dict(values))


def from_columns(line: bytes, columns: Columns | None = None) -> bytes:
    """Return a line in columns as CDXJ. Raise BadInput (no_json) if it has none of the known forms."""
    return format_line(_parse_columns(line, columns))


def parse_json_fields(data: bytes) -> dict[str, Value]:
    """Parse the JSON part of a line. Raise BadInput: bad_json, too_deep."""
    try:
        return _strings.decode(data)
    except msgspec.ValidationError:
        return _mixed_fields(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{error} in {data[:80]!r}", reason="bad_json") from error


def format_line(line: CdxjLine) -> bytes:
    """Format a line as pywb and Common Crawl do: a space after each comma and colon, ASCII, with a line feed."""
    return _line(line, comma=", ", colon=": ")


def format_compact_line(line: CdxjLine) -> bytes:
    """Format a line without those spaces, about 5 % shorter; every reader of CDXJ accepts both."""
    return _line(line, comma=",", colon=":")


_strings: msgspec.json.Decoder[dict[str, Value]] = msgspec.json.Decoder(dict[str, str])
_raw = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"')
_BRACKETS = re.compile(rb"[\[\]{}]")


def _mixed_fields(data: bytes) -> dict[str, Value]:
    if _depth(data) > MAX_DEPTH:  # before decoding: the decoder recurses
        raise BadInput(f"JSON nested deeper than {MAX_DEPTH}", reason="too_deep")
    try:
        return {
            name: _string.decode(raw) if bytes(raw).startswith(b'"') else raw.copy()
            for name, raw in _raw.decode(data).items()
        }
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{error} in {data[:80]!r}", reason="bad_json") from error


def _depth(data: bytes) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", data)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _line(line: CdxjLine, *, comma: str, colon: str) -> bytes:
    members = comma.join(f"{_json(name)}{colon}{_json(value)}" for name, value in line.fields.items())
    raw = f"{line.urlkey} {line.timestamp} {{{members}}}".encode("utf-8", "surrogateescape")
    if b"\n" in raw or line.urlkey[:1] in ("", " ") or not is_timestamp(line.timestamp.encode()):
        raise BadInput(f"not a key and a timestamp: {raw[:80]!r}", reason="bad_key")
    return raw + b"\n"


def _json(value: Value) -> str:
    if isinstance(value, str):
        return _quoted(value if value.isascii() else without_surrogates(value))
    return bytes(value).decode("utf-8", "surrogateescape")
