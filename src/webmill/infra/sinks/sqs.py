"""Rows as messages of an SQS queue: at least once each, under ids that are derived from the batch.

    sqs://[KEY:SECRET@]QUEUE[?region=NAME][&endpoint=http://HOST:PORT][&proxy=URL][&max_bytes=N]

The body is the row's JSON; the id is in the message attribute `webmill-id`. A message that was not taken is sent
again, and so is a batch whose answer was lost: a row may be there twice, with the same id. In a FIFO queue (`….fifo`)
the id is the deduplication id: the queue leaves out what comes twice within five minutes. It is the group id, too: no
message waits for another, and there is no order among them.
The longest message is part of the address and not asked of the queue, so that it cannot change between two runs.
The role needs sqs:GetQueueUrl, sqs:GetQueueAttributes and sqs:SendMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from webmill.errors import Misconfigured
from webmill.infra.batches import batches
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.sinks.aws import PATIENCE, AwsAddress, aws_errors, connect, error_for_code, send_all
from webmill.infra.sinks.base import Delivered, SinkRow, check_size

ENTRIES = 10  # of a batch
MAX_BYTES = 256 << 10  # of a message, and of a batch: what every queue took until 2025, and compatibles still do
ALLOWED = range(16 << 10, (1 << 20) + 1)  # an error record fits in the least
ATTRIBUTE = "webmill-id"
OVERHEAD = len(ATTRIBUTE) + len("String") + 128  # attributes count, and an id has at most so many characters


class SqsEntry(Struct, frozen=True):
    id: str
    body: str
    size: int


def open_sqs(url: str, _id_of: Callable[[object], str]) -> SqsSink:
    return SqsSink(url)


class SqsSink:
    def __init__(self, url: str, *, patience: BackoffPolicy = PATIENCE) -> None:
        self._address = AwsAddress.from_url(url)
        self._max_bytes = self._address.max_bytes or MAX_BYTES
        if self._max_bytes not in ALLOWED:
            raise Misconfigured(f"{self._address}: max_bytes is {ALLOWED[0]} to {ALLOWED[-1]}")
        self._patience = patience
        self._is_fifo = self._address.name.endswith(".fifo")
        self._client = connect(self._address)
        try:
            self._queue = retrying(self._find, policy=patience)
        except BaseException:
            self._client.close()
            raise

    def check(self, row: SinkRow) -> None:
        self._entry("", row)

    def deliver(self, name: str, rows: Sequence[SinkRow]) -> Delivered:
        entries = [self._entry(f"{name}-{number:05d}", row) for number, row in enumerate(rows)]
        whole = max(MAX_BYTES, self._max_bytes)
        for batch in batches(entries, lambda entry: entry.size, count=ENTRIES, size=whole):
            send_all(batch, self._send, what=self._address, patience=self._patience)
        return Delivered(name, len(rows), sum(len(row.line) for row in rows))

    def close(self) -> None:
        self._client.close()

    def _find(self) -> str:
        """Return the URL of the queue. Misconfigured when it does not exist, or takes shorter messages only."""
        with aws_errors(self._address):
            url: str = self._client.get_queue_url(QueueName=self._address.name)["QueueUrl"]
            answer = self._client.get_queue_attributes(QueueUrl=url, AttributeNames=["MaximumMessageSize"])
        limit = int(answer.get("Attributes", {}).get("MaximumMessageSize", self._max_bytes))
        if limit < self._max_bytes:
            raise Misconfigured(
                f"{self._address} takes messages of {limit:,} bytes, and {self._max_bytes:,} may come: raise its "
                f"MaximumMessageSize, or add max_bytes={limit} to the address; longer documents are errors then"
            )
        return url

    def _entry(self, id_: str, row: SinkRow) -> SqsEntry:
        body = body_of(row)
        check_size(len(body) + OVERHEAD, self._max_bytes, source=str(self._address))
        return SqsEntry(id_, body.decode(), len(body) + OVERHEAD)

    def _send(self, batch: list[SqsEntry]) -> tuple[list[SqsEntry], str]:
        """Return those that were not accepted, and why."""
        answer = self._client.send_message_batch(
            QueueUrl=self._queue,
            Entries=[self._request_entry(entry, str(number)) for number, entry in enumerate(batch)],
        )
        accepted = {int(one["Id"]) for one in answer.get("Successful", ())}
        reasons = set()
        for failure in answer.get("Failed", ()):
            code, message = str(failure.get("Code", "")), str(failure.get("Message", ""))
            refusal = error_for_code(self._address, code, message, status=400 if failure.get("SenderFault") else 500)
            if isinstance(refusal, Misconfigured):
                raise refusal
            reasons.add(code)
        return [entry for number, entry in enumerate(batch) if number not in accepted], ", ".join(sorted(reasons))

    def _request_entry(self, entry: SqsEntry, number: str) -> dict[str, Any]:
        sent: dict[str, Any] = {
            "Id": number,
            "MessageBody": entry.body,
            "MessageAttributes": {ATTRIBUTE: {"DataType": "String", "StringValue": entry.id}},
        }
        return sent | {"MessageGroupId": entry.id, "MessageDeduplicationId": entry.id} if self._is_fifo else sent


def body_of(row: SinkRow) -> bytes:
    """Return the JSON with U+FFFE and U+FFFF escaped, which SQS refuses; in JSON they can only be within a string."""
    return row.line.replace(b"\xef\xbf\xbe", rb"\ufffe").replace(b"\xef\xbf\xbf", rb"\uffff")
