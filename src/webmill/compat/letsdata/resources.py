"""Queues and streams that a description of letsdata's wants made (`resourceLocation` letsdata): made if missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from webmill.compat.letsdata.config import ManagedResource
from webmill.errors import Misconfigured, Unavailable
from webmill.infra import waiting
from webmill.infra.queue.sqs_client import error_code_of
from webmill.infra.sinks.aws import ABSENT, PATIENCE, AwsAddress, call_patiently, connect

DEADLINE = 120.0  # seconds until a new stream can be written to


def create_missing(resources: Iterable[ManagedResource]) -> list[str]:
    """Make what is not there; return the addresses of those that were made, without keys."""
    return [str(AwsAddress.from_url(one.address)) for one in resources if create_one(one)]


def create_one(resource: ManagedResource) -> bool:
    """Return whether it was made: False when it was there."""
    address = AwsAddress.from_url(resource.address)
    client = connect(address)
    try:
        if address.scheme == "sqs":
            return create_queue(client, address)
        return create_stream(client, address, shards=resource.shards)
    finally:
        client.close()


def create_queue(client: Any, address: AwsAddress) -> bool:
    if exists(lambda: client.get_queue_url(QueueName=address.name), address):
        return False
    attributes = {"FifoQueue": "true"} if address.name.endswith(".fifo") else {}
    make = {"QueueName": address.name, "Attributes": attributes}
    call_patiently(lambda: client.create_queue(**make), address, PATIENCE)
    return True


def create_stream(client: Any, address: AwsAddress, *, shards: int) -> bool:
    def describe() -> str:
        answer = client.describe_stream_summary(StreamName=address.name)
        return str(answer["StreamDescriptionSummary"]["StreamStatus"])

    if exists(describe, address):
        return False
    make = {"StreamName": address.name, "ShardCount": shards}
    call_patiently(lambda: client.create_stream(**make), address, PATIENCE)
    deadline = time.monotonic() + DEADLINE
    while call_patiently(describe, address, PATIENCE) != "ACTIVE":
        if time.monotonic() > deadline:
            raise Unavailable(f"{address} was made and is not active yet: run this again in a minute")
        waiting.sleep(0.5)
    return True


def exists(ask: Callable[[], object], address: AwsAddress) -> bool:
    try:
        call_patiently(ask, address, PATIENCE)
    except Misconfigured as error:
        if any(word in error_code_of(error).lower() for word in ABSENT):
            return False
        raise
    return True
