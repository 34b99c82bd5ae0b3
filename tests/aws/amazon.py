"""A bucket and a queue on a server of S3 and SQS, and the part of Lambda that calls the functions."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.services.sqs_bench import event_of
from webmill.aws import handlers

LONG = 60.0


class Minutes:
    """A context with this much time left."""

    def get_remaining_time_in_millis(self) -> int:
        return 300_000


class Amazon:
    """A bucket and the part of Lambda that moves messages between a queue and a function."""

    def __init__(self, s3: Any, sqs: Any) -> None:
        self.s3, self.sqs = s3, sqs
        self.name = f"t{secrets.token_hex(6)}"
        self.s3.create_bucket(Bucket=self.name)

    def put(self, key: str, data: bytes) -> None:
        self.s3.put_object(Bucket=self.name, Key=key, Body=data)

    def get(self, key: str) -> Any:
        return json.loads(self.s3.get_object(Bucket=self.name, Key=key)["Body"].read())

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def deliver(self) -> list[str]:
        """Hand a batch to `work`, delete what it does not name; ids of what it does."""
        url = self.sqs.get_queue_url(QueueName=f"{self.name}.fifo")["QueueUrl"]
        wanted = {"MessageAttributeNames": ["All"], "MessageSystemAttributeNames": ["All"]}
        answer = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600, **wanted)
        messages = answer.get("Messages", [])
        if not messages:
            return []
        reported = handlers.work({"Records": event_of(messages)}, Minutes())
        kept = {failure["itemIdentifier"] for failure in reported["batchItemFailures"]}
        done = [message for message in messages if message["MessageId"] not in kept]
        entries = [{"Id": f"{at}", "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(done)]
        if entries:  # `work` has deleted them; who does it again may be told so
            self.sqs.delete_message_batch(QueueUrl=url, Entries=entries)
        return sorted(kept)

    def cycle(self) -> dict[str, Any]:
        """One run, from the schedule to the version."""
        assert handlers.orchestrate({}, Minutes())["run"]
        deadline = time.monotonic() + LONG
        while True:
            self.deliver()
            reported = handlers.aggregate({}, Minutes())
            if reported["ended"]:
                (outcome,) = reported["ended"]
                return dict(outcome)
            assert time.monotonic() < deadline

    def index(self) -> dict[str, Any]:
        pointer = self.get("latest.json")
        return dict(self.get(f"snapshots/{pointer['version']}/index/all.json"))


@pytest.fixture(scope="module")
def aws_clients(aws_url: str) -> Iterator[tuple[Any, Any]]:
    session, keys = boto3.session.Session(), {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    options = {"endpoint_url": aws_url, "config": Config(proxies={}), "region_name": "us-east-1", **keys}
    clients = session.client("s3", **options), session.client("sqs", **options)
    yield clients
    for client in clients:
        client.close()


@pytest.fixture
def amazon(
    aws_url: str, aws_clients: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Amazon]:
    amazon = Amazon(*aws_clients)
    ours = {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ENDPOINT_URL": aws_url,
        "WEBMILL_QUEUE_URL": f"sqs://{amazon.name}.fifo?region=us-east-1",
        "WEBMILL_QUEUE_ATTEMPTS": "2",
        "WEBMILL_HTTP_CONTACT": "test@example.org",
        "WEBMILL_AWS_STORAGE": f"s3://{amazon.name}?region=us-east-1",
        "WEBMILL_AWS_DELAY": "0.01",
        "WEBMILL_AWS_ALLOW_PRIVATE": "1",
        "WEBMILL_AWS_SCRATCH": str(tmp_path),
    }
    for name, value in ours.items():
        monkeypatch.setenv(name, value)
    handlers.open_resources.cache_clear()
    yield amazon
    if handlers.open_resources.cache_info().currsize:
        handlers.open_resources().queue.close()
    handlers.open_resources.cache_clear()
