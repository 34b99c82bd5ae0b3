"""Reads one board: the pages of its listing, then the bodies that must be fetched.

A body is fetched when its row is new or has changed; and when it was last fetched longer than `BoardLimits.body_age`
ago, then conditionally, where the server gave a validator. All others are taken from the cache, or left to what the
last version has of them (`known`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from webmill.boards.board_list import Board
from webmill.boards.cache import CachedPage, PageCache, RefusedPage
from webmill.boards.listing import NoticeBody, NoticeListing, NoticeRow
from webmill.boards.notices import (
    below_last_page,
    best_date,
    item_id,
    make_notice,
    merge_listings,
    notice_content,
    row_digest,
)
from webmill.boards.parsing import ParserPool, RawPage
from webmill.boards.types import BoardResult, KnownNotice, Notice, ReaderOptions
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.visit.last_visit import if_changed, validators_of
from webmill.crawl.visit.page_fetcher import PageFetcher, PageRefusal
from webmill.crawl.visit.page_reader import media_type_of
from webmill.errors import BadInput, Unavailable
from webmill.infra.clock import SteadyClock
from webmill.publish.types import PublishProblem

VERSION = 1  # of what is parsed out of pages; entries of another version are not used
MAX_PROBLEMS = 50  # reported of one board

LISTING, DETAIL, SELECTOR = "board_list", "notice_detail", "selector"  # stages, as reference 004 calls them


class FetchOutcome(Struct, frozen=True):
    """A fetched page with its validators; `page` is None when it is not modified."""

    page: RawPage | None
    etag: str = ""
    modified: str = ""


class ReadingTools(Struct, frozen=True):
    fetcher: PageFetcher
    parsers: ParserPool
    cache: PageCache
    options: ReaderOptions
    zone: ZoneInfo
    clock: SteadyClock


class BoardReading:
    """One reading of one board."""

    def __init__(self, board: Board, known: Mapping[str, KnownNotice], tools: ReadingTools) -> None:
        self._board, self._known, self._tools = board, known, tools
        self._limits = tools.options.limits
        self._until = tools.clock() + self._limits.seconds
        self._problems: list[PublishProblem] = []
        self._counts: Counter[str] = Counter()
        self._kept: list[str] = []
        self._bodiless: list[NoticeRow] = []
        self._has_more = False  # pages of the listing
        self._cache_salt = msgspec.msgpack.encode(
            (VERSION, board.source, board.selectors, board.cms, tools.options.zone)
        )

    async def read(self) -> BoardResult:
        listings, refusal = await self._listings()
        if not listings:
            assert refusal
            return self._failed(refusal)
        rows = merge_listings(listings)
        if not rows and not any(listing.matched for listing in listings):
            missing = self._nothing_matched()
            if missing:
                return self._failed(missing)
        items = [notice for row in rows if (notice := await self._notice(row, listings[0].cms)) is not None]
        if self._bodiless:
            message = f"no body was found on {len(self._bodiless)} pages; the first is this one"
            self._report(SELECTOR, message, url=self._bodiless[0].url, item=item_id(self._board, self._bodiless[0]))
        seen = {item_id(self._board, row) for row in rows}
        gone = [id_ for id_ in self._known if id_ not in seen]
        is_unchanged = self._counts["listings_not_modified"] == len(listings) and not self._counts["bodies_asked"]
        return BoardResult(
            source=self._board.source,
            items=tuple(items),
            problems=self._reported(),
            not_modified=is_unchanged and refusal is None,
            kept=(*self._kept, *(gone if refusal else ())),
            beyond=() if refusal else self._beyond(gone, listings[-1]),
            counts=dict(self._counts),
        )

    # --- the listing ---

    async def _listings(self) -> tuple[list[NoticeListing], PageRefusal | None]:
        """Return the pages of the listing, and why it ended too early, if it did."""
        url, seen = self._board.url, {""}
        listings: list[NoticeListing] = []
        while url not in seen:
            if len(listings) == self._limits.pages:
                self._has_more = True
                break
            seen.add(url)
            listing = await self._listing(url)
            if isinstance(listing, PageRefusal):
                if listings:
                    self._report(LISTING, listing.message, url=url, retryable=listing.is_retryable)
                return listings, listing
            listings.append(listing)
            self._count_rows(listing, url)
            url = listing.next_url
        return listings, None

    async def _listing(self, url: str) -> NoticeListing | PageRefusal:
        key = self._key("listing", url)
        cached, now = await self._read_cache(key), self._tools.clock()
        is_old = cached is not None and now - cached.read >= self._limits.body_age
        got = await self._get(url, None if is_old else cached)
        if isinstance(got, PageRefusal):
            return got
        now = self._tools.clock()
        if got.page is None:
            assert cached is not None
            self._counts["listings_not_modified"] += 1
            await self._write_cache(key, replace(cached, checked=now))
            assert isinstance(cached.value, NoticeListing)
            return cached.value
        self._counts["parsed"] += 1
        moment = datetime.fromtimestamp(now, self._tools.zone)
        try:
            listing = await self._tools.parsers.listing(got.page, self._board, now=moment)
        except BadInput as error:
            return PageRefusal(f"{error.message} [{error.reason}]")
        if got.etag or got.modified:
            await self._write_cache(
                key, CachedPage(value=listing, checked=now, read=now, etag=got.etag, modified=got.modified)
            )
        return listing

    def _count_rows(self, listing: NoticeListing, url: str) -> None:
        self._counts["listings"] += 1
        self._counts["rows"] += len(listing.rows)
        self._counts.update({f"rows_{reason}": count for reason, count in listing.problems.items()})
        if count := listing.problems.get("bad_date"):
            text = next((row.date_text for row in listing.rows if not row.date and row.date_text), "")
            self._report(LISTING, f"{count} rows have no date that can be read{f': {text!r}' if text else ''}", url=url)
        for reason in ("bad_link", "no_title", "too_many"):
            if count := listing.problems.get(reason):
                self._report(LISTING, f"{count} rows were left out: {reason}", url=url)

    def _nothing_matched(self) -> PageRefusal | None:
        """Return a failure if notices were known: then the layout has changed. Else the board may be empty."""
        if self._known:
            return PageRefusal(
                f"nothing looks like a notice, where {len(self._known)} were known: has the layout changed?"
            )
        self._report(SELECTOR, "nothing looks like a notice: an empty board, or wrong selectors")
        return None

    # --- one notice ---

    async def _notice(self, row: NoticeRow, cms: str) -> Notice | None:
        board = self._board if self._board.cms else replace(self._board, cms=cms)
        id_, digest, key = item_id(self._board, row), row_digest(row), self._key("body", row.url)
        cached, known, now = await self._read_cache(key), self._known.get(id_), self._tools.clock()
        if cached is not None and cached.row == digest and now - cached.checked < self._limits.body_age:
            return self._make_notice(row, cached, known)
        if cached is None and known and known.row == digest and now - known.checked < self._limits.body_age:
            return self._reuse_known(row, known)
        if self._counts["bodies_asked"] >= self._limits.bodies:
            self._keep_known(
                id_, row, f"more than {self._limits.bodies} bodies to fetch; the rest comes with the next run"
            )
            return None
        is_same = cached is not None and cached.row == digest
        read = await self._body(row, board, cached if is_same else None)
        if isinstance(read, PageRefusal):
            self._keep_known(id_, row, read.message, is_gone=read.is_gone)
            return None
        made = replace(read, row=digest, date=best_date(row, cached, known))
        await self._write_cache(key, made)
        return self._make_notice(row, made, known)

    async def _body(self, row: NoticeRow, board: Board, cached: CachedPage | None) -> CachedPage | PageRefusal:
        """Fetch a body. A permanent refusal is cached like a body; a temporary one is not."""
        self._counts["bodies_asked"] += 1
        got = await self._get(row.url, cached)
        now = self._tools.clock()
        if isinstance(got, PageRefusal):
            if got.is_retryable or got.is_gone:
                return got
            return CachedPage(value=RefusedPage(got.message), checked=now)
        if got.page is None:
            assert cached is not None
            self._counts["bodies_not_modified"] += 1
            return replace(cached, checked=now)
        self._counts["parsed"] += 1
        try:
            body = await self._tools.parsers.body(got.page, board)
        except BadInput as error:
            return CachedPage(value=RefusedPage(f"{error.message} [{error.reason}]"), checked=now)
        return CachedPage(value=body, checked=now, etag=got.etag, modified=got.modified)

    def _make_notice(self, row: NoticeRow, cached: CachedPage, known: KnownNotice | None) -> Notice:
        body = cached.value if isinstance(cached.value, NoticeBody) else NoticeBody("")
        if isinstance(cached.value, RefusedPage):
            self._report(DETAIL, cached.value.message, url=row.url, item=item_id(self._board, row))
        elif not body.found:
            self._bodiless.append(row)
        elif body.is_cut:
            self._report(DETAIL, "the body was too long and was cut", url=row.url, item=item_id(self._board, row))
        row = replace(row, date=best_date(row, cached, known))
        return make_notice(self._board, row, content=notice_content(row, body), checked=cached.checked)

    def _reuse_known(self, row: NoticeRow, known: KnownNotice) -> Notice:
        self._counts["left_alone"] += 1
        row = replace(row, date=best_date(row, None, known))
        return make_notice(self._board, row, content=None, checked=known.checked, hash=known.hash)

    def _keep_known(self, id_: str, row: NoticeRow, message: str, *, is_gone: bool = False) -> None:
        """Keep what is known of a notice whose body cannot be read, unless it is gone."""
        if id_ in self._known and not is_gone:
            self._kept.append(id_)
        self._report(DETAIL, message, url=row.url, item=id_, retryable=not is_gone)

    def _beyond(self, gone: list[str], last: NoticeListing) -> tuple[str, ...]:
        """Return the known notices that are older than what we have read."""
        return tuple(below_last_page(gone, self._known, last)) if self._has_more else ()

    # --- fetching, cache and problems ---

    async def _get(self, url: str, cached: CachedPage | None) -> FetchOutcome | PageRefusal:
        self._counts["requests"] += 1
        conditions = if_changed(cached.etag, cached.modified) if cached else ()
        found = await self._tools.fetcher.get(url, headers=conditions, until=self._until)
        got = found if isinstance(found, PageRefusal) else read_response(found)
        if isinstance(got, FetchOutcome) and got.page is None and cached is None:
            return PageRefusal("the server answered 304 (not modified) to an unconditional request")
        return got

    async def _read_cache(self, key: str) -> CachedPage | None:
        try:
            return await asyncio.to_thread(self._tools.cache.find, key)
        except Unavailable:  # the cache is optional
            self._counts["cache_unavailable"] += 1
            return None

    async def _write_cache(self, key: str, cached: CachedPage) -> None:
        try:
            await asyncio.to_thread(self._tools.cache.put, key, cached)
        except Unavailable:
            self._counts["cache_unavailable"] += 1

    def _key(self, kind: str, url: str) -> str:
        return f"{kind} {blake2b(self._cache_salt + url.encode(errors='replace'), digest_size=20).hexdigest()}"

    def _failed(self, refusal: PageRefusal) -> BoardResult:
        self._report(LISTING, refusal.message, retryable=refusal.is_retryable)
        return BoardResult(
            source=self._board.source,
            problems=self._reported(),
            failed=True,
            retryable=refusal.is_retryable,
            counts=dict(self._counts),
        )

    def _report(
        self, stage: str, message: str, *, url: str = "", item: str | None = None, retryable: bool = False
    ) -> None:
        where = url or self._board.url
        source = self._board.source
        self._counts[f"problems_{stage}"] += 1
        self._problems.append(
            PublishProblem(stage=stage, message=message, source=source, url=where, item=item, retryable=retryable)
        )

    def _reported(self) -> tuple[PublishProblem, ...]:
        more = len(self._problems) - MAX_PROBLEMS
        if more <= 0:
            return tuple(self._problems)
        rest = PublishProblem(stage=LISTING, message=f"and {more} more problems", source=self._board.source)
        return (*self._problems[:MAX_PROBLEMS], rest)


def read_response(answer: FetchedResponse) -> FetchOutcome | PageRefusal:
    headers = answer.head.headers
    if answer.head.status == 304:
        return FetchOutcome(None)
    content_type = headers.get("Content-Type") or ""
    kind = media_type_of(content_type)
    if kind and "html" not in kind and "xml" not in kind and kind != "text/plain":
        return PageRefusal(f"not a page but {kind[:60]}")
    page = RawPage(answer.exchange.url, answer.payload, content_type)
    return FetchOutcome(page, *validators_of(headers))
