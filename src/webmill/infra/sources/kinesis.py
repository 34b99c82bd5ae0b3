"""Records of a Kinesis stream, shard by shard, from a sequence number on that the caller keeps.

    kinesis://[KEY:SECRET@]STREAM[?region=NAME][&endpoint=http://HOST:PORT][&proxy=URL]

Kinesis deletes nothing before its retention is over: acknowledging is the caller's own record of the position. The
role needs kinesis:ListShards, kinesis:GetShardIterator and kinesis:GetRecords.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from webmill.errors import Misconfigured
from webmill.infra import waiting
from webmill.infra.queue.sqs_client import error_code_of
from webmill.infra.retry import BackoffPolicy
from webmill.infra.sinks.aws import PATIENCE, AwsAddress, call_patiently, connect
from webmill.infra.sources.base import SourceMessage

T = TypeVar("T")

RECORDS = 1000  # of a request
PAUSE = 0.25  # seconds; a shard answers five requests in a second, for all readers together


class KinesisSource:
    def __init__(self, url: str, *, patience: BackoffPolicy = PATIENCE) -> None:
        self._address = AwsAddress.from_url(url)
        self._patience = patience
        self._client = connect(self._address)

    def shards(self) -> list[str]:
        found: list[str] = []
        asked: dict[str, str] = {"StreamName": self._address.name}
        while asked:
            answer = call_patiently(lambda: self._client.list_shards(**asked), self._address, self._patience)  # noqa: B023 - called at once
            found += [shard["ShardId"] for shard in answer["Shards"]]
            asked = {"NextToken": answer["NextToken"]} if answer.get("NextToken") else {}
        return sorted(found)

    def open(self, shard: str, *, after: str, since: float) -> KinesisShard:
        return KinesisShard(self._client, self._address, shard, after=after, since=since, patience=self._patience)

    def close(self) -> None:
        self._client.close()


class KinesisShard:
    def __init__(
        self, client: Any, address: AwsAddress, shard: str, *, after: str, since: float, patience: BackoffPolicy
    ) -> None:
        self._client, self._address, self._shard, self._patience = client, address, shard, patience
        self._after, self._since = after, since
        self._iterator: str | None = self._find()

    @property
    def ended(self) -> bool:
        return self._iterator is None

    def receive(self) -> list[SourceMessage]:
        if self._iterator is None:
            return []
        answer = self._ask()
        self._iterator = answer.get("NextShardIterator")
        messages = [self._message(record) for record in answer["Records"]]
        if messages:
            self._after = messages[-1].position
        else:
            waiting.sleep(PAUSE)
        return messages

    def keep(self, messages: Sequence[SourceMessage]) -> None:
        """Do nothing: records are hidden from nobody."""

    def acknowledge(self, messages: Sequence[SourceMessage]) -> None:
        """Do nothing: the caller keeps the position."""

    def close(self) -> None:
        """There is nothing to close: the client is the source's."""

    def _ask(self) -> Any:
        try:
            return self._try(lambda: self._client.get_records(ShardIterator=self._iterator, Limit=RECORDS))
        except Misconfigured as error:
            if "expirediterator" not in error_code_of(error).lower():  # it is valid for five minutes
                raise
            self._iterator = self._find()
            return self._try(lambda: self._client.get_records(ShardIterator=self._iterator, Limit=RECORDS))

    def _find(self) -> str:
        where: dict[str, Any] = {"ShardIteratorType": "TRIM_HORIZON"}
        if self._after:
            where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": self._after}
        elif self._since:
            where = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": self._since}
        asked = {"StreamName": self._address.name, "ShardId": self._shard, **where}
        return str(self._try(lambda: self._client.get_shard_iterator(**asked))["ShardIterator"])

    def _message(self, record: dict[str, Any]) -> SourceMessage:
        sent = record.get("ApproximateArrivalTimestamp")
        return SourceMessage(
            id=f"{self._shard}:{record['SequenceNumber']}",
            body=record["Data"],
            source=self._address.name,
            shard=self._shard,
            key=record.get("PartitionKey", ""),
            position=record["SequenceNumber"],
            sent=sent.timestamp() if isinstance(sent, datetime) else 0.0,
        )

    def _try(self, call: Callable[[], T]) -> T:
        return call_patiently(call, self._address, self._patience)
