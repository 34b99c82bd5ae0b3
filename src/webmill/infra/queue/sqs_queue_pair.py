"""The two SQS queues that are one of ours: created when they are missing, and checked when they exist."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import msgspec

from webmill.errors import Misconfigured
from webmill.infra.queue.sqs_client import error_code_of, whole_seconds
from webmill.infra.sinks.aws import AwsAddress, aws_errors
from webmill.infra.sinks.sqs import MAX_BYTES

log = logging.getLogger(__name__)

ALLOWED = range(64 << 10, (1 << 20) + 1)  # bytes of a message
NAME = re.compile(r"[A-Za-z0-9_-]{1,68}\.fifo")
RETENTION = 14 * 24 * 3600  # seconds; the longest there is
# Receipts beyond our own limit after which SQS itself moves a message: one may have been too early, and at the next
# one of us buries it with a reason. SQS only does it when nobody lives long enough for that.
SLACK = 2
MOST_RECEIVES = 1000
FIFO = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
    "MessageRetentionPeriod": str(RETENTION),
}


class SqsQueuePair(msgspec.Struct, frozen=True):
    """The URLs of the queue of work and of its dead-letter queue; the longest message that both take."""

    work: str
    dead_letters: str
    max_bytes: int


def find_or_create(client: Any, address: AwsAddress, *, max_attempts: int, lease: float) -> SqsQueuePair:
    if not NAME.fullmatch(address.name):
        raise Misconfigured(
            f"{address}: the name of a queue is letters, digits, - and _, at most 68, and ends in .fifo: "
            "a standard queue of SQS cannot keep the promises of a webmill queue"
        )
    max_bytes = address.max_bytes or MAX_BYTES
    if max_bytes not in ALLOWED:
        raise Misconfigured(f"{address}: max_bytes is {ALLOWED[0]} to {ALLOWED[-1]}")
    url = find(client, address, address.name)
    if not url:
        with aws_errors(address):
            url = create(client, address.name, max_attempts=max_attempts, lease=lease)
    with aws_errors(address):
        attributes = attributes_of(client, url)
    dead_letter_name = check_work(address, attributes, max_attempts=max_attempts, max_bytes=max_bytes)
    dead_letters = find(client, address, dead_letter_name)
    if not dead_letters:
        raise Misconfigured(
            f"{address} names {dead_letter_name} as its dead-letter queue, which does not exist: create it"
        )
    with aws_errors(address):
        attributes = attributes_of(client, dead_letters)
    check_dead_letter_queue(address, dead_letter_name, attributes, max_bytes=max_bytes)
    return SqsQueuePair(url, dead_letters, max_bytes)


def find(client: Any, address: AwsAddress, name: str) -> str | None:
    try:
        with aws_errors(address):
            url: str = client.get_queue_url(QueueName=name)["QueueUrl"]
    except Misconfigured as error:
        code = error_code_of(error).lower()
        if "nonexistentqueue" in code or "queuedoesnotexist" in code:
            return None
        raise
    return url


def create(client: Any, name: str, *, max_attempts: int, lease: float) -> str:
    dead_letter_name = f"{name.removesuffix('.fifo')}-buried.fifo"
    dead_letters = client.create_queue(QueueName=dead_letter_name, Attributes=FIFO)["QueueUrl"]
    policy = {
        "deadLetterTargetArn": attributes_of(client, dead_letters)["QueueArn"],
        "maxReceiveCount": least_receives(max_attempts),
    }
    attributes = {**FIFO, "VisibilityTimeout": str(whole_seconds(lease)), "RedrivePolicy": json.dumps(policy)}
    url: str = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def attributes_of(client: Any, url: str) -> dict[str, str]:
    answer: dict[str, str] = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return answer


def check_work(address: AwsAddress, attributes: dict[str, str], *, max_attempts: int, max_bytes: int) -> str:
    """Check the settings of the queue of work; return the name of its dead-letter queue."""
    check_each(str(address), attributes, max_bytes=max_bytes)
    try:
        policy = json.loads(attributes.get("RedrivePolicy") or "{}")
        dead_letters, receives = str(policy["deadLetterTargetArn"]).rpartition(":")[2], int(policy["maxReceiveCount"])
    except (ValueError, KeyError, TypeError) as error:
        raise Misconfigured(
            f"{address} has no dead-letter queue, so what kills its workers would come back for ever: set its redrive "
            f"policy (maxReceiveCount {least_receives(max_attempts)}), or name a new queue, which is then created"
        ) from error
    if receives < least_receives(max_attempts):
        raise Misconfigured(
            f"{address} gives a message up after {receives} receipts, before {max_attempts} attempts are made and "
            f"recorded: set its maxReceiveCount to {least_receives(max_attempts)} or more, or ask for fewer attempts"
        )
    return dead_letters


def check_dead_letter_queue(address: AwsAddress, name: str, attributes: dict[str, str], *, max_bytes: int) -> None:
    what = f"{name}, the dead-letter queue of {address},"
    check_each(what, attributes, max_bytes=max_bytes)
    if attributes.get("RedrivePolicy"):
        raise Misconfigured(
            f"{what} has a dead-letter queue itself, and would lose messages that are listed: remove that"
        )


def check_each(what: str, attributes: dict[str, str], *, max_bytes: int) -> None:
    if attributes.get("FifoQueue") != "true":
        raise Misconfigured(f"{what} is not a FIFO queue; name one that ends in .fifo")
    limit = int(attributes.get("MaximumMessageSize", max_bytes))
    if limit < max_bytes:
        raise Misconfigured(
            f"{what} takes messages of {limit:,} bytes: raise its MaximumMessageSize to {max_bytes:,}, or add "
            f"max_bytes={limit} to the address"
        )
    if int(attributes.get("MessageRetentionPeriod", RETENTION)) < RETENTION:
        log.warning(
            "SQS will forget messages of this queue early: set its MessageRetentionPeriod to 14 days",
            extra={"queue": what, "seconds": attributes["MessageRetentionPeriod"]},
        )


def least_receives(max_attempts: int) -> int:
    return min(MOST_RECEIVES, max_attempts + SLACK)
