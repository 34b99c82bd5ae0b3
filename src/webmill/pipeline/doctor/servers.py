"""Servers that a collection is to work with: asked for their settings, and what those can promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

from webmill.crawl.frontier.redis.server import REPAIR, RedisDurability, RedisServer
from webmill.errors import WebmillError
from webmill.infra.queue.base import Queue
from webmill.infra.storage.base import Storage
from webmill.pipeline.doctor.findings import DoctorFinding


def check_redis(url: str) -> Iterator[DoctorFinding]:
    try:
        with closing(RedisServer(url, timeout=10.0)) as server:
            promise = server.promise()
            bloom = server.has_bloom()
    except WebmillError as error:
        yield DoctorFinding(part="redis", state="bad", found=str(error))
        return
    yield DoctorFinding(
        part="redis",
        state={  # type: ignore[arg-type]
            RedisDurability.DURABLE: "good",
            RedisDurability.SECOND: "doubt",
            RedisDurability.NONE: "bad",
        }[promise],
        found="has Bloom filters" if bloom else "has no Bloom filters: the exact check is asked for every URL",
        promise={
            RedisDurability.DURABLE: "what a frontier has acknowledged survives a death of Redis and of its machine",
            RedisDurability.SECOND: "a death of Redis may undo a second; nodes notice and repeat it",
            RedisDurability.NONE: (
                "a death of Redis loses its part of the frontier; `--lost-files rebuild` is of no use then"
            ),
        }[promise],
        repair="" if promise is RedisDurability.DURABLE else REPAIR,
    )


def check_queue(open_queue: Callable[[], Queue]) -> Iterator[DoctorFinding]:
    """Opening it checks the arguments of a broker's queues."""
    try:
        with closing(open_queue()) as opened:
            stats = opened.stats()
    except WebmillError as error:
        yield DoctorFinding(part="queue", state="bad", found=str(error))
        return
    yield DoctorFinding(
        part="queue",
        state="doubt" if stats.buried else "good",
        found=f"{stats.ready:,} waiting, {stats.leased:,} in hand, {stats.buried:,} buried",
        promise="what was confirmed stays until it is acknowledged",
        repair="`webmill dead list` says why they failed" if stats.buried else "",
    )


def check_storage(open_versions: Callable[[], Storage]) -> Iterator[DoctorFinding]:
    """Opening a bucket writes a probe twice: one of them must be refused."""
    try:
        open_versions()
    except WebmillError as error:
        yield DoctorFinding(part="storage", state="bad", found=str(error))
        return
    yield DoctorFinding(
        part="storage",
        state="good",
        found="refuses a second writer",
        promise="two publishers make one history; a reader sees whole versions",
    )
