"""`application/warc-fields`: the blocks of warcinfo and metadata records, lines of `name: value`.

Parsed leniently: lines may end in LF alone and be folded; a line without a colon is kept under an empty name. Known
names are attributes; all fields are in `fields`.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from webmill.errors import BadInput
from webmill.formats.languages import DetectedLanguages, parse_cld2
from webmill.model import Headers


def parse_warc_fields(block: bytes) -> Headers:
    """Parse a block of `name: value` lines."""
    fields: list[tuple[str, list[str]]] = []
    for line in block.decode("utf-8", "surrogateescape").split("\n"):
        line = line.rstrip("\r")
        if line[:1] in (" ", "\t") and fields:
            fields[-1][1].append(line.strip())
            continue
        name, colon, value = line.partition(":")
        if colon:
            fields.append((name.strip(), [value.strip()]))
        elif line:
            fields.append(("", [line]))
    return Headers((name, _unfold(parts)) for name, parts in fields)


def _unfold(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else " ".join(filter(None, parts)).strip()


class HeaderField:
    """A header field as an attribute: its first value, or None."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, holder: HasFields, owner: type | None = None) -> str | None:
        return holder.fields.get(self._name)


class HasFields(msgspec.Struct, frozen=True, dict=True):
    """A base for structs with header fields as attributes."""

    fields: Headers


class WarcinfoFields(HasFields, frozen=True, dict=True):
    """The fields of a warcinfo record, about a crawl (WARC) or an extraction (WAT, WET)."""

    is_part_of = HeaderField("isPartOf")
    publisher = HeaderField("publisher")
    description = HeaderField("description")
    operator = HeaderField("operator")
    hostname = HeaderField("hostname")
    ip = HeaderField("ip")
    software = HeaderField("software")
    robots = HeaderField("robots")
    format = HeaderField("format")
    conforms_to = HeaderField("conformsTo")
    software_info = HeaderField("Software-Info")
    extracted_date = HeaderField("Extracted-Date")


class MetadataFields(HasFields, frozen=True, dict=True):
    """The fields of a metadata record: what a crawler noted about a page. All are optional."""

    charset = HeaderField("charset-detected")
    rendered = HeaderField("rendered")  # the record of the document that scripts made of the page

    @property
    def fetch_time_ms(self) -> int | None:
        value = self.fields.get("fetchTimeMs") or ""
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None

    @cached_property
    def languages(self) -> DetectedLanguages | None:
        """The detected languages; None if the JSON is invalid, which is still in `fields`."""
        text = self.fields.get("languages-cld2")
        try:
            return parse_cld2(text) if text else None
        except BadInput:
            return None
