"""The seam of readers of your own: `document.reader = "FILE.py:ClassName"` of a dataset, in place of our reading.

A reader of files is given the files of one line of the manifest, decompressed, and yields what it makes of them, record
by record. A reader of messages is given one message of a queue or stream. For each, the answer is one of three:

    MadeDocument    a line of the output
    SkippedRecord   nothing to write: it is counted
    ErrorRecord     kept among the errors, with its reason and byte ranges

The same files must give the same answers, whoever reads them and however often: a task that was killed reads its files
again and goes on behind the last answer that is durable. `webmill.compat.letsdata` has classes to inherit from, with
the methods of letsdata's interfaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from webmill.errors import Misconfigured
from webmill.extract.error_record import ErrorRecord
from webmill.infra.custom_function import CustomFunction, load_function
from webmill.infra.sources.base import SourceMessage

MAX_MESSAGE = 1000  # characters of an error's


class MadeDocument(msgspec.Struct, frozen=True):
    """A document as JSON. `document_id` decides where a stream puts it (the partition key)."""

    document_id: str
    line: bytes


class SkippedRecord(msgspec.Struct, frozen=True):
    """A record of which no document is wanted, and why."""

    message: str = ""


Reading = MadeDocument | SkippedRecord | ErrorRecord


class OpenFile(Protocol):
    """A file that is read from its beginning, decompressed."""

    @property
    def name(self) -> str: ...
    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end of the file."""


class FileReader(Protocol):
    def resolve(self, files: Mapping[str, str]) -> Mapping[str, str]:
        """Return the paths to open by file type, from those in the manifest."""

    def read(self, files: Mapping[str, OpenFile]) -> Iterator[Reading]: ...


class MessageReader(Protocol):
    def read_message(self, message: SourceMessage) -> Reading: ...


class JsonMessageReader:
    """A message is the document: a JSON object, written as it is."""

    def read_message(self, message: SourceMessage) -> Reading:
        try:
            document = msgspec.json.decode(message.body, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return message_error(message, f"not a JSON object: {error}", reason="bad_json")
        named = document.get("id") or document.get("documentId")
        line = msgspec.json.encode(document)  # one line, whatever the layout of the message
        return MadeDocument(named if isinstance(named, str) else message.id, line)


def message_error(message: SourceMessage, text: str, *, reason: str) -> ErrorRecord:
    """Return the error of a message that no document could be made of."""
    return ErrorRecord(
        document_id=message.id,
        record_type="DOCUMENT_ERROR",
        partition_key=message.key or message.id,
        reason=reason,
        error_message=text[:MAX_MESSAGE],
        record_id=message.id,
        files={"SOURCE": message.source, **({"SHARD": message.shard} if message.position else {})},
    )


def load_file_reader(named: CustomFunction) -> FileReader:
    """Return a new reader. Misconfigured: the class cannot be loaded, or reads no files."""
    reader: FileReader = _instance(named)
    if not (hasattr(reader, "read") and hasattr(reader, "resolve")):
        raise Misconfigured(f"{named.name} reads no files: it needs the methods resolve and read ({_BASES})")
    return reader


def load_message_reader(named: CustomFunction | None) -> MessageReader:
    """Return a new reader; None: messages are documents. Misconfigured: the class cannot be loaded, or reads none."""
    if named is None:
        return JsonMessageReader()
    reader: MessageReader = _instance(named)
    if not hasattr(reader, "read_message"):
        raise Misconfigured(f"{named.name} reads no messages: it needs the method read_message ({_BASES})")
    return reader


_BASES = "webmill.compat.letsdata has classes to inherit from"


def _instance(named: CustomFunction) -> Any:
    try:
        return load_function(named)()  # type: ignore[call-arg]  # a class without arguments
    except TypeError as error:
        raise Misconfigured(f"{named.name} cannot be made without arguments: {error}") from error
