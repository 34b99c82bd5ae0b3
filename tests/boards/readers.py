"""Boards to be read: small sites of our own, and readers on the test web."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.pipeline.crawling import AGENT
from webmill.boards.board_list import Board, read_board_list
from webmill.boards.listing import selector_error
from webmill.boards.reader import BoardReader
from webmill.boards.types import BoardLimits, BoardResult, KnownNotice, ReaderOptions, board_manners
from webmill.crawl.options import CrawlLimits, NetworkAccess
from webmill.infra.child import ChildLimits
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, TestWeb
from webmill.testing.exchange import TEXT, etag_of
from webmill.testing.features import university

HOST = "board.names.test"
URL = f"http://{HOST}/list"
MIB = 1 << 20
NOTHING: Mapping[str, KnownNotice] = {}
CHILD = ChildLimits(cpu=2, wall=120, memory=512 * MIB, output=16 * MIB, written=MIB, may_fork=False)
Reply = Answer | Callable[[ReceivedRequest], Answer]


class Pages:
    """A host with these pages, and what it was asked for with which condition."""

    def __init__(self, **pages: Reply) -> None:
        self.pages_by_path: dict[str, Reply] = {f"/{name}": page for name, page in pages.items()}
        self.conditions: list[str] = []

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/robots.txt" and "/robots" not in self.pages_by_path:
            return HttpReply(body=b"User-agent: *\nAllow: /\n", media_type=TEXT)
        if "if-none-match" in request.headers:
            self.conditions.append(request.target)
        key = "/robots" if request.path == "/robots.txt" else request.target
        reply = self.pages_by_path.get(key) or self.pages_by_path.get(request.path)
        if reply is None:
            return HttpReply(status=404)
        return reply if isinstance(reply, HttpReply) or not callable(reply) else reply(request)

    def pages(self, version: int) -> Iterator[ExpectedPage]:
        return iter(())


def rows(*numbers: int, more: str = "", date: str = "2024.05.{:02}", title: str = "글 {}") -> HttpReply:
    """A listing, without validators."""
    lines = "".join(
        f'<tr><td>{n}</td><td><a href="view-{n}?seq={n}">{title.format(n)}</a></td><td>{date.format(n)}</td>'
        "<td>5</td></tr>"
        for n in numbers
    )
    link = f'<a rel="next" href="{more}">next</a>' if more else ""
    return HttpReply(body=f"<table><tr><th>글</th></tr>{lines}</table>{link}".encode())


def text(words: str) -> HttpReply:
    return HttpReply(body=f"<main><p>{words}</p></main>".encode())


def tagged(reply: HttpReply) -> HttpReply:
    return HttpReply(body=reply.body, etag=etag_of(reply.body))


def site(*numbers: int, **pages: Reply) -> Pages:
    """A listing of these notices, and their bodies; `view_5=…` is another answer for one, `list=…` for the listing."""
    bodies: dict[str, Reply] = {f"view-{n}": tagged(text(f"본문 {n}")) for n in numbers}
    own = {name.replace("_", "-"): page for name, page in pages.items()}
    return Pages(**{"list": tagged(rows(*numbers)), **bodies, **own})


def board(url: str = URL, **fields: Any) -> Board:
    return Board(**{"source": "uni/cs/notice", "board": "notice", "url": url, **fields})


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder whose `frontier/gates.sqlite` may be judged by crawl_manners; in memory, where syncs cost nothing."""
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    (base / "frontier").mkdir()
    yield base
    shutil.rmtree(base)


def options(
    root: Path, web: TestWeb, *, delay: float = 0.001, allow_private: bool = True, **limits: Any
) -> ReaderOptions:
    requests = {"retry_wait": 0.01, "deadline": 60.0, "body": 4 * MIB, "attempts": 2, "redirects": 5}
    requests |= {name: limits.pop(name) for name in requests.keys() & limits.keys()}
    return ReaderOptions(
        politeness=board_manners(AGENT, delay=delay, address_delay=delay),
        gates=root / "frontier" / "gates.sqlite",
        cache=root / "cache.sqlite",
        limits=BoardLimits(**{"child": CHILD, "seconds": 600.0, **limits}),
        requests=CrawlLimits(**requests),
        network=NetworkAccess(allow_private=allow_private, resolve=dict(web.resolve)),
        parsers=1,
    )


class Stand(msgspec.Struct, frozen=True):
    """A host of its own in the town, and a reader."""

    reader: BoardReader
    web: TestWeb
    host: str

    def read(self, *, past: Mapping[str, KnownNotice] = NOTHING, **fields: Any) -> BoardResult:
        return self.reader.read(board(f"http://{self.host}/list", **fields), known=past)

    def asked(self) -> list[str]:
        return asked(self.web, self.host)


class BoardSites:
    """One web for many tests, each on a host of its own; readers with the same limits are one: they start slowly."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._root, self._stack = root, stack
        self._sites: dict[str, Pages] = {}
        self._names = [f"b{number}.town.test" for number in range(100)]
        self.web = stack.enter_context(TestWeb(hosts=0, sites=dict.fromkeys(self._names, self)))
        self._readers: dict[str, BoardReader] = {}

    def answer(self, request: ReceivedRequest) -> Answer:
        return self._sites[request.host].answer(request)

    def pages(self, version: int) -> Iterator[ExpectedPage]:
        return iter(())

    def place(self, pages: Pages, /, **given: Any) -> Stand:
        host = self._names.pop()
        self._sites[host] = pages
        key = repr(sorted(given.items()))
        if key not in self._readers:
            self._readers[key] = self._stack.enter_context(BoardReader(options(self._root, self.web, **given)))
        return Stand(self._readers[key], self.web, host)


def known(reading: BoardResult) -> dict[str, KnownNotice]:
    """What a publisher would remember of it."""
    return {
        one.id: KnownNotice(
            hash=f"hash of {one.id}", row=one.row, checked=one.checked, date=str(one.metadata.get("date", ""))
        )
        for one in reading.items
    }


def university_boards() -> tuple[Board, ...]:
    return read_board_list(university.board_list(), selector_error=selector_error).boards


def read_all(
    reader: BoardReader, boards: tuple[Board, ...], past: dict[str, KnownNotice] | None = None
) -> dict[str, BoardResult]:
    """By many threads at once, as workers do."""
    with ThreadPoolExecutor(64) as threads:
        return {
            one.source: one for one in threads.map(lambda each: reader.read(each, known=_of(each, past or {})), boards)
        }


def _of(board_: Board, past: dict[str, KnownNotice]) -> dict[str, KnownNotice]:
    return {id_: one for id_, one in past.items() if id_.startswith(f"{board_.source}/")}


def asked(web: TestWeb, host: str = HOST) -> list[str]:
    assert web.log.settle(seconds=60)
    return [visit.path for visit in web.log.visits(host=host)]
