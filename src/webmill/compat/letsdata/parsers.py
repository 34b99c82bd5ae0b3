"""The parsers of letsdata's interfaces, to inherit from: they say what a record of a file is.

SingleFileParser               each record is a document: it is a reader, too
SingleFileStateMachineParser   records come in an order, for a reader that makes a document of several
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from webmill.compat.letsdata.documents import ParseDocumentResult, RecordParseHint, place_of, readings_of
from webmill.compat.letsdata.records import RecordScanner
from webmill.errors import BadInput
from webmill.extract.own_reader import OpenFile, Reading


class SingleFileParser:
    """Every record of a file, from its start pattern to its end pattern, is a document, an error or skipped.

    It keeps no state: an exception in `parseDocument` is the error of that record, and the next one is read.
    """

    def getS3FileType(self) -> str:
        raise NotImplementedError

    def getResolvedS3FileName(self, s3FileType: str, fileName: str) -> str:  # noqa: ARG002 - for those who override it
        return fileName

    def getRecordStartPattern(self, s3FileType: str) -> RecordParseHint:
        raise NotImplementedError

    def getRecordEndPattern(self, s3FileType: str) -> RecordParseHint:
        raise NotImplementedError

    def parseDocument(
        self, s3FileType: str, s3Filename: str, offsetBytes: int, byteArr: bytes, startIndex: int, endIndex: int
    ) -> ParseDocumentResult:
        raise NotImplementedError

    def resolve(self, files: Mapping[str, str]) -> Mapping[str, str]:
        file_type = self.getS3FileType()
        return {file_type: self.getResolvedS3FileName(file_type, only_one(files))}

    def read(self, files: Mapping[str, OpenFile]) -> Iterator[Reading]:
        file_type, file = self.getS3FileType(), only_one(files)
        start, end = self.getRecordStartPattern(file_type), self.getRecordEndPattern(file_type)
        scanner = RecordScanner(file)
        while record := scanner.next(start, end, following=start):
            data, offset = record.data, record.offset
            place = place_of({file_type: file.name}, {file_type: (offset, record.end)})
            try:
                result = self.parseDocument(file_type, file.name, offset, data, 0, len(data))
            except Exception as error:  # noqa: BLE001 - a record that breaks the parser costs that record only
                yield place_of(
                    {file_type: file.name}, {file_type: (offset, record.end)}, f"{type(error).__name__}: {error}"
                )
                continue
            yield from readings_of(result, place=place)


class SingleFileStateMachineParser:
    """The records of one file, in an order that `getNextExpectedRecordType` tells: a part of the two readers below."""

    def getS3FileType(self) -> str:
        raise NotImplementedError

    def getResolvedS3FileName(self, s3FileType: str, fileName: str) -> str:  # noqa: ARG002 - for those who override it
        return fileName

    def getNextExpectedRecordType(self, s3FileType: str, lastProcessedRecordType: str | None) -> str:
        raise NotImplementedError

    def getNextRecordStartPattern(
        self, s3FileType: str, nextExpectedRecordType: str, lastProcessedDoc: Any
    ) -> RecordParseHint:
        raise NotImplementedError

    def getNextRecordEndPattern(
        self, s3FileType: str, nextExpectedRecordType: str, lastProcessedDoc: Any
    ) -> RecordParseHint:
        raise NotImplementedError

    def parseDocument(
        self,
        s3FileType: str,
        s3Filename: str,
        offsetBytes: int,
        lastProcessedRecordType: str | None,
        lastProcessedDoc: Any,
        byteArr: bytes,
        startIndex: int,
        endIndex: int,
    ) -> ParseDocumentResult:
        raise NotImplementedError


def only_one(files: Mapping[str, Any]) -> Any:
    """Return the only file of a task. BadInput: there are several."""
    if len(files) != 1:
        raise BadInput(f"one file is read, and the line has {', '.join(files)}", reason="bad_manifest")
    return next(iter(files.values()))
