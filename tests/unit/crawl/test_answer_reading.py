"""Large answers are read in a thread, one at a time, and for what an answer costs its host rests."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import ClaimedUrl
from webmill.crawl.visit.answer_reading import CPU_PER_BYTE, CPU_REST, LARGE, READ_AT_ONCE, AnswerReader
from webmill.crawl.visit.page_reader import PageReading
from webmill.formats.http import parse_response_head
from webmill.model import Exchange

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
ITEM = ClaimedUrl(url="http://a.test/", depth=0, priority=5, attempts=1)


def answer(size: int, *, cpu: float = 0.0) -> FetchedResponse:
    body = bytes(size)
    exchange = Exchange(url=ITEM.url, date=datetime.now(UTC), seconds=0.0, ip="", request=b"", response=HEAD + body)
    return FetchedResponse(exchange, parse_response_head(HEAD), body, (), cpu)


class Readings:
    """Stands for the reader of pages and for the requester: notes who reads, and what is held meanwhile."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.held: list[int] = []
        self.reading = self.most_at_once = 0

    def read(self, fetched: FetchedResponse, item: ClaimedUrl) -> PageReading:
        assert item is ITEM
        self.threads.append(threading.get_ident())
        self.reading += 1
        self.most_at_once = max(self.most_at_once, self.reading)
        Counter(fetched.payload)  # some work
        self.reading -= 1
        return PageReading("page", [], Counter())

    @contextmanager
    def hold_memory(self, size: int) -> Iterator[None]:
        self.held.append(size)
        yield


def read_all(*answers: FetchedResponse) -> tuple[Readings, list[float]]:
    found = Readings()

    async def play() -> list[float]:
        reader: Any = AnswerReader(SimpleNamespace(read=found.read), found)  # type: ignore[arg-type]
        return [rest for _, rest in await asyncio.gather(*(reader.read(one, ITEM) for one in answers))]

    return found, asyncio.run(play())


def test_a_page_as_most_are_is_read_at_once() -> None:
    found, _ = read_all(answer(READ_AT_ONCE))
    assert found.threads == [threading.get_ident()]
    assert not found.held


def test_large_answers_are_read_in_a_thread_one_at_a_time() -> None:
    found, _ = read_all(*[answer(READ_AT_ONCE + 1)] * 4)
    assert threading.get_ident() not in found.threads
    assert found.most_at_once == 1
    assert found.held == [len(HEAD) + 2 * (READ_AT_ONCE + 1)] * 4


def test_a_host_rests_for_the_framing_and_for_the_size_of_its_answers() -> None:
    _, (framing,) = read_all(answer(10, cpu=1.0))
    assert framing >= CPU_REST
    _, (size,) = read_all(answer(2 * LARGE))
    assert size >= LARGE * CPU_PER_BYTE * CPU_REST
