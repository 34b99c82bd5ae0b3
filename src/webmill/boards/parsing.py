"""Parses pages in child processes that can be killed: whatever a page does to its parser becomes BadInput."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from queue import SimpleQueue

from msgspec import Struct

from webmill.boards.board_list import Board
from webmill.boards.listing import NoticeBody, NoticeListing, read_body, read_listing
from webmill.boards.named_links import NamedLinks, read_named_links
from webmill.errors import BadInput
from webmill.infra.child import ChildLimits
from webmill.infra.sandbox import Sandbox

FUNCTION = "webmill.boards.parsing:read_page"


class ParsedPage(Struct, frozen=True):
    listing: NoticeListing | None = None
    body: NoticeBody | None = None
    links: NamedLinks | None = None


class RawPage(Struct, frozen=True):
    """A page as it was received."""

    url: str
    payload: bytes
    content_type: str


def read_page(payload: bytes, *, url: str, content_type: str, board: Board | None, now: datetime | None) -> ParsedPage:
    """Parse the links of a page without a board; a listing if `now` is given, else a body. Runs in the child."""
    if board is None:
        return ParsedPage(links=read_named_links(payload, url=url, content_type=content_type))
    if now is None:
        return ParsedPage(body=read_body(payload, url=url, content_type=content_type, board=board))
    return ParsedPage(listing=read_listing(payload, url=url, content_type=content_type, board=board, now=now))


class ParserPool:
    def __init__(self, count: int, *, limits: ChildLimits) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="webmill-parse")
        self._idle: SimpleQueue[Sandbox[ParsedPage]] = SimpleQueue()
        self._all = [Sandbox(FUNCTION, returns=ParsedPage, limits=limits) for _ in range(count)]
        for sandbox in self._all:
            self._idle.put(sandbox)

    async def listing(self, page: RawPage, board: Board, *, now: datetime) -> NoticeListing:
        """BadInput: bad_selector, parse_limit, parse_crash, parse_error."""
        parsed = await self._parse(page, board, now)
        if parsed.listing is None:
            raise BadInput("the parser returned something else", reason="parse_crash")
        return parsed.listing

    async def body(self, page: RawPage, board: Board) -> NoticeBody:
        parsed = await self._parse(page, board, None)
        if parsed.body is None:
            raise BadInput("the parser returned something else", reason="parse_crash")
        return parsed.body

    async def links(self, page: RawPage) -> NamedLinks:
        parsed = await self._parse(page, None, None)
        if parsed.links is None:
            raise BadInput("the parser returned something else", reason="parse_crash")
        return parsed.links

    async def _parse(self, page: RawPage, board: Board | None, now: datetime | None) -> ParsedPage:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, page, board, now)

    def _call(self, page: RawPage, board: Board | None, now: datetime | None) -> ParsedPage:
        sandbox = self._idle.get()
        try:
            return sandbox.call(page.payload, url=page.url, content_type=page.content_type, board=board, now=now)
        finally:
            self._idle.put(sandbox)

    def close(self) -> None:
        """Close the pool after what is being parsed."""
        self._threads.shutdown(cancel_futures=True)
        for sandbox in self._all:
            sandbox.close()
