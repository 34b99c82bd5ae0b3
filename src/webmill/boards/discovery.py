"""Finds the notice boards of web sites: fetches their home pages and site maps politely, and tries to read what is
named like a board.

    home page, site map ─▶ links by keyword or URL of a known system ─▶ fetched ─▶ read as a list of notices ─▶ board
                                                                            └─ in doubt ─▶ for review

A board is only reported if the selectors of `cms_patterns` read a list of dated notices from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from webmill.boards.board_list import Board
from webmill.boards.discovery_rules import (
    KEYWORDS,
    BoardCandidate,
    BoardKeyword,
    DepartmentLink,
    board_candidates,
    boards_elsewhere,
    department_id,
    department_links,
    is_cms_url,
    listing_doubt,
    site_map_links,
    site_name,
    unique_id,
)
from webmill.boards.listing import NoticeListing
from webmill.boards.named_links import NamedLinks
from webmill.boards.parsing import RawPage
from webmill.boards.reading import ReadingTools, read_response
from webmill.crawl.visit.page_fetcher import PageRefusal
from webmill.errors import BadInput
from webmill.formats.url.normalise import host_of

MAX_CANDIDATES = 40  # pages fetched of one site, beside its home page and site maps
MAX_SITE_MAPS = 2
MAX_DEPARTMENTS = 500
SITES_AT_ONCE = 16


class FoundBoard(Struct, frozen=True):
    """An entry of a board list; `cms` is the pattern that reads it."""

    id: str
    name: str
    url: str
    cms: str


class FoundDepartment(Struct, frozen=True):
    id: str
    name: str
    url: str
    boards: tuple[FoundBoard, ...]


class ReviewEntry(Struct, frozen=True):
    """A page that somebody must look at, as `mapReview.json` lists them."""

    campus: str
    name: str
    url: str
    reason: str


class FoundCampus(Struct, frozen=True):
    """An entry of a board list."""

    campus: str
    departments: tuple[FoundDepartment, ...]
    colleges: tuple[str, ...] = ()


class Discovery(Struct, frozen=True):
    campus: FoundCampus
    review: tuple[ReviewEntry, ...]

    def board_list(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode([self.campus]), indent=2) + b"\n"

    def review_list(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self.review), indent=2) + b"\n"


class DiscoveryOptions(Struct, frozen=True, kw_only=True):
    campus: str
    keywords: tuple[BoardKeyword, ...] = KEYWORDS


async def discover_boards(tools: ReadingTools, urls: Sequence[str], *, options: DiscoveryOptions) -> Discovery:
    """Find the boards of sites whose home pages are given."""
    return await _search_sites(tools, [DepartmentLink("", url) for url in urls], options=options, review=[])


async def discover_departments(tools: ReadingTools, urls: Sequence[str], *, options: DiscoveryOptions) -> Discovery:
    """Find the boards of all departments whose home pages are listed on these pages."""
    sites: dict[str, DepartmentLink] = {}
    review: list[ReviewEntry] = []
    for url in urls:
        page = await _fetch_links(tools, url, until=tools.clock() + tools.options.limits.seconds)
        if isinstance(page, PageRefusal):
            review.append(ReviewEntry(options.campus, "", url, page.message))
            continue
        found = {site.url: site for site in department_links(page.url, page.links)}
        if not found:
            review.append(ReviewEntry(options.campus, page.links.title, url, "it lists no home pages of departments"))
        sites |= found
    every = list(sites.values())
    some, left = every[:MAX_DEPARTMENTS], every[MAX_DEPARTMENTS:]
    reason = f"not read: more than {MAX_DEPARTMENTS} departments"
    review += [ReviewEntry(options.campus, site.name, site.url, reason) for site in left]
    return await _search_sites(tools, some, options=options, review=review)


async def _search_sites(
    tools: ReadingTools, sites: Sequence[DepartmentLink], *, options: DiscoveryOptions, review: list[ReviewEntry]
) -> Discovery:
    at_once = asyncio.Semaphore(SITES_AT_ONCE)

    async def search(site: DepartmentLink) -> SiteSearch:
        async with at_once:
            found = SiteSearch(tools, site, options)
            await found.run()
            return found

    departments: dict[str, FoundDepartment] = {}
    for found in await asyncio.gather(*map(search, sites)):
        review += found.review
        if found.boards:
            id_ = unique_id(department_id(found.url), departments)
            departments[id_] = FoundDepartment(id_, found.name, found.url, tuple(found.boards.values()))
    return Discovery(FoundCampus(options.campus, tuple(departments.values())), tuple(review))


class SiteSearch:
    """The search for boards on one site. `boards` are by id."""

    def __init__(self, tools: ReadingTools, site: DepartmentLink, options: DiscoveryOptions) -> None:
        self.name, self.url = site.name, site.url
        self.boards: dict[str, FoundBoard] = {}
        self.review: list[ReviewEntry] = []
        self._tools, self._options = tools, options
        self._until = tools.clock() + tools.options.limits.seconds
        self._names_by_rows: dict[frozenset[str], str] = {}  # boards by the notices that they list
        self._read: set[str] = set()  # addresses that were read, after redirects

    async def run(self) -> None:
        home = await _fetch_links(self._tools, self.url, until=self._until)
        if isinstance(home, PageRefusal):
            self._doubt(self.name, self.url, home.message)
            return
        self.url, self.name = home.url, self.name or site_name(home.links, home.url)
        candidates = await self._candidates(home)
        for candidate in candidates[:MAX_CANDIDATES]:
            await self._check(candidate)
        for candidate in candidates[MAX_CANDIDATES:]:
            if candidate.keyword:
                self._doubt(candidate.name, candidate.url, f"not read: the site has more than {MAX_CANDIDATES} of them")
        if not self.boards and not self.review:
            self._doubt(self.name, self.url, "nothing on it is named like a board")

    async def _candidates(self, home: FetchedLinks) -> list[BoardCandidate]:
        links = list(home.links.links)
        for url in site_map_links(home.url, home.links)[:MAX_SITE_MAPS]:
            more = await _fetch_links(self._tools, url, until=self._until)
            if not isinstance(more, PageRefusal):
                links += more.links.links
        keywords = self._options.keywords
        for elsewhere in boards_elsewhere(home.url, links, keywords)[:MAX_CANDIDATES]:
            self._doubt(elsewhere.name, elsewhere.url, f"on another host, {host_of(elsewhere.url)}")
        own = [BoardCandidate(home.url, self.name, "board")] if is_cms_url(home.url) else []
        return [*own, *(one for one in board_candidates(home.url, links, keywords) if one.url != home.url)]

    async def _check(self, candidate: BoardCandidate) -> None:
        """Fetch a candidate, and add it to the boards or to what is in doubt."""
        page = await _fetch(self._tools, candidate.url, until=self._until)
        if isinstance(page, PageRefusal):
            self._reject(candidate, page)
            return
        if page.url in self._read:  # another name of the same page
            return
        self._read.add(page.url)
        listing = await self._listing(page)
        if isinstance(listing, PageRefusal):
            self._reject(candidate, listing)
            return
        doubt = self._doubt_about(page.url, candidate, listing)
        if not doubt:
            self._add(candidate, page.url, listing)
            await self._check_body(candidate, listing)
        elif candidate.keyword or not listing_doubt(listing):
            self._doubt(candidate.name, candidate.url, doubt)

    def _reject(self, candidate: BoardCandidate, refusal: PageRefusal) -> None:
        if candidate.keyword:  # without one it was a guess
            self._doubt(candidate.name, candidate.url, refusal.message)

    def _doubt_about(self, url: str, candidate: BoardCandidate, listing: NoticeListing) -> str:
        if host_of(url).removeprefix("www.") != host_of(self.url).removeprefix("www."):
            return f"it leads to another host, {host_of(url)}"
        if url == self.url and not is_cms_url(url):
            return "it leads back to the home page"
        if doubt := listing_doubt(listing):
            return doubt
        if same := self._names_by_rows.get(_row_urls(listing)):
            return f"it lists the same notices as {same}"
        return "" if candidate.keyword else f"it lists notices ({listing.cms}), but its name has no known keyword"

    async def _listing(self, page: RawPage) -> NoticeListing | PageRefusal:
        now = datetime.fromtimestamp(self._tools.clock(), self._tools.zone)
        try:
            return await self._tools.parsers.listing(page, Board(source="", board="", url=page.url), now=now)
        except BadInput as error:
            return PageRefusal(f"{error.message} [{error.reason}]")

    async def _check_body(self, candidate: BoardCandidate, listing: NoticeListing) -> None:
        """Report a board whose notices would be published without their text."""
        page = await _fetch(self._tools, listing.rows[0].url, until=self._until)
        if isinstance(page, PageRefusal):
            return
        try:
            body = await self._tools.parsers.body(page, Board(source="", board="", url=page.url, cms=listing.cms))
        except BadInput:
            return
        if not body.found:
            reason = "it is in the list, but no text is found on the pages of its notices: add a body_selector"
            self._doubt(candidate.name, candidate.url, reason)

    def _add(self, candidate: BoardCandidate, url: str, listing: NoticeListing) -> None:
        id_ = unique_id(candidate.keyword, self.boards)
        self.boards[id_] = FoundBoard(id_, candidate.name, url, listing.cms)
        self._names_by_rows[_row_urls(listing)] = candidate.name

    def _doubt(self, name: str, url: str, reason: str) -> None:
        self.review.append(ReviewEntry(self._options.campus, name, url, reason))


class FetchedLinks(Struct, frozen=True):
    """The links of a page, and its address after redirects."""

    url: str
    links: NamedLinks


async def _fetch(tools: ReadingTools, url: str, *, until: float) -> RawPage | PageRefusal:
    answer = await tools.fetcher.get(url, until=until)
    if isinstance(answer, PageRefusal):
        return answer
    got = read_response(answer)
    if isinstance(got, PageRefusal):
        return got
    return got.page or PageRefusal("the server answered 304 (not modified) to an unconditional request")


async def _fetch_links(tools: ReadingTools, url: str, *, until: float) -> FetchedLinks | PageRefusal:
    page = await _fetch(tools, url, until=until)
    if isinstance(page, PageRefusal):
        return page
    try:
        return FetchedLinks(page.url, await tools.parsers.links(page))
    except BadInput as error:
        return PageRefusal(f"{error.message} [{error.reason}]")


def _row_urls(listing: NoticeListing) -> frozenset[str]:
    return frozenset(row.url for row in listing.rows)
