"""The documents and results of letsdata's interfaces, with its names: what a reader written for it returns.

`getX()` and `serialize()` are all that is asked of a document, so a class of your own with these methods will do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from webmill.errors import BadInput
from webmill.extract.error_record import ErrorRecord
from webmill.extract.own_reader import MAX_MESSAGE, MadeDocument, Reading, SkippedRecord

OffsetMap = Mapping[str, str | int] | None


class DocumentType(StrEnum):
    Document = "Document"
    ErrorDoc = "ErrorDoc"
    SkipDoc = "SkipDoc"


class ParseDocumentResultStatus(StrEnum):
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    SKIP = "SKIP"


class SingleFileReaderState(StrEnum):
    CREATED = "CREATED"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"


class RecordHintType(StrEnum):
    """PATTERN: where these characters are. OFFSET: so many bytes on (of a start: from here; of an end: from the
    record's start).
    """

    OFFSET = "OFFSET"
    PATTERN = "PATTERN"


class RecordParseHint:
    def __init__(self, recordHintType: RecordHintType, pattern: str | None, offset: int = -1) -> None:
        self.recordHintType, self.pattern, self.offset = recordHintType, pattern or "", offset

    def getRecordHintType(self) -> RecordHintType:
        return self.recordHintType

    def getPattern(self) -> str:
        return self.pattern

    def getOffset(self) -> int:
        return self.offset


class SingleDoc:
    """A document: `serialize` is what is written, by default its key values as JSON."""

    def __init__(
        self,
        documentType: DocumentType,
        documentId: str | None,
        recordType: str | None,
        partitionKey: str | None,
        documentMetadata: dict[str, Any] | None = None,
        documentKeyValuesMap: dict[str, Any] | None = None,
    ) -> None:
        self.documentType, self.documentId, self.recordType = documentType, documentId, recordType
        self.partitionKey, self.documentMetadata = partitionKey, documentMetadata
        self.documentKeyValuesMap = documentKeyValuesMap

    def getDocumentType(self) -> DocumentType:
        return self.documentType

    def getDocumentId(self) -> str | None:
        return self.documentId

    def getRecordType(self) -> str | None:
        return self.recordType

    def getPartitionKey(self) -> str | None:
        return self.partitionKey

    def getDocumentMetadata(self) -> dict[str, Any] | None:
        return self.documentMetadata

    def getDocumentKeyValuesMap(self) -> dict[str, Any] | None:
        return self.documentKeyValuesMap

    def serialize(self) -> str:
        return json.dumps(self.documentKeyValuesMap or {}, ensure_ascii=False)


class ErrorDoc(SingleDoc):
    """Why there is no document. Offsets are bytes of the plain file, by file type."""

    def __init__(
        self,
        documentId: str | None,
        recordType: str | None,
        partitionKey: str | None,
        documentMetadata: dict[str, Any] | None = None,
        documentKeyValuesMap: dict[str, Any] | None = None,
        errorStartoffsetMap: OffsetMap = None,
        errorEndoffsetMap: OffsetMap = None,
        errorMessage: str | None = None,
    ) -> None:
        super().__init__(
            DocumentType.ErrorDoc, documentId, recordType, partitionKey, documentMetadata, documentKeyValuesMap
        )
        self.errorStartoffsetMap, self.errorEndoffsetMap = errorStartoffsetMap, errorEndoffsetMap
        self.errorMessage = errorMessage

    def getErrorStartOffsetMap(self) -> OffsetMap:
        return self.errorStartoffsetMap

    def getErrorEndOffsetMap(self) -> OffsetMap:
        return self.errorEndoffsetMap

    def getErrorMessage(self) -> str | None:
        return self.errorMessage


class SkipDoc(ErrorDoc):
    """The record is of no interest: nothing is written, and it is counted."""

    def __init__(
        self,
        documentId: str | None,
        recordType: str | None,
        partitionKey: str | None,
        documentMetadata: dict[str, Any] | None = None,
        documentKeyValuesMap: dict[str, Any] | None = None,
        errorStartoffsetMap: OffsetMap = None,
        errorEndoffsetMap: OffsetMap = None,
        skipMessage: str | None = None,
    ) -> None:
        super().__init__(
            documentId,
            recordType,
            partitionKey,
            documentMetadata,
            documentKeyValuesMap,
            errorStartoffsetMap,
            errorEndoffsetMap,
            skipMessage,
        )
        self.documentType = DocumentType.SkipDoc

    def getSkipMessage(self) -> str | None:
        return self.errorMessage


class CompositeDoc:
    """A document that was made of several records, with the errors of those that could not be read."""

    def __init__(self, document: SingleDoc | None, errors: Sequence[ErrorDoc] = ()) -> None:
        self.document, self.errors = document, errors

    def getDocumentList(self) -> tuple[SingleDoc | None, Sequence[ErrorDoc]]:
        return self.document, self.errors


class ParseDocumentResult:
    def __init__(self, nextRecordType: str | None, document: Any, status: ParseDocumentResultStatus) -> None:
        self.nextRecordType, self.document, self.status = nextRecordType, document, status

    def getNextRecordType(self) -> str | None:
        return self.nextRecordType

    def getDocument(self) -> Any:
        return self.document

    def getStatus(self) -> ParseDocumentResultStatus:
        return self.status


class ParseCompositeDocumentResult:
    """`s3FileTypeOffsets` is where the reader is in each file; webmill itself counts answers, and needs no offsets."""

    def __init__(
        self,
        s3FileTypeNextRecordTypeMap: Mapping[str, str | None] | None,
        document: Any,
        s3FileTypeLastProcessedRecordType: Mapping[str, str | None] | None,
        s3FileTypeOffsets: Mapping[str, str] | None,
        fileReaderState: SingleFileReaderState,
        parseDocumentResultStatus: ParseDocumentResultStatus,
    ) -> None:
        self.s3FileTypeNextRecordTypeMap, self.document = s3FileTypeNextRecordTypeMap, document
        self.s3FileTypeLastProcessedRecordType = s3FileTypeLastProcessedRecordType
        self.s3FileTypeOffsets, self.fileReaderState = s3FileTypeOffsets, fileReaderState
        self.parseDocumentResultStatus = parseDocumentResultStatus

    def getDocument(self) -> Any:
        return self.document

    def getFileReaderState(self) -> SingleFileReaderState:
        return self.fileReaderState

    def getStatus(self) -> ParseDocumentResultStatus:
        return self.parseDocumentResultStatus


# --- what webmill makes of them ---------------------------------------------------------------------------------------


def readings_of(result: ParseDocumentResult | ParseCompositeDocumentResult, *, place: ErrorRecord) -> Iterator[Reading]:
    """Yield what a result says; `place` is the error record of the bytes that it was made of."""
    document, errors = parts_of(result.getDocument())
    status = ParseDocumentResultStatus(result.getStatus())
    yield from (error_record(error, place=place) for error in errors)
    if status is ParseDocumentResultStatus.SKIP or kind_of(document) is DocumentType.SkipDoc:
        yield SkippedRecord(message_of(document))
    elif status is ParseDocumentResultStatus.ERROR or kind_of(document) is DocumentType.ErrorDoc:
        if document is not None or not errors:
            yield error_record(document, place=place)
    elif document is not None:
        yield made_document(document, place=place)


def parts_of(document: Any) -> tuple[Any, Sequence[Any]]:
    """Return a document and the errors that a composite one brings along."""
    return document.getDocumentList() if hasattr(document, "getDocumentList") else (document, ())


def kind_of(document: Any) -> DocumentType:
    return DocumentType(document.getDocumentType()) if hasattr(document, "getDocumentType") else DocumentType.Document


def message_of(document: Any) -> str:
    for name in ("getSkipMessage", "getErrorMessage"):
        if hasattr(document, name):
            return str(getattr(document, name)() or "")
    return ""


def made_document(document: Any, *, place: ErrorRecord) -> Reading:
    """Return the document as a line of JSON; an error record if its text is not JSON."""
    try:
        line = msgspec.json.encode(msgspec.json.decode(document.serialize()))  # one line, whatever its layout
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return msgspec.structs.replace(place, reason="bad_json", error_message=f"serialize() is not JSON: {error}")
    return MadeDocument(document.getPartitionKey() or document.getDocumentId() or place.document_id, line)


def error_record(document: Any, *, place: ErrorRecord) -> ErrorRecord:
    """Return the error of a document; what it does not say is that of its place."""
    if kind_of(document) is DocumentType.Document:
        return place
    return msgspec.structs.replace(
        place,
        document_id=document.getDocumentId() or place.document_id,
        record_type=document.getRecordType() or place.record_type,
        partition_key=document.getPartitionKey() or place.partition_key,
        error_message=message_of(document)[:MAX_MESSAGE],
        start_offset=offsets_of(document.getErrorStartOffsetMap()) or place.start_offset,
        end_offset=offsets_of(document.getErrorEndOffsetMap()) or place.end_offset,
    )


def offsets_of(given: OffsetMap) -> dict[str, int]:
    try:
        return {name: int(offset) for name, offset in (given or {}).items()}
    except ValueError as error:
        raise BadInput(f"an offset is not a number of bytes: {given}", reason="bad_offset") from error


def place_of(
    names: Mapping[str, str], ranges: Mapping[str, tuple[int, int]], message: str = "the reader says ERROR"
) -> ErrorRecord:
    """Return the error record of bytes of files, where a reader says no more of them."""
    file_type, (start, _) = next(iter(ranges.items()))
    name = f"{names[file_type]}#{start}"
    return ErrorRecord(
        document_id=name,
        record_type="DOCUMENT_ERROR",
        partition_key=name,
        reason="reader_failed",
        error_message=message[:MAX_MESSAGE],
        files=dict(names),
        start_offset={name: start for name, (start, _) in ranges.items()},
        end_offset={name: end for name, (_, end) in ranges.items()},
    )
