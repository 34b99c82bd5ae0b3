"""The readers of letsdata's interfaces, to inherit from: `document.reader = "FILE.py:YourClass"`.

    SingleFileStateMachineReader     a document is made of several records of one file, which come in an order
    MultipleFileStateMachineReader   a document is made of records of several files

The methods in camel case are yours to write, with the meaning that letsdata's documentation gives them; `resolve` and
`read` are how webmill runs them. A record is found by patterns in the plain bytes of a file (`records`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from webmill.compat.letsdata.documents import (
    ParseCompositeDocumentResult,
    SingleFileReaderState,
    place_of,
    readings_of,
)
from webmill.compat.letsdata.parsers import SingleFileParser, SingleFileStateMachineParser, only_one
from webmill.compat.letsdata.system_file_reader import SystemFileReader
from webmill.errors import BadInput
from webmill.extract.own_reader import OpenFile, Reading


class SingleFileStateMachineReader:
    """Takes records from one file until they make a document. An exception fails the task: the order is lost."""

    def getS3FileType(self) -> str:
        raise NotImplementedError

    def getResolvedS3FileName(self, s3FileType: str, fileName: str) -> str:  # noqa: ARG002 - for those who override it
        return fileName

    def getReaderParserInterfacesForS3FileType(self, s3FileType: str) -> SingleFileStateMachineParser:
        raise NotImplementedError

    def parseDocument(
        self, s3FileType: str, lastProcessedRecordType: str | None, lastProcessedDoc: Any, fileReader: SystemFileReader
    ) -> ParseCompositeDocumentResult:
        raise NotImplementedError

    def resolve(self, files: Mapping[str, str]) -> Mapping[str, str]:
        file_type = self.getS3FileType()
        return {file_type: self.getResolvedS3FileName(file_type, only_one(files))}

    def read(self, files: Mapping[str, OpenFile]) -> Iterator[Reading]:
        file_type = self.getS3FileType()
        reader = SystemFileReader(file_type, only_one(files), self.getReaderParserInterfacesForS3FileType(file_type))
        last: Any = None
        while True:
            before = reader.position
            result = self.parseDocument(file_type, reader.getLastRecordType(), last, reader)
            yield from composite_readings(result, [(reader, before)])
            if is_over(result, [(reader, before)]):
                return
            last = result.getDocument()


class MultipleFileStateMachineReader:
    """Takes records from several files until they make a document. An exception fails the task."""

    def getS3FileTypes(self) -> Iterable[str]:
        raise NotImplementedError

    def getResolvedS3FileNames(self, s3FileTypeFileNameMap: Mapping[str, str]) -> Mapping[str, str]:
        return s3FileTypeFileNameMap

    def getParserInterfacesForS3FileTypes(
        self, s3FileTypes: Iterable[str]
    ) -> Mapping[str, SingleFileStateMachineParser | SingleFileParser]:
        raise NotImplementedError

    def parseDocument(
        self,
        s3FileTypeToLastProcessedRecordTypeMap: Mapping[str, str | None],
        lastProcessedDoc: Any,
        s3FileTypeToFileReaderInterfaceMap: Mapping[str, SystemFileReader],
    ) -> ParseCompositeDocumentResult:
        raise NotImplementedError

    def resolve(self, files: Mapping[str, str]) -> Mapping[str, str]:
        wanted = set(self.getS3FileTypes())
        if set(files) != wanted:
            raise BadInput(
                f"the line has the file types {', '.join(sorted(files))}, and the reader wants "
                f"{', '.join(sorted(wanted))}",
                reason="bad_manifest",
            )
        return self.getResolvedS3FileNames(files)

    def read(self, files: Mapping[str, OpenFile]) -> Iterator[Reading]:
        parsers = self.getParserInterfacesForS3FileTypes(files.keys())
        readers = {name: SystemFileReader(name, file, parsers[name]) for name, file in files.items()}
        last: Any = None
        while True:
            before = [(reader, reader.position) for reader in readers.values()]
            types = {name: reader.getLastRecordType() for name, reader in readers.items()}
            result = self.parseDocument(types, last, readers)
            yield from composite_readings(result, before)
            if is_over(result, before):
                return
            last = result.getDocument()


def composite_readings(
    result: ParseCompositeDocumentResult, before: Iterable[tuple[SystemFileReader, int]]
) -> Iterator[Reading]:
    """Yield what a result says; its place is from where each file was before to where it is now."""
    readers = [reader for reader, _ in before]
    names = {reader.getFileType(): reader.getFileName() for reader in readers}
    yield from readings_of(
        result, place=place_of(names, {reader.getFileType(): (at, reader.position) for reader, at in before})
    )


def is_over(result: ParseCompositeDocumentResult, before: Iterable[tuple[SystemFileReader, int]]) -> bool:
    """Return whether the files are read. BadInput: a reader that took nothing would never end."""
    if SingleFileReaderState(result.getFileReaderState()) is SingleFileReaderState.COMPLETED:
        return True
    if all(reader.position == at for reader, at in before):
        raise BadInput("the reader took no record, and does not say COMPLETED", reason="reader_failed")
    return False
