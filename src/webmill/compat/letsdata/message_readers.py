"""The readers of messages of letsdata's interfaces, to inherit from: `document.reader = "FILE.py:YourClass"`.

QueueMessageReader          a message of SQS
KinesisRecordReader         a record of Kinesis
IndexRecordMessageReader    what both of letsdata-common-crawl do: the message is an IndexRecord
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from webmill.compat import index_record
from webmill.compat.letsdata.documents import ParseDocumentResult, readings_of
from webmill.errors import BadInput
from webmill.extract.error_record import ErrorRecord
from webmill.extract.own_reader import MadeDocument, Reading, message_error
from webmill.infra.sources.base import SourceMessage


class QueueMessageReader:
    def parseMessage(
        self,
        messageId: str,
        messageGroupId: str,
        messageDeduplicationId: str,
        messageAttributes: Mapping[str, str],
        messageBody: str,
    ) -> ParseDocumentResult:
        raise NotImplementedError

    def read_message(self, message: SourceMessage) -> Reading:
        body = message.body.decode("utf-8", errors="replace")
        result = self.parseMessage(message.id, message.key, message.deduplication_id, message.attributes, body)
        return one_reading(result, message)


class KinesisRecordReader:
    """`streamArn` is the name of the stream: the address has no more."""

    def parseMessage(
        self,
        streamArn: str,
        shardId: str,
        partitionKey: str,
        sequenceNumber: str,
        approximateArrivalTimestamp: int,
        data: bytes,
    ) -> ParseDocumentResult:
        raise NotImplementedError

    def read_message(self, message: SourceMessage) -> Reading:
        arrived = int(message.sent * 1000)
        result = self.parseMessage(message.source, message.shard, message.key, message.position, arrived, message.body)
        return one_reading(result, message)


class IndexRecordMessageReader:
    def read_message(self, message: SourceMessage) -> Reading:
        try:
            record = index_record.decode(message.body)
        except BadInput as error:
            return message_error(message, error.message, reason=error.reason)
        return MadeDocument(record.partition_key, index_record.encode(record))


def one_reading(result: ParseDocumentResult, message: SourceMessage) -> Reading:
    """Return what a result says of its message: of a composite document with errors the first error."""
    place = message_error(message, "the reader says ERROR", reason="reader_failed")
    found = [*readings_of(result, place=place)] or [msgspec.structs.replace(place, error_message="no document")]
    return next((one for one in found if isinstance(one, ErrorRecord)), found[0])
