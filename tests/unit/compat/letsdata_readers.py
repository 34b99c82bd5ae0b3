"""Readers as a user of letsdata writes them: of a log, of a file with two kinds of records, of two files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from webmill.compat.letsdata import (
    CompositeDoc,
    Document,
    DocumentType,
    ErrorDoc,
    KinesisRecordReader,
    MultipleFileStateMachineReader,
    ParseCompositeDocumentResult,
    ParseDocumentResult,
    ParseDocumentResultStatus,
    QueueMessageReader,
    RecordHintType,
    RecordParseHint,
    SingleFileParser,
    SingleFileReaderState,
    SingleFileStateMachineParser,
    SingleFileStateMachineReader,
    SkipDoc,
    SystemFileReader,
)

SUCCESS, ERROR, SKIP = ParseDocumentResultStatus


def pattern(text: str) -> RecordParseHint:
    return RecordParseHint(RecordHintType.PATTERN, text, -1)


def made(values: dict[str, Any]) -> Document:
    return Document(DocumentType.Document, str(values["ts"]), "LOG", str(values["ts"]), {}, values)


class ErrorLogParser(SingleFileParser):
    """The example of letsdata's documentation: errors of a log are documents, other lines are skipped."""

    def getS3FileType(self) -> str:
        return "LOGFILE"

    def getResolvedS3FileName(self, s3FileType: str, fileName: str) -> str:
        return f"logs/{fileName}"

    def getRecordStartPattern(self, s3FileType: str) -> RecordParseHint:
        return pattern('{"ts"')

    def getRecordEndPattern(self, s3FileType: str) -> RecordParseHint:
        return pattern("}\n")

    def parseDocument(
        self, s3FileType: str, s3Filename: str, offsetBytes: int, byteArr: bytes, startIndex: int, endIndex: int
    ) -> ParseDocumentResult:
        record = bytes(byteArr[startIndex:endIndex])
        if b'"lvl":"BROKEN"' in record:
            raise ValueError("broken line")
        if b'"lvl":"ERROR"' not in record:
            skipped = SkipDoc(None, None, s3Filename, None, None, None, None, "level is not ERROR")
            return ParseDocumentResult(None, skipped, SKIP)
        try:
            return ParseDocumentResult(None, made(json.loads(record)), SUCCESS)
        except json.JSONDecodeError as error:
            start, end = {s3FileType: str(offsetBytes)}, {s3FileType: str(offsetBytes + endIndex)}
            wrong = ErrorDoc(None, None, s3Filename, None, None, start, end, f"no JSON: {error}")
            return ParseDocumentResult(None, wrong, ERROR)


class PairParser(SingleFileStateMachineParser):
    """META and DATA in turn: `META a` and `DATA 1`, each on a line."""

    def getS3FileType(self) -> str:
        return "DATAFILE"

    def getNextExpectedRecordType(self, s3FileType: str, lastProcessedRecordType: str | None) -> str:
        return "DATA" if lastProcessedRecordType == "META" else "META"

    def getNextRecordStartPattern(
        self, s3FileType: str, nextExpectedRecordType: str, lastProcessedDoc: Any
    ) -> RecordParseHint:
        return pattern(f"{nextExpectedRecordType} ")

    def getNextRecordEndPattern(
        self, s3FileType: str, nextExpectedRecordType: str, lastProcessedDoc: Any
    ) -> RecordParseHint:
        return pattern(f"{self.getNextExpectedRecordType(s3FileType, nextExpectedRecordType)} ")

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
        kind = self.getNextExpectedRecordType(s3FileType, lastProcessedRecordType)
        word = bytes(byteArr[startIndex:endIndex]).decode().split()[1]
        after = self.getNextExpectedRecordType(s3FileType, kind)
        if word == "?":
            return ParseDocumentResult(after, ErrorDoc(None, kind, None, errorMessage=f"no {kind}"), ERROR)
        return ParseDocumentResult(after, Document(DocumentType.Document, word, kind, word, {}, {kind: word}), SUCCESS)


def joined(records: Iterable[Any]) -> CompositeDoc:
    """One document of several, with the errors of those that are none."""
    values: dict[str, Any] = {}
    errors = []
    for record in records:
        if isinstance(record, ErrorDoc):
            errors.append(record)
        else:
            values |= record.getDocumentKeyValuesMap()
    key = "-".join(values.values())
    return CompositeDoc(Document(DocumentType.Document, key, "PAIR", key, {}, values) if not errors else None, errors)


def result_of(document: CompositeDoc | None, readers: Iterable[SystemFileReader]) -> ParseCompositeDocumentResult:
    readers = [*readers]
    types = {reader.getFileType(): reader.getLastRecordType() for reader in readers}
    offsets = {reader.getFileType(): reader.getOffsetBytes() for reader in readers}
    state = SingleFileReaderState.COMPLETED if document is None else SingleFileReaderState.PROCESSING
    status = ERROR if document and document.errors else SUCCESS
    return ParseCompositeDocumentResult(None, document, types, offsets, state, status)


class PairReader(SingleFileStateMachineReader):
    def getS3FileType(self) -> str:
        return "DATAFILE"

    def getReaderParserInterfacesForS3FileType(self, s3FileType: str) -> SingleFileStateMachineParser:
        return PairParser()

    def parseDocument(
        self, s3FileType: str, lastProcessedRecordType: str | None, lastProcessedDoc: Any, fileReader: SystemFileReader
    ) -> ParseCompositeDocumentResult:
        meta = fileReader.nextRecord()
        if meta is None:
            assert fileReader.getState() is SingleFileReaderState.COMPLETED
            return result_of(None, [fileReader])
        return result_of(joined([meta, fileReader.nextRecord()]), [fileReader])


class TwoFilesReader(MultipleFileStateMachineReader):
    """A line of METADATALOG and the line of DATALOG that it belongs to."""

    def getS3FileTypes(self) -> Iterable[str]:
        return {"METADATALOG", "DATALOG"}

    def getResolvedS3FileNames(self, s3FileTypeFileNameMap: Mapping[str, str]) -> Mapping[str, str]:
        """The data files are beside the folder of the metadata: June/metadata/x -> June/data/x."""
        data = s3FileTypeFileNameMap["METADATALOG"].replace("/metadata/", "/data/")
        return {**s3FileTypeFileNameMap, "DATALOG": data}

    def getParserInterfacesForS3FileTypes(self, s3FileTypes: Iterable[str]) -> dict[str, SingleFileParser]:
        return {name: LineParser(name) for name in s3FileTypes}

    def parseDocument(
        self,
        s3FileTypeToLastProcessedRecordTypeMap: Mapping[str, str | None],
        lastProcessedDoc: Any,
        s3FileTypeToFileReaderInterfaceMap: Mapping[str, SystemFileReader],
    ) -> ParseCompositeDocumentResult:
        readers = s3FileTypeToFileReaderInterfaceMap
        if readers["METADATALOG"].nextRecord(peek=True) is None:
            return result_of(None, readers.values())
        records = [readers[name].nextRecord() for name in ("METADATALOG", "DATALOG")]
        return result_of(joined(records), readers.values())


class LineParser(SingleFileParser):
    def __init__(self, name: str) -> None:
        self.name = name

    def getRecordStartPattern(self, s3FileType: str) -> RecordParseHint:
        return RecordParseHint(RecordHintType.OFFSET, None, 0)

    def getRecordEndPattern(self, s3FileType: str) -> RecordParseHint:
        return pattern("\n")

    def parseDocument(
        self, s3FileType: str, s3Filename: str, offsetBytes: int, byteArr: bytes, startIndex: int, endIndex: int
    ) -> ParseDocumentResult:
        word = bytes(byteArr[startIndex:endIndex]).decode().strip()
        return ParseDocumentResult(
            None, Document(DocumentType.Document, word, None, word, {}, {self.name: word}), SUCCESS
        )


class UpperCaseMessages(QueueMessageReader):
    def parseMessage(
        self,
        messageId: str,
        messageGroupId: str,
        messageDeduplicationId: str,
        messageAttributes: Mapping[str, str],
        messageBody: str,
    ) -> ParseDocumentResult:
        if messageBody == "not this":
            return ParseDocumentResult(None, SkipDoc(messageId, None, None, skipMessage="not wanted"), SKIP)
        if not messageBody.isalnum():
            return ParseDocumentResult(None, ErrorDoc(messageId, None, None, errorMessage="no word"), ERROR)
        values = {"word": messageBody.upper(), "color": messageAttributes.get("color", "")}
        return ParseDocumentResult(
            None, Document(DocumentType.Document, messageId, "WORD", messageBody, {}, values), SUCCESS
        )


class UpperCaseRecords(KinesisRecordReader):
    def parseMessage(
        self,
        streamArn: str,
        shardId: str,
        partitionKey: str,
        sequenceNumber: str,
        approximateArrivalTimestamp: int,
        data: bytes,
    ) -> ParseDocumentResult:
        values = {"word": data.decode().upper(), "key": partitionKey, "at": sequenceNumber}
        assert approximateArrivalTimestamp > 1_600_000_000_000
        assert shardId.startswith("shardId-")
        return ParseDocumentResult(
            None, Document(DocumentType.Document, sequenceNumber, "WORD", partitionKey, {}, values), SUCCESS
        )
