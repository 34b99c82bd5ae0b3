"""A server in trouble is never asked faster than the limiter says: its own log of requests proves it."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.range_server import RangeServer, serving
from tests.pipeline.cc_commands import DEADLINE, cc, started, wait_for
from tests.pipeline.cc_pages import Page, batches, rows, write_crawl
from webmill.infra.queue.sqlite import SqliteQueue

RATE = 40.0
CONCURRENCY = 8  # downloads at once
TROUBLES = (("429", "503"), ("reset", "200"), ("short", "slow"))  # of each file; the limiter halves its rate for some


class Origin:
    """Serves a crawl; every file begins with some trouble. Notes when it was asked."""

    def __init__(self, server: RangeServer, root: Path, *, troubles: Sequence[Sequence[str]]) -> None:
        self.server = server
        self.times: list[float] = []
        for path, trouble in zip(sorted(root.rglob("*.warc.gz")), troubles, strict=True):
            key = str(path.relative_to(root))
            server.lies[key] = self.lie(path.read_bytes(), list(trouble))

    def lie(self, value: bytes, left: list[str]) -> Callable[[Any], None]:
        def answer(handler: Any) -> None:
            self.times.append(time.monotonic())
            if left:
                getattr(self, f"do_{left.pop(0)}")(handler, value)
            else:
                handler.honest(value)

        return answer

    def do_429(self, handler: Any, _: bytes) -> None:
        handler.answer(429, **{"Retry-After": "1"})

    def do_503(self, handler: Any, _: bytes) -> None:
        handler.answer(503)

    def do_403(self, handler: Any, _: bytes) -> None:
        handler.answer(403)

    def do_reset(self, handler: Any, _: bytes) -> None:
        handler.close_connection = True
        handler.connection.close()

    def do_short(self, handler: Any, value: bytes) -> None:
        first, last = map(int, handler.headers["Range"].removeprefix("bytes=").split("-"))
        body = value[first : first + 5]
        handler.answer(206, body, length=last - first + 1, **{"Content-Range": f"bytes {first}-{last}/{len(value)}"})
        handler.close_connection = True

    def do_slow(self, handler: Any, value: bytes) -> None:
        self.server.over.wait(0.5)
        handler.honest(value)

    def do_200(self, handler: Any, value: bytes) -> None:
        """As if there were no Range."""
        handler.answer(200, value)
        handler.close_connection = True


@pytest.fixture
def pages(tmp_path: Path) -> list[Page]:
    return write_crawl(tmp_path / "crawl", pages=120, files=3)


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with serving() as running:
        yield running


def work_flags(tmp_path: Path, server: RangeServer, *more: str) -> tuple[str | Path, ...]:
    queue = f"sqlite:{tmp_path}/work.sqlite"
    flags = ("--queue", queue, "--out", tmp_path / "out", "--base-url", server.url, "--no-metrics", "--cache-size", "0")
    return (*flags, "--executor", "pool", "--processes", "2", "--concurrency", str(CONCURRENCY), *more)


@pytest.mark.slow
def test_an_origin_in_trouble_is_asked_no_faster_than_the_limiter_says(
    tmp_path: Path, pages: list[Page], server: RangeServer
) -> None:
    origin = Origin(server, tmp_path / "crawl", troubles=TROUBLES)
    queue = SqliteQueue(tmp_path / "work.sqlite")
    queue.publish(batches(pages, size=2))  # many requests
    queue.close()
    done = cc("work", *work_flags(tmp_path, server, "--rate", str(RATE), "--until-empty"))
    assert done.returncode == 0, done.stderr
    assert Counter(row["url"] for row in rows(tmp_path / "out")) == Counter(page.url for page in pages)
    assert all(row["outcome"] == "ok" for row in rows(tmp_path / "out"))
    assert len(origin.times) > 60
    assert_paced(origin.times)


def assert_paced(times: list[float]) -> None:
    """In no interval more than a full bucket, what flowed in meanwhile, and what was on its way when it began.

    That holds however late this server looks: a download has one turn at a time, and is noted before it is answered.
    """
    times = sorted(times)
    for first, last in combinations(range(len(times)), 2):
        most = CONCURRENCY + RATE + RATE * (times[last] - times[first])
        assert last - first <= most, (first, last, times)


def test_a_server_that_refuses_us_is_left_alone(tmp_path: Path, pages: list[Page], server: RangeServer) -> None:
    origin = Origin(server, tmp_path / "crawl", troubles=[["403"] * 1000] * 3)
    queue = SqliteQueue(tmp_path / "work.sqlite")
    queue.publish(batches(pages, size=2))
    with started("work", *work_flags(tmp_path, server, "--rate", "1000", "--until-empty")) as worker:
        wait_for(lambda: origin.times, process=worker)
        time.sleep(1.5)  # in which it could ask a thousand times; on a slow machine it is no test, but fails nobody
        assert len(origin.times) <= CONCURRENCY  # what was on its way when the first was refused
        assert worker.poll() is None  # it waits
    stats = queue.stats()
    assert stats.buried == 0
    assert stats.ready + stats.leased + stats.delayed == 60
    queue.close()


@pytest.mark.parametrize("cache", ["0", "100"])  # ranges, whole files
def test_a_worker_that_a_server_refuses_ends_when_it_is_told_to(
    tmp_path: Path, pages: list[Page], server: RangeServer, cache: str
) -> None:
    """The breaker is open for minutes by then, and opens for longer each time: nobody waits for that."""
    origin = Origin(server, tmp_path / "crawl", troubles=[["403"] * 1000] * 3)
    queue = SqliteQueue(tmp_path / "work.sqlite")
    queue.publish(batches(pages, size=20))
    with started("work", *work_flags(tmp_path, server, "--rate", "1000", "--cache-size", cache)) as worker:
        wait_for(lambda: origin.times, process=worker)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=DEADLINE) == 130
    stats = queue.stats()
    assert (stats.buried, stats.leased, stats.ready + stats.delayed) == (0, 0, 6)
    queue.close()
