"""letsdata's SystemFileReader: gives a reader of yours the records of one file, parsed by your parser."""

from __future__ import annotations

from typing import Any, NamedTuple

from webmill.compat.letsdata.documents import ParseDocumentResultStatus, RecordParseHint, SingleFileReaderState
from webmill.compat.letsdata.parsers import SingleFileParser, SingleFileStateMachineParser
from webmill.compat.letsdata.records import RecordScanner
from webmill.extract.own_reader import OpenFile


class _ParsedRecord(NamedTuple):
    document: Any
    record_type: str | None
    end: int


class SystemFileReader:
    """A record that the parser skips is passed over; one that it cannot read is its ErrorDoc."""

    def __init__(self, file_type: str, file: OpenFile, parser: SingleFileParser | SingleFileStateMachineParser) -> None:
        self._file_type, self._file = file_type, file
        self._parser = _ParserOf(parser)
        self._scanner = RecordScanner(file)
        self._peeked: _ParsedRecord | None = None
        self._last: _ParsedRecord = _ParsedRecord(None, None, 0)
        self._state = SingleFileReaderState.CREATED

    @property
    def position(self) -> int:
        """Return the offset behind the last record that was taken."""
        return self._last.end

    def nextRecord(self, peek: bool = False) -> Any:
        """Return the document of the next record, or None at the end of the file. With `peek` it stays the next."""
        self._peeked = self._peeked or self._parse()
        if self._peeked is None:
            self._state = SingleFileReaderState.COMPLETED
            return None
        self._state = SingleFileReaderState.PROCESSING
        found = self._peeked
        if not peek:
            self._last, self._peeked = found, None
        return found.document

    def getState(self) -> SingleFileReaderState:
        return self._state

    def getOffsetBytes(self) -> str:
        return str(self.position)

    def getFileType(self) -> str:
        return self._file_type

    def getFileName(self) -> str:
        return self._file.name

    def getLastRecordType(self) -> str | None:
        return self._last.record_type

    def _parse(self) -> _ParsedRecord | None:
        last = self._last
        while True:
            expected = self._parser.next_type(self._file_type, last.record_type)
            start, end, following = self._parser.patterns(self._file_type, expected, last.document)
            record = self._scanner.next(start, end, following=following)
            if record is None:
                return None
            result = self._parser.parse(self._file_type, self._file.name, record.offset, last, record.data)
            last = _ParsedRecord(result.getDocument(), expected, record.end)
            if ParseDocumentResultStatus(result.getStatus()) is not ParseDocumentResultStatus.SKIP:
                return last


class _ParserOf:
    """A parser of either kind: one without a state machine has records of one type."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._has_states = hasattr(parser, "getNextExpectedRecordType")

    def next_type(self, file_type: str, last: str | None) -> str | None:
        return self._parser.getNextExpectedRecordType(file_type, last) if self._has_states else None

    def patterns(
        self, file_type: str, expected: str | None, last: Any
    ) -> tuple[RecordParseHint, RecordParseHint, RecordParseHint]:
        """Return start and end of the next record, and the start of the one after it."""
        parser = self._parser
        if not self._has_states:
            start = parser.getRecordStartPattern(file_type)
            return start, parser.getRecordEndPattern(file_type), start
        after = parser.getNextExpectedRecordType(file_type, expected)
        return (
            parser.getNextRecordStartPattern(file_type, expected, last),
            parser.getNextRecordEndPattern(file_type, expected, last),
            parser.getNextRecordStartPattern(file_type, after, last),
        )

    def parse(self, file_type: str, name: str, offset: int, last: _ParsedRecord, data: bytes) -> Any:
        if not self._has_states:
            return self._parser.parseDocument(file_type, name, offset, data, 0, len(data))
        return self._parser.parseDocument(file_type, name, offset, last.record_type, last.document, data, 0, len(data))
