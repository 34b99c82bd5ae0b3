"""Queues and streams of a MiniStack, and what is in them."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.services import CannotStart, ministack

KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}


class Streams:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        options: dict[str, Any] = {"endpoint_url": endpoint, "config": Config(proxies={}), **KEYS}
        self.sqs: Any = boto3.session.Session().client("sqs", **options)
        self.kinesis: Any = boto3.session.Session().client("kinesis", **options)

    def address(self, kind: str, name: str = "") -> str:
        return f"{kind}://test:test@{name or f't{secrets.token_hex(6)}'}?region=us-east-1&endpoint={self.endpoint}"

    def queue(self, bodies: Sequence[str] = (), *, fifo: bool = False, **attributes: str) -> str:
        """The address of a new queue with these messages."""
        name = f"t{secrets.token_hex(6)}{'.fifo' * fifo}"
        made = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if fifo else {}
        self.sqs.create_queue(QueueName=name, Attributes={**made, **attributes})
        self.send(name, bodies)
        return self.address("sqs", name)

    def send(self, address: str, bodies: Sequence[str], **colors: str) -> None:
        url = self.url(address)
        more = {"MessageGroupId": "g"} if ".fifo" in address else {}
        attributes = {name: {"DataType": "String", "StringValue": value} for name, value in colors.items()}
        for body in bodies:
            self.sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes, **more)

    def url(self, address: str) -> str:
        return str(self.sqs.get_queue_url(QueueName=name_of(address))["QueueUrl"])

    def count(self, address: str) -> int:
        """How many messages are there, hidden ones included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url(address), AttributeNames=names)["Attributes"]
        return sum(int(answer[name]) for name in names)

    def visible(self, address: str) -> int:
        names = ["ApproximateNumberOfMessages"]
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url(address), AttributeNames=names)
        return int(answer["Attributes"][names[0]])

    def stream(self, records: Sequence[str] = (), *, shards: int = 2) -> str:
        """The address of a new stream with these records, each under its text as the key."""
        name = f"t{secrets.token_hex(6)}"
        self.kinesis.create_stream(StreamName=name, ShardCount=shards)
        self.put(name, records)
        return self.address("kinesis", name)

    def put(self, address: str, records: Sequence[str]) -> None:
        for record in records:
            self.kinesis.put_record(StreamName=name_of(address), Data=record.encode(), PartitionKey=record)

    def records(self, address: str) -> list[bytes]:
        found: list[bytes] = []
        name = name_of(address)
        for shard in self.kinesis.list_shards(StreamName=name)["Shards"]:
            at: str | None = self.kinesis.get_shard_iterator(
                StreamName=name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            while at and (records := (answer := self.kinesis.get_records(ShardIterator=at))["Records"]):
                found += [record["Data"] for record in records]
                at = answer.get("NextShardIterator")
        return found

    def bucket(self, folder: Path) -> str:
        """The address of a new bucket with the files of a folder."""
        name = f"t{secrets.token_hex(6)}"
        options: dict[str, Any] = {"s3": {"addressing_style": "path"}}
        client: Any = boto3.session.Session().client(
            "s3", endpoint_url=self.endpoint, config=Config(proxies={}, **options), **KEYS
        )
        client.create_bucket(Bucket=name)
        for file in folder.iterdir():
            client.put_object(Bucket=name, Key=file.name, Body=file.read_bytes())
        client.close()
        return f"s3://test:test@{name}?region=us-east-1&endpoint={self.endpoint}"

    def close(self) -> None:
        self.sqs.close()
        self.kinesis.close()


def name_of(address: str) -> str:
    return address.rpartition("@")[2].partition("?")[0]


@contextmanager
def streams_of_ministack() -> Iterator[Streams]:
    folder = Path(tempfile.mkdtemp(prefix="webmill-ministack-"))
    try:
        server = ministack.start(folder)
    except CannotStart as error:
        if ".venv-ministack" in str(error):
            pytest.skip(str(error))
        raise
    streams = Streams(server.url)
    try:
        yield streams
    finally:
        streams.close()
        server.stop()
        rmtree(folder, ignore_errors=True)
