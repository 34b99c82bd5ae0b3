"""CDXJ lines as rows of Common Crawl's table.

Intended differences to its Java code:
* It writes -1 for a missing offset or length and drops the segment of file names that are not its own; here a line
  without its place in a WARC file is refused, and such a segment is empty.
* For a host below a TLD that is not in the Public Suffix List it leaves suffixes and domains out; here the list's own
  default rule holds (`shop.test` is a domain under `test`), as everywhere in webmill.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import MAX_LINE, parts_of
from webmill.formats.timestamps import to_datetime
from webmill.formats.url.domains import private_domain, registered_domain
from webmill.formats.url.normalise import host_of, normalise
from webmill.model import check_position

Row = tuple[object, ...]

MAX_POSITION = (1 << 31) - 1  # the table has 32 bits for offset and length


class ColumnSpec(msgspec.Struct, frozen=True):
    name: str
    type: Literal["string", "int", "short", "timestamp"] = "string"
    nullable: bool = True


def _required(name: str, type_: Literal["string", "int", "short", "timestamp"] = "string") -> ColumnSpec:
    return ColumnSpec(name, type_, nullable=False)


COLUMNS = (
    _required("url_surtkey"),
    _required("url"),
    _required("url_host_name"),
    ColumnSpec("url_host_tld"),
    ColumnSpec("url_host_2nd_last_part"),
    ColumnSpec("url_host_3rd_last_part"),
    ColumnSpec("url_host_4th_last_part"),
    ColumnSpec("url_host_5th_last_part"),
    ColumnSpec("url_host_registry_suffix"),
    ColumnSpec("url_host_registered_domain"),
    ColumnSpec("url_host_private_suffix"),
    ColumnSpec("url_host_private_domain"),
    ColumnSpec("url_host_name_reversed"),
    _required("url_protocol"),
    ColumnSpec("url_port", "int"),
    _required("url_path"),
    ColumnSpec("url_query"),
    _required("fetch_time", "timestamp"),
    _required("fetch_status", "short"),
    ColumnSpec("fetch_redirect"),
    ColumnSpec("content_digest"),
    ColumnSpec("content_mime_type"),
    ColumnSpec("content_mime_detected"),
    ColumnSpec("content_charset"),
    ColumnSpec("content_languages"),
    ColumnSpec("content_truncated"),
    _required("warc_filename"),
    _required("warc_record_offset", "int"),
    _required("warc_record_length", "int"),
    _required("warc_segment"),
)


class _TableFields(msgspec.Struct, gc=False):
    """The fields of a line that the table has. Numbers may be JSON numbers or strings."""

    url: str
    filename: str
    offset: str | int
    length: str | int
    status: str | int | None = None
    redirect: str | None = None
    digest: str | None = None
    mime: str | None = None
    mime_detected: str | None = msgspec.field(name="mime-detected", default=None)
    charset: str | None = None
    languages: str | None = None
    truncated: str | None = None


_decode = msgspec.json.Decoder(_TableFields).decode
_URL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*):/*(?:[^/?#@]*@)?(\[[^]/?#]*\]|[^:/?#]*)(?::([0-9]*))?([/][^?#]*)?(?:\?([^#]*))?(?:#.*)?",
    re.DOTALL,
)
_HOST_WITHOUT_SLASHES = ("http", "https", "dns")
_SEGMENT = re.compile(r"(?:common-crawl/)?crawl-data/[^/]+/segments/([^/]+)/")


def row_of(line: bytes) -> Row:
    """Return the row of a line.

    BadInput: line_too_long, no_json, bad_json, bad_timestamp, bad_url, bad_offset, bad_length, bad_text.
    """
    if len(line) > MAX_LINE:
        raise BadInput(f"{len(line)} bytes in a line", reason="line_too_long")
    parts = parts_of(line.rstrip(b"\r\n"))
    if len(parts) < 3:
        raise BadInput(f"no JSON object in {line[:80]!r}", reason="no_json")
    fields = _fields(parts[2])
    protocol, port, path, query, host = _split(fields.url)
    return (
        _text(parts[0]),
        fields.url,
        *_host_columns(host),
        protocol,
        port,
        path,
        query,
        to_datetime(_text(parts[1])),
        _status(fields.status),
        fields.redirect,
        fields.digest,
        fields.mime,
        fields.mime_detected,
        fields.charset,
        fields.languages,
        fields.truncated,
        fields.filename,
        _position(fields.offset, "offset"),
        _position(fields.length, "length"),
        _segment(fields.filename),
    )


def _fields(data: bytes) -> _TableFields:
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{error} in {data[:80]!r}", reason="bad_json") from error


def _split(url: str) -> tuple[str, int | None, str, str | None, str]:
    """Return protocol, port, path, query and host as written; `http:/a` and `http:////a` are read as `http://a`."""
    found = _URL.fullmatch(url)
    if not found or not (url.startswith("//", found.end(1) + 1) or found[1].lower() in _HOST_WITHOUT_SLASHES):
        raise BadInput(f"not a URL with a host: {url[:80]!r}", reason="bad_url")
    protocol, host, port, path, query = found.groups()
    if not host.isascii() or "%" in host or host[-1:].isdigit():
        host = host_of(normalise(f"http://{host}/"))  # IDNA, escapes, addresses in other spellings
    host = host.lower().removesuffix(".")
    if not host:
        raise BadInput(f"no host in {url[:80]!r}", reason="bad_url")
    return protocol.lower(), _port(port), path or "", query, host


@lru_cache(maxsize=65536)
def _host_columns(host: str) -> tuple[str | None, ...]:
    """Return the host, its last five parts, suffix and domain by registry and by private registrar, and it reversed."""
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return (host, *[None] * 10)
    parts = host.split(".")[::-1]
    last_five = [parts[place] if place < len(parts) else None for place in range(5)]
    registered, private = registered_domain(host), private_domain(host)
    return (
        host,
        *last_five,
        registered.partition(".")[2] if registered else _itself(host, registered_domain("x." + host)),
        registered,
        private.partition(".")[2] if private else _itself(host, private_domain("x." + host)),
        private,
        ".".join(parts),
    )


def _itself(host: str, below: str | None) -> str | None:
    """Return the host if it is a public suffix: then any name below it is a domain."""
    return host if below == "x." + host else None


def _port(text: str | None) -> int | None:
    if not text:
        return None
    if len(text) > 5:
        raise BadInput(f"port {text[:20]}", reason="bad_url")
    return int(text)


def _status(status: str | int | None) -> int:
    """Return the status; -1 if it is missing or not a number of 15 bits, as in Common Crawl."""
    text = str(status)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else -1


def _position(value: str | int, name: str) -> int:
    found = check_position(value, name=name)
    if found > MAX_POSITION:
        raise BadInput(f"{name} is more than 31 bits", reason=f"bad_{name}")
    return found


@lru_cache(maxsize=1024)
def _segment(filename: str) -> str:
    found = _SEGMENT.match(filename)
    return found[1] if found else ""


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"not UTF-8: {data[:80]!r}", reason="bad_text") from error
