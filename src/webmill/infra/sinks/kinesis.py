"""Rows as records of a Kinesis stream: at least once each.

    kinesis://[KEY:SECRET@]STREAM[?region=NAME][&endpoint=http://HOST:PORT][&proxy=URL]

The data is the row's JSON, the partition key its own id (its SHA-256 in hex when that is over 256 characters; the id
`BATCH-NUMBER` when it has none). A record has no room for another id: one that is there twice has the same bytes.
There is no order among records. The role needs kinesis:PutRecords.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from msgspec import Struct

from webmill.errors import Misconfigured
from webmill.infra.batches import batches
from webmill.infra.retry import BackoffPolicy
from webmill.infra.sinks.aws import PATIENCE, AwsAddress, connect, send_all
from webmill.infra.sinks.base import Delivered, SinkRow, check_size

RECORDS = 500  # of a request
REQUEST_BYTES = 5 << 20
MAX_BYTES = 1 << 20  # of a record with its key
LONGEST_KEY = 256  # characters
LONGEST_NAME = "0" * LONGEST_KEY


class KinesisRecord(Struct, frozen=True):
    key: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.key.encode()) + len(self.data)


def open_kinesis(url: str, id_of: Callable[[object], str]) -> KinesisSink:
    return KinesisSink(url, id_of=id_of)


class KinesisSink:
    """`id_of` returns the id of a row's value, or an empty one."""

    def __init__(self, url: str, *, id_of: Callable[[object], str], patience: BackoffPolicy = PATIENCE) -> None:
        self._address = AwsAddress.from_url(url)
        if self._address.max_bytes:
            raise Misconfigured(f"{self._address}: max_bytes is for SQS; a record has at most {MAX_BYTES:,}")
        self._patience = patience
        self._id_of = id_of
        self._client = connect(self._address)

    def check(self, row: SinkRow) -> None:
        self._record(row, LONGEST_NAME)

    def deliver(self, name: str, rows: Sequence[SinkRow]) -> Delivered:
        records = [self._record(row, f"{name}-{number:05d}") for number, row in enumerate(rows)]
        for batch in batches(records, lambda record: record.size, count=RECORDS, size=REQUEST_BYTES):
            send_all(batch, self._send, what=self._address, patience=self._patience)
        return Delivered(name, len(rows), sum(len(row.line) for row in rows))

    def close(self) -> None:
        self._client.close()

    def _record(self, row: SinkRow, name: str) -> KinesisRecord:
        key = self._id_of(row.value) or name
        record = KinesisRecord(key if len(key) <= LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest(), row.line)
        check_size(record.size, MAX_BYTES, source=str(self._address))
        return record

    def _send(self, batch: list[KinesisRecord]) -> tuple[list[KinesisRecord], str]:
        """Return those that were not accepted, and why."""
        answer = self._client.put_records(
            StreamName=self._address.name,
            Records=[{"Data": record.data, "PartitionKey": record.key} for record in batch],
        )
        results = answer["Records"]
        left = [record for record, result in zip(batch, results, strict=True) if "SequenceNumber" not in result]
        return left, ", ".join(sorted({str(one["ErrorCode"]) for one in results if "ErrorCode" in one}))
