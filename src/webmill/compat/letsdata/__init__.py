"""For users of letsdata: its dataset.json, and its interfaces for readers of your own."""

from webmill.compat.letsdata.documents import (
    CompositeDoc,
    DocumentType,
    ErrorDoc,
    ParseCompositeDocumentResult,
    ParseDocumentResult,
    ParseDocumentResultStatus,
    RecordHintType,
    RecordParseHint,
    SingleFileReaderState,
    SkipDoc,
)
from webmill.compat.letsdata.documents import SingleDoc as Document
from webmill.compat.letsdata.file_readers import MultipleFileStateMachineReader, SingleFileStateMachineReader
from webmill.compat.letsdata.message_readers import KinesisRecordReader, QueueMessageReader
from webmill.compat.letsdata.parsers import SingleFileParser, SingleFileStateMachineParser
from webmill.compat.letsdata.system_file_reader import SystemFileReader

__all__ = [
    "CompositeDoc",
    "Document",
    "DocumentType",
    "ErrorDoc",
    "KinesisRecordReader",
    "MultipleFileStateMachineReader",
    "ParseCompositeDocumentResult",
    "ParseDocumentResult",
    "ParseDocumentResultStatus",
    "QueueMessageReader",
    "RecordHintType",
    "RecordParseHint",
    "SingleFileParser",
    "SingleFileReaderState",
    "SingleFileStateMachineParser",
    "SingleFileStateMachineReader",
    "SkipDoc",
    "SystemFileReader",
]
