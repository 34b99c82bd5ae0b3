"""The fields of a capture, read from the headers of its record and the first bytes of its block."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import msgspec

from webmill.formats.http import end_of_head
from webmill.formats.preferences.notes import PREFERENCE, read_notes, summary_of
from webmill.formats.timestamps import from_warc_date
from webmill.formats.warc import digest
from webmill.formats.warc.scan import ScannedRecord

_FIELD = re.compile(rb"\n(content-type|location|content-length)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP(?:/[0-9.]{1,4})? +([0-9]{3})(?![0-9])", re.IGNORECASE)
_DATE = re.compile(
    rb"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])Z"
)


def decode_header(value: bytes) -> str:
    """Decode a header: UTF-8, else Latin-1, as warcio does."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def url_of(target: bytes, *, is_arc: bool) -> str:
    url = decode_header(target)
    if url.startswith("<") and url.endswith(">"):  # wget before 1.20
        url = url[1:-1]
    return url if is_arc else url.replace(" ", "%20")


def is_http(url: str) -> bool:
    return url.startswith(("http:", "https:"))


def timestamp_of(date: bytes, *, is_arc: bool) -> str:
    if is_arc and len(date) >= 14 and date[:14].isdigit():
        return date[:14].decode()
    found = _DATE.fullmatch(date)
    return b"".join(found.groups()).decode() if found else from_warc_date(decode_header(date))


def http_fields(block: bytes) -> dict[bytes, bytes]:
    """Return the first value of each HTTP header that an index uses."""
    fields: dict[bytes, bytes] = {}
    for name, value in _FIELD.findall(block, 0, end_of_head(block) or len(block)):
        fields.setdefault(name.lower(), value.rstrip(b" \t"))
    return fields


def status_of(block: bytes) -> str:
    found = _STATUS.match(block)
    return found[1].decode() if found else ""


def resolve_redirect(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        return ""


def payload_digest(item: ScannedRecord, *, is_http: bool) -> str:
    start = (end_of_head(item.block) or len(item.block)) if is_http else 0
    return digest.compute(memoryview(item.block)[start:]).removeprefix("sha1:")


# --- Common Crawl's metadata record ---------------------------------------------------------------------------------


class _Language(msgspec.Struct):
    code: str = msgspec.field(name="code-iso-639-3", default="")


class _Languages(msgspec.Struct):
    languages: list[_Language] = []


_PREFERENCE = PREFERENCE.encode()
_languages = msgspec.json.Decoder(_Languages)


def parse_description(block: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    noted: list[tuple[str, str]] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == _PREFERENCE:
            noted.append((PREFERENCE, decode_header(value.strip())))
        if name == b"charset-detected":
            found["charset"] = decode_header(value.strip())
        elif name == b"languages-cld2":
            try:
                decoded = _languages.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            found["languages"] = ",".join(language.code for language in decoded.languages if language.code)
    if noted:
        found["usage"] = summary_of(read_notes(noted))
    return found
