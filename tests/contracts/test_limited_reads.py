"""A storage behind a limiter keeps every promise of reading, and costs one turn for each request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.range_server import serving
from tests.services.misbehaving import SHORT, Answer, misbehaving
from webmill.errors import BadInput, Conflict, NotFound, Unavailable
from webmill.infra.host_schedule.adaptive_rate import LimiterPolicy, Permit
from webmill.infra.host_schedule.limiter import Limiter
from webmill.infra.request_outcome import AccessRefused, SlowDown
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Readable, Stat
from webmill.infra.storage.http import HttpStorage
from webmill.infra.storage.limited import LimitedPartReads, LimitedReads
from webmill.infra.storage.memory import MemoryStorage
from webmill.infra.storage.retrying import RetryingReads
from webmill.infra.storage.s3 import S3Options, S3Storage

VALUE = bytes(range(256)) * 40


class Counting(Limiter):
    given = 0

    def acquire(self, **options: Any) -> Permit:
        self.given += 1
        return super().acquire(**options)


class CountedMemory(MemoryStorage):
    asked = 0

    def stat(self, key: str) -> Stat:
        self.asked += 1
        return super().stat(key)

    def read(self, key: str, **options: Any) -> bytes:
        self.asked += 1
        return super().read(key, **options)


class SmallParts(LimitedPartReads):
    part = 1000


@dataclass
class Source:
    readable: Readable
    put: Callable[[str, bytes], object]
    limiter: Counting
    requests: Callable[[], int]


@pytest.fixture
def limiter(tmp_path: Path) -> Counting:
    return Counting(tmp_path / "origin", rate=1e6, burst=1e6, policy=LimiterPolicy(pause_refused=600))


@pytest.fixture(params=["http", "parts"])
def source(request: pytest.FixtureRequest, limiter: Counting) -> Iterator[Source]:
    if request.param == "parts":
        memory = CountedMemory()
        yield Source(SmallParts(memory, limiter), memory.write, limiter, lambda: memory.asked)
        return
    with serving() as server, HttpStorage(server.url, user_agent="webmill-test") as http:
        yield Source(LimitedReads(http, limiter), server.values.__setitem__, limiter, lambda: len(server.requests))


def test_a_value_is_read_whole_in_part_and_as_a_stream(source: Source) -> None:
    source.put("a/b", VALUE)
    stat = source.readable.stat("a/b")
    assert stat.size == len(VALUE)
    assert source.readable.read("a/b", etag=stat.etag) == VALUE
    assert source.readable.read("a/b", start=5000, length=1234) == VALUE[5000:6234]
    for start, length in ((0, None), (0, 0), (5000, 1234), (999, 1), (len(VALUE), None), (100, None)):
        with source.readable.open("a/b", start=start, length=length, etag=stat.etag) as stream:
            assert stream.read() == VALUE[start : None if length is None else start + length]
    with source.readable.open("a/b") as stream:
        assert b"".join(iter(lambda: stream.read(777), b"")) == VALUE


def test_what_is_wrong_with_a_key_is_told_as_ever_and_says_nothing_against_the_server(source: Source) -> None:
    source.put("k", VALUE)
    for _ in range(20):
        for look in (source.readable.stat, source.readable.read, source.readable.open):
            with pytest.raises(NotFound):
                look("none")
    with pytest.raises(BadInput, match="bad_range"):
        source.readable.open("k", start=1, length=len(VALUE))
    with pytest.raises(Conflict):
        source.readable.open("k", etag='"another"')
    assert source.limiter.status().blocked_for == 0
    assert source.limiter.status().rate == 1e6


def test_each_request_is_a_turn(source: Source) -> None:
    source.put("k", VALUE)
    for _ in range(3):
        source.readable.stat("k")
        source.readable.read("k", start=1, length=1)
        with source.readable.open("k") as stream:
            stream.read()
    assert source.limiter.given == source.requests() >= 9


def test_a_second_attempt_takes_a_turn_and_a_redirect_is_paid_for(limiter: Counting) -> None:
    with serving() as server:
        server.values["there"] = VALUE
        server.lies["here"] = lambda handler: handler.answer(302, Location="/data/there")
        server.lies["ill"] = lambda handler: handler.answer(500)
        with HttpStorage(server.url, user_agent="webmill-test", on_redirect=limiter.spend) as http:
            reads = RetryingReads(LimitedReads(http, limiter), policy=BackoffPolicy(attempts=3), sleep=lambda _: None)
            assert reads.read("here") == VALUE
            with pytest.raises(Unavailable):
                reads.read("ill")
        assert len(server.requests) == 2 + 3
    assert limiter.given == 1 + 3


def test_streams_that_break_are_failures_though_their_heads_were_good(tmp_path: Path) -> None:
    limiter = Limiter(tmp_path / "origin", rate=1e6, burst=100, policy=LimiterPolicy(failures=3, pause_failed=600))
    with misbehaving(lambda *_: SHORT) as origin, HttpStorage(origin.url, user_agent="webmill-test") as http:
        reads = LimitedReads(http, limiter, patience=1)
        for _ in range(3):
            with reads.open("k") as stream, pytest.raises(Unavailable, match="broke off"):
                stream.read()
        with pytest.raises(Unavailable, match="did not answer 3 times in a row"):
            reads.open("k")
        assert len(origin.log) == 3


@pytest.mark.parametrize(("status", "error"), [(429, SlowDown), (503, SlowDown), (403, AccessRefused)])
@pytest.mark.parametrize("kind", ["http", "s3"])
def test_complaints_are_heard_and_nothing_asks_behind_our_back(
    limiter: Counting, kind: str, status: int, error: type[Exception]
) -> None:
    with misbehaving(lambda *_: Answer(status, {"Retry-After": "300"})) as origin:
        http = HttpStorage(origin.url, user_agent="webmill-test")
        options = S3Options.from_url(f"s3://key:secret@bucket?endpoint={origin.url}")
        inner: Readable = http if kind == "http" else S3Storage(options, retries=0)
        with http, pytest.raises(error):
            LimitedReads(inner, limiter).read("k", start=1, length=5)
        assert len(origin.log) == 1
    look = limiter.status()
    assert look.rate == 5e5
    waits = {("http", 429): 300, ("http", 503): 300, ("http", 403): 600, ("s3", 403): 600}
    assert look.blocked_for == pytest.approx(waits.get((kind, status), 0), abs=120)
    assert look.refused == (status == 403)
