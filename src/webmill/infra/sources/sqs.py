"""Messages of an SQS queue, standard or FIFO: each is deleted when what was made of it is durable.

    sqs://[KEY:SECRET@]QUEUE[?region=NAME][&endpoint=http://HOST:PORT][&proxy=URL]

A message that was received is hidden for `LEASE` seconds, and then comes again unless it was kept or deleted. The role
needs sqs:GetQueueUrl, sqs:ReceiveMessage, sqs:ChangeMessageVisibility and sqs:DeleteMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from webmill.infra.queue.sqs_messages import decode_body, parse_count
from webmill.infra.retry import BackoffPolicy
from webmill.infra.sinks.aws import PATIENCE, AwsAddress, call_patiently, connect, send_all
from webmill.infra.sources.base import SourceMessage

T = TypeVar("T")

ENTRIES = 10  # of a request
LEASE = 300  # seconds
WAIT = 1  # second that SQS waits for a message
SYSTEM = ["MessageGroupId", "MessageDeduplicationId", "SentTimestamp"]


class SqsSource:
    """A queue has one shard: two readers that knew nothing of each other would both take what came twice."""

    def __init__(self, url: str, *, patience: BackoffPolicy = PATIENCE) -> None:
        self._address = AwsAddress.from_url(url)
        self._patience = patience
        self._client = connect(self._address)

    def shards(self) -> list[str]:
        return [self._address.name]

    def open(self, shard: str, *, after: str, since: float) -> SqsShard:
        del shard, after, since  # the queue itself knows what is left
        return SqsShard(self._client, self._address, patience=self._patience)

    def close(self) -> None:
        self._client.close()


class SqsShard:
    ended = False  # a queue is never closed

    def __init__(self, client: Any, address: AwsAddress, *, patience: BackoffPolicy) -> None:
        self._client, self._address, self._patience = client, address, patience
        self._url: str = self._try(lambda: client.get_queue_url(QueueName=address.name)["QueueUrl"])

    def receive(self) -> list[SourceMessage]:
        answer = self._try(
            lambda: self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=ENTRIES,
                WaitTimeSeconds=WAIT,
                VisibilityTimeout=LEASE,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=SYSTEM,
            )
        )
        return [self._message(one) for one in answer.get("Messages", ())]

    def keep(self, messages: Sequence[SourceMessage]) -> None:
        for batch in in_tens(messages):
            entries = [
                {"Id": str(number), "ReceiptHandle": one.receipt, "VisibilityTimeout": LEASE}
                for number, one in enumerate(batch)
            ]
            self._try(lambda: self._client.change_message_visibility_batch(QueueUrl=self._url, Entries=entries))  # noqa: B023 - called at once

    def acknowledge(self, messages: Sequence[SourceMessage]) -> None:
        for batch in in_tens(messages):
            send_all(list(batch), self._delete, what=self._address, patience=self._patience)

    def close(self) -> None:
        """There is nothing to close: the client is the source's."""

    def _delete(self, batch: list[SourceMessage]) -> tuple[list[SourceMessage], str]:
        """Return those that were not deleted, and why. A receipt that is over is not tried again."""
        entries = [{"Id": str(number), "ReceiptHandle": one.receipt} for number, one in enumerate(batch)]
        answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        failed = [one for one in answer.get("Failed", ()) if not one.get("SenderFault")]
        return [batch[int(one["Id"])] for one in failed], ", ".join(sorted({str(one.get("Code")) for one in failed}))

    def _message(self, found: dict[str, Any]) -> SourceMessage:
        system, attributes = found.get("Attributes") or {}, found.get("MessageAttributes") or {}
        texts = {name: str(value.get("StringValue") or "") for name, value in attributes.items()}
        return SourceMessage(
            id=found["MessageId"],
            body=decode_body(found.get("Body", ""), None),
            source=self._address.name,
            shard=self._address.name,
            key=system.get("MessageGroupId", ""),
            deduplication_id=system.get("MessageDeduplicationId", ""),
            attributes=texts,
            sent=parse_count(system.get("SentTimestamp")) / 1000,
            receipt=found["ReceiptHandle"],
        )

    def _try(self, call: Callable[[], T]) -> T:
        return call_patiently(call, self._address, self._patience)


def in_tens(messages: Sequence[SourceMessage]) -> Iterator[Sequence[SourceMessage]]:
    return (messages[at : at + ENTRIES] for at in range(0, len(messages), ENTRIES))
