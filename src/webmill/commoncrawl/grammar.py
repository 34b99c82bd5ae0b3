"""The order of records in Common Crawl's files and their mandatory fields, to report what is unusual.

    WARC  warcinfo, then per page: request, response or revisit, metadata
    WAT   warcinfo, a description of the WARC file's warcinfo, then per page: of its request, response, metadata
    WET   warcinfo, then one conversion per page that has text

Nothing else depends on it: after a finding, the next record is checked against what may follow the one found. A page
may lack its request or metadata; that is only a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from webmill.commoncrawl.lost_records import LostRecord, read_with_losses
from webmill.commoncrawl.page import ErrorDocument, Flaw
from webmill.errors import BadInput
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.typed_records import FileType, TypedRecord, WatRecord, read_typed_record
from webmill.formats.window import ByteSource

# the previous record -> what may follow it; "" is the start of the file
_AFTER: dict[FileType, dict[str, tuple[str, ...]]] = {
    FileType.WARC: {
        "": ("warcinfo",),
        "warcinfo": ("request",),
        "request": ("response", "revisit"),
        "response": ("metadata",),
        "revisit": ("metadata", "request"),  # metadata only since the end of 2024
        "metadata": ("request",),
    },
    FileType.WAT: {
        "": ("warcinfo",),
        "warcinfo": ("metadata of warcinfo",),
        "metadata of warcinfo": ("metadata of request",),
        "metadata of request": ("metadata of response", "metadata of revisit"),
        "metadata of response": ("metadata of metadata",),
        "metadata of revisit": ("metadata of metadata", "metadata of request"),
        "metadata of metadata": ("metadata of request",),
    },
    FileType.WET: {"": ("warcinfo",), "warcinfo": ("conversion",), "conversion": ("conversion",)},
}
_ANY_PAGE = {FileType.WARC: ("request",), FileType.WAT: ("metadata of request",), FileType.WET: ("conversion",)}
DEFAULT = WarcLimits()
_MANDATORY = ("WARC-Record-ID", "WARC-Date", "Content-Type")
_OF_A_PAGE = {
    FileType.WARC: ("WARC-Target-URI",),
    FileType.WAT: ("WARC-Target-URI", "WARC-Refers-To"),
    FileType.WET: ("WARC-Target-URI", "WARC-Refers-To"),
}


class OrderFinding(msgspec.Struct, frozen=True):
    """At `offset`, something other than the expected was found."""

    file_type: FileType
    offset: int
    expected: tuple[str, ...]
    found: str


def check_file(source: ByteSource, *, file_type: FileType, start: int = 0) -> Iterator[OrderFinding]:
    """Yield what is unusual in a file. One that is read from the middle begins with a finding."""
    return check_documents(read_documents(source, file_type=file_type, start=start), file_type=file_type)


def read_documents(
    source: ByteSource, *, file_type: FileType, start: int = 0, limits: WarcLimits = DEFAULT
) -> Iterator[TypedRecord | ErrorDocument]:
    """Yield the typed records of one file, and error documents for damage."""
    for item in read_with_losses(source, start=start, limits=limits):
        yield _error(item, file_type) if isinstance(item, LostRecord) else read_typed_record(item, file_type=file_type)


def _error(lost: LostRecord, file_type: FileType) -> ErrorDocument:
    damage = lost.damage
    return ErrorDocument(
        flaws=(Flaw(file_type, damage.offset, damage.end, damage.reason, damage.message),),
        target_uri=lost.headers.get("WARC-Target-URI"),
        record_id=lost.headers.get("WARC-Record-ID"),
        offsets={file_type: (damage.offset, damage.end)},
        resume={file_type: damage.end},
    )


def check_documents(documents: Iterable[TypedRecord | ErrorDocument], *, file_type: FileType) -> Iterator[OrderFinding]:
    before, end = "", 0
    for document in documents:
        name = _name(document)
        offset = document.start if isinstance(document, ErrorDocument) else document.offset
        end = document.end if isinstance(document, ErrorDocument) else offset + document.length
        expected = _AFTER[file_type].get(before, _ANY_PAGE[file_type])
        if name not in expected:
            yield OrderFinding(file_type, offset, expected, name)
        if isinstance(document, TypedRecord):
            yield from _missing_fields(document)
        before = name
    if not before:
        yield OrderFinding(file_type, end, ("warcinfo",), "the end of the file")


def _name(document: TypedRecord | ErrorDocument) -> str:
    if isinstance(document, ErrorDocument):
        return f"damage: {document.reason}"
    if isinstance(document, WatRecord):
        try:
            return f"metadata of {document.description.type}"
        except BadInput as error:
            return f"damage: {error.reason}"
    return document.record.type or "a record without a type"


def _missing_fields(document: TypedRecord) -> Iterator[OrderFinding]:
    others = ("WARC-Filename",) if document.record.type == "warcinfo" else _OF_A_PAGE[document.file_type]
    for name in (*_MANDATORY, *others):
        if not document.fields.get(name):
            yield OrderFinding(document.file_type, document.offset, (name,), f"a {document.record.type} without it")
