"""Queues of one test on a server of SQS, and the raw hands of somebody else on them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config

from tests.services.aws_front import Forward, Front, Request
from webmill.infra.queue.sqs import SqsQueue, SqsTiming
from webmill.infra.retry import BackoffPolicy

HURRY = BackoffPolicy(attempts=3, first_wait=0.01, longest_wait=0.01)


class Place:
    """A name for a queue that nobody else has."""

    def __init__(self, endpoint: str, client: Any) -> None:
        self.client = client
        self.name = f"t{secrets.token_hex(6)}"
        self.address = f"sqs://AKIAKEY:s3cr3t@{self.name}.fifo?region=us-east-1&endpoint={endpoint}"

    @contextmanager
    def open(self, front: Front | None = None, **options: Any) -> Iterator[SqsQueue]:
        proxy = f"&proxy={front.url}" if front else ""
        queue = SqsQueue(self.address + proxy, timing=SqsTiming(patience=HURRY, dead_letter_wait=0), **options)
        try:
            yield queue
        finally:
            queue.close()

    def url(self, suffix: str = "") -> str:
        return str(self.client.get_queue_url(QueueName=f"{self.name}{suffix}.fifo")["QueueUrl"])

    def make(self, suffix: str = "", **attributes: str) -> str:
        """A queue that somebody else made; its ARN."""
        url = self.client.create_queue(
            QueueName=f"{self.name}{suffix}.fifo", Attributes={"FifoQueue": "true", **attributes}
        )["QueueUrl"]
        answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def redrive(self, arn: str, receives: int) -> str:
        return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})

    def take(self, *, again: int = 60) -> list[dict[str, Any]]:
        """Receive as a stranger does; they are there again after so many seconds."""
        answer = self.client.receive_message(
            QueueUrl=self.url(),
            MaxNumberOfMessages=10,
            VisibilityTimeout=again,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        return list(answer.get("Messages", []))


def client_of(endpoint: str) -> Any:
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
    return boto3.session.Session().client("sqs", endpoint_url=endpoint, config=Config(proxies={}), **keys)


def event_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of an event, as Lambda spells what it received."""
    return [
        {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {
                name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
                for name, value in message.get("MessageAttributes", {}).items()
            },
        }
        for message in messages
    ]


class Refuses:
    """A front that answers some calls itself: the first `times` of an operation."""

    def __init__(self, operation: str, status: int, code: str, *, times: int = 1_000_000, after: bool = False) -> None:
        self.operation = operation
        self.status = status
        self.code = code
        self.left = times
        self.after = after  # the call is done, and only its answer is this one

    def __call__(self, operation: str, request: Request, forward: Forward) -> tuple[int, Request]:
        if operation != self.operation or not self.left:
            return forward(request)
        self.left -= 1
        if self.after:
            forward(request)
        return self.status, {"__type": f"com.amazonaws.sqs#{self.code}", "message": "so says the test"}
