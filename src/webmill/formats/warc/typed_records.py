"""Typed records: one struct per type of WARC record, and one for the metadata records of WAT files.

Known header fields are attributes; all fields, known or not, are in `fields`. A record is stored at the bytes
`[offset, offset + length)` of its file. Blocks are decoded on access, which raises BadInput for an invalid block.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

from webmill.formats.warc import wet
from webmill.formats.warc.fields import HasFields, HeaderField, MetadataFields, WarcinfoFields, parse_warc_fields
from webmill.formats.warc.http_records import HttpRequest, HttpResponse, read_request, read_response
from webmill.formats.warc.wat import WatDescription, read_wat
from webmill.model import Record


class FileType(StrEnum):
    WARC = "WARC"
    WAT = "WAT"
    WET = "WET"


class TypedRecord(HasFields, frozen=True, dict=True):
    """What all types of records have in common."""

    record: Record
    file_type: FileType

    date = HeaderField("WARC-Date")
    content_type = HeaderField("Content-Type")
    warcinfo_id = HeaderField("WARC-Warcinfo-ID")
    concurrent_to = HeaderField("WARC-Concurrent-To")
    refers_to = HeaderField("WARC-Refers-To")
    ip_address = HeaderField("WARC-IP-Address")
    block_digest = HeaderField("WARC-Block-Digest")
    payload_digest = HeaderField("WARC-Payload-Digest")
    identified_payload_type = HeaderField("WARC-Identified-Payload-Type")
    truncated = HeaderField("WARC-Truncated")
    filename = HeaderField("WARC-Filename")
    segment_number = HeaderField("WARC-Segment-Number")

    @cached_property
    def document_kind(self) -> str:
        """The kind of the record: WARC_HTTP_RESPONSE_PAYLOAD, WET_CONVERSION_PAYLOAD..."""
        name = (self.record.type or "unknown").upper()
        if self.file_type is FileType.WARC and name in ("REQUEST", "RESPONSE"):
            name = f"HTTP_{name}"
        return f"{self.file_type}_{name}_PAYLOAD"

    @property
    def record_id(self) -> str | None:
        return self.record.record_id

    @property
    def target_uri(self) -> str | None:
        return self.record.target_uri

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def length(self) -> int:
        return self.record.length

    @property
    def content(self) -> bytes:
        return self.record.content

    @property
    def protocols(self) -> list[str]:
        return self.fields.get_all("WARC-Protocol")

    @property
    def cipher_suites(self) -> list[str]:
        return self.fields.get_all("WARC-Cipher-Suite")


class WarcinfoRecord(TypedRecord, frozen=True, dict=True):
    @cached_property
    def info(self) -> WarcinfoFields:
        return WarcinfoFields(parse_warc_fields(self.content))


class RequestRecord(TypedRecord, frozen=True, dict=True):
    @cached_property
    def http(self) -> HttpRequest:
        return read_request(self.content)


class ResponseRecord(TypedRecord, frozen=True, dict=True):
    """A response. `http` of a record with other content (DNS) has no head and everything in its body."""

    @cached_property
    def http(self) -> HttpResponse:
        return read_response(self.content)


class ResourceRecord(TypedRecord, frozen=True, dict=True):
    """A resource, whose content is the payload."""


class MetadataRecord(TypedRecord, frozen=True, dict=True):
    @cached_property
    def findings(self) -> MetadataFields:
        return MetadataFields(parse_warc_fields(self.content))


class RevisitRecord(TypedRecord, frozen=True, dict=True):
    """The capture of an unchanged page; `http` has the new head and no body."""

    profile = HeaderField("WARC-Profile")
    refers_to_target_uri = HeaderField("WARC-Refers-To-Target-URI")
    refers_to_date = HeaderField("WARC-Refers-To-Date")

    @cached_property
    def http(self) -> HttpResponse:
        return read_response(self.content)


class ConversionRecord(TypedRecord, frozen=True, dict=True):
    @cached_property
    def text(self) -> str:
        return wet.read_text(self.record)

    @property
    def languages(self) -> tuple[str, ...]:
        return wet.header_languages(self.record)


class ContinuationRecord(TypedRecord, frozen=True, dict=True):
    segment_origin_id = HeaderField("WARC-Segment-Origin-ID")
    segment_total_length = HeaderField("WARC-Segment-Total-Length")


class WatRecord(TypedRecord, frozen=True, dict=True):
    """A WAT file's description of one record of the WARC file."""

    @cached_property
    def description(self) -> WatDescription:
        return read_wat(self.content)

    @cached_property
    def document_kind(self) -> str:
        """The kind of the described record: WAT_METADATA_WARC_REQUEST_PAYLOAD..."""
        return f"WAT_METADATA_WARC_{(self.description.type or 'unknown').upper()}_PAYLOAD"


class UnknownRecord(TypedRecord, frozen=True, dict=True):
    """A record of a type that the standard does not define, but tells readers to keep."""


_TYPES: dict[str, type[TypedRecord]] = {
    "warcinfo": WarcinfoRecord,
    "arc_header": WarcinfoRecord,
    "request": RequestRecord,
    "response": ResponseRecord,
    "resource": ResourceRecord,
    "metadata": MetadataRecord,
    "revisit": RevisitRecord,
    "conversion": ConversionRecord,
    "continuation": ContinuationRecord,
}


def read_typed_record(record: Record, *, file_type: FileType = FileType.WARC) -> TypedRecord:
    """Return the record as the struct of its type."""
    kind = _TYPES.get(record.type or "", UnknownRecord)
    if file_type is FileType.WAT and kind is MetadataRecord:
        kind = WatRecord
    return kind(record.headers, record, file_type)
