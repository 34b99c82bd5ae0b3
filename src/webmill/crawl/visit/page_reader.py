"""What an answer means for the crawl: links, redirects, sitemaps, and how it is archived. No input, no output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, TypedDict

import msgspec

from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import PAGE_RESOURCE, SITEMAP, ClaimedUrl, LastVisit
from webmill.crawl.options import AGENT, Manners, Rules
from webmill.crawl.page.links import PageLinks, read_links
from webmill.crawl.page.resources import (
    Requisite,
    read_module_requisites,
    read_page,
    read_requisites,
    read_sheet_requisites,
)
from webmill.crawl.page.url_joining import without_user
from webmill.crawl.politeness.robots import robots_directives
from webmill.crawl.scope import Scope, extension_of
from webmill.crawl.visit.embedded_pages import Bare, BarePages
from webmill.crawl.visit.recent_links import Recent
from webmill.crawl.visit.resource_shares import MOST_STEPS, Belonging, deal
from webmill.errors import BadInput
from webmill.formats.site.sitemap import looks_like_sitemap, read_sitemap
from webmill.formats.url.normalise import join
from webmill.formats.warc.capture import Capture, Subset
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.model import Headers, Link

REDIRECTS = frozenset({301, 302, 303, 307, 308})
SEED, REDIRECTED, LINKED = 3, 4, 5  # priorities
SITEMAPS_DEEP = 3  # an index names maps, and at some sites indexes; a chain of them without an end is a trap

MOST_ETAG, MOST_MODIFIED = 500, 100  # characters

CUT = frozenset({"page_too_long", "too_many_links"})  # flaws of a page of which not all was read
SHEET = "text/css"
SCRIPTS = frozenset({"text/javascript", "application/javascript", "application/x-javascript", "text/ecmascript"})

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

Kind = Literal["page", "sitemap", "redirect", "not_modified", "requisite"]


class Page(msgspec.Struct, frozen=True):
    kind: Kind
    links: list[Link]
    refused: Counter[str]  # links that are not followed, by reason


NOTHING = Page("requisite", [], Counter())
ASTRAY = Page("requisite", [], Counter(redirect_refused=1))  # to a file, a script, nowhere


class Reader:
    """Reads answers by the rules of one crawl. `requisites`: how many one page may bring."""

    def __init__(self, scope: Scope, rules: Rules, manners: Manners, *, requisites: int) -> None:
        self._scope, self._rules, self._manners = scope, rules, manners
        self._page = Belonging(steps=-1, share=requisites)
        self._recent = Recent()
        self._bare = BarePages()
        self.endings: Counter[str] = Counter()  # of links that were not followed for that

    def read(self, fetched: FetchedResponse, item: ClaimedUrl) -> Page:
        status = fetched.head.status
        if status == 304 and conditions(item.last):
            return Page("not_modified", [], Counter())
        if item.priority == PAGE_RESOURCE:
            return self._read_requisite(fetched, item)
        if status in REDIRECTS and (location := fetched.head.headers.get("Location")):
            return self._read_redirect(location, item)
        if status != 200:
            return Page("page", [], Counter())
        if self._rules.sitemaps and looks_like_sitemap(fetched.payload):
            return self._read_sitemap(fetched.payload, item, fetched.head.headers)
        return self._read_page(fetched, item)

    def _read_redirect(self, location: str, item: ClaimedUrl) -> Page:
        targets = redirected(item.url, location)
        if not targets:
            return Page("redirect", [], ASTRAY.refused)
        if item.priority == SITEMAP:
            return self._maps_below(self.sitemaps(targets, item.url), item, kind="sitemap")
        return self._followed("redirect", targets, item.depth, REDIRECTED, redirects=item.redirects + 1)

    def _read_sitemap(self, payload: bytes, item: ClaimedUrl, headers: Headers) -> Page:
        try:
            sitemap = read_sitemap(payload)
        except BadInput as error:
            return Page("page", [], Counter({error.reason: 1}))
        entries = joined(item.url, (entry.loc for entry in sitemap.urls))
        kind: Kind = "sitemap" if item.priority == SITEMAP else "page"  # feeds are pages that people link to
        if kind == "page" and self._manners.obey_nofollow and robots_directives(headers, agent=AGENT).nofollow:
            return Page(kind, [], Counter(nofollow=len(entries)))
        pages = self._followed(kind, entries, item.depth + 1, LINKED)
        maps = self._maps_below(self.sitemaps(sitemap.sitemaps, item.url), item, kind=kind)
        return Page(kind, [*maps.links, *pages.links], pages.refused + maps.refused)

    def _maps_below(self, urls: list[str], item: ClaimedUrl, *, kind: Kind) -> Page:
        depth = item.sitemap_depth + item.redirects  # an index may be met as a page, behind redirects
        if depth >= SITEMAPS_DEEP:
            return Page(kind, [], Counter(sitemap_too_deep=len(urls)) if urls else Counter())
        return Page(kind, [Link(url, item.depth, SITEMAP, sitemap_depth=depth + 1) for url in urls], Counter())

    def is_excluded(self, url: str) -> bool:
        return self._scope.excludes(url)

    def hand_on(self, links: Iterable[Link]) -> None:
        """They go into the frontier: a second look at them is not needed."""
        for link in links:
            self._recent.add(link.url)
            if self._rules.requisites:
                if link.priority != PAGE_RESOURCE:
                    self._bare.link(link.url)
                elif not link.resource_share:
                    self._bare.name(link.url)

    def sitemaps(self, urls: Iterable[str], base: str) -> list[str]:
        """Those that may be read."""
        return [url for url in joined(base, urls) if self._scope.decide_sitemap(url) is None]

    def _read_page(self, fetched: FetchedResponse, item: ClaimedUrl) -> Page:
        if not is_html(content_type_of(fetched), fetched.payload):
            return Page("page", [], Counter())
        self._bare.count()
        page, requisites = self._taken_apart(fetched, item)
        found = self._linked(fetched, item, page)
        if not requisites:
            return found
        needed = self._needed(requisites, item.depth, self._page)
        return Page("page", [*needed.links, *found.links], found.refused + needed.refused)

    def _taken_apart(self, fetched: FetchedResponse, item: ClaimedUrl) -> tuple[PageLinks, list[Requisite]]:
        if self._rules.requisites:
            return read_page(fetched.payload, url=item.url, **fields_of(fetched))
        return read_links(fetched.payload, url=item.url, **fields_of(fetched)), []

    def _linked(self, fetched: FetchedResponse, item: ClaimedUrl, page: PageLinks) -> Page:
        if self._manners.obey_nofollow and self._forbids(fetched, page):
            return Page("page", [], Counter(nofollow=len(page.links)))
        links = page.links
        refused = Counter(flaw for flaw in page.flaws if flaw in CUT)
        if self._manners.obey_nofollow and page.nofollow:
            links = [url for url in links if url not in page.nofollow]
            refused["nofollow"] = len(page.links) - len(links)
        found = self._followed("page", links, item.depth + 1, LINKED)
        return Page("page", found.links, found.refused + refused)

    def _forbids(self, fetched: FetchedResponse, page: PageLinks) -> bool:
        return robots_directives(fetched.head.headers, page.meta_robots, agent=AGENT).nofollow

    def _followed(self, kind: Kind, urls: list[str], depth: int, priority: int, *, redirects: int = 0) -> Page:
        links: list[Link] = []
        refused: Counter[str] = Counter()
        if self._rules.requisites:
            for url in urls:
                if url in self._recent:
                    more = self._left_out(url)
                    links += more.links
                    refused += more.refused
        for url in self._recent.without(urls):
            reason = self._scope.decide(url, depth)
            if reason is None:
                links.append(Link(url, depth, priority, redirects))
            else:
                refused[reason] += 1
                if reason == "extension":
                    self.endings[extension_of(url)] += 1
        return Page(kind, links, refused)

    # --- what pages need ---

    def _read_requisite(self, fetched: FetchedResponse, item: ClaimedUrl) -> Page:
        """A document in the scope of the crawl is a page as well: its links are followed. No others are."""
        own, status = Belonging(item.resource_steps, item.resource_share), fetched.head.status
        if status in REDIRECTS and (location := fetched.head.headers.get("Location")):
            targets = [(url, own.share) for url in redirected(item.url, location)]
            return self._brought(targets, item.depth, own) if targets else ASTRAY
        if status != 200:
            return NOTHING
        if not is_html(content_type_of(fetched), fetched.payload):
            return self._needed(self._embedded(fetched, item), item.depth, own)
        if self._scope.decide(item.url, item.depth):
            is_frame = own.share and self._rules.requisites
            frame = read_requisites(fetched.payload, url=item.url, **fields_of(fetched)) if is_frame else []
            return self._needed(frame, item.depth, own)
        page, requisites = self._taken_apart(fetched, item)
        found, needed = self._linked(fetched, item, page), self._of_frame(requisites, item, own)
        return Page("requisite", [*needed.links, *found.links], found.refused + needed.refused)

    def _embedded(self, fetched: FetchedResponse, item: ClaimedUrl) -> list[Requisite]:
        """Of what is no document."""
        media_type = media_type_of(content_type_of(fetched))
        if self._rules.requisites and media_type == SHEET:
            return read_sheet_requisites(fetched.payload, url=item.url)
        if self._rules.requisites and media_type in SCRIPTS and item.resource_share:  # a module
            return read_module_requisites(fetched.payload, url=item.url)
        return []

    def _of_frame(self, requisites: list[Requisite], item: ClaimedUrl, own: Belonging) -> Page:
        """Without a share it is hardly a frame: servers answer with a page, too, when they have no such picture."""
        if own.share:
            return self._needed(requisites, item.depth, own)
        page = Bare(item.depth, requisites)
        return self._whole(page) if self._bare.read(item.url, page) else NOTHING

    def _left_out(self, url: str) -> Page:
        """What a page needs that was asked for as a picture, when a link to it is met."""
        self._bare.link(url)
        bare = self._bare.take(url)
        return self._whole(bare) if bare else NOTHING

    def _whole(self, bare: Bare) -> Page:
        if not self._bare.spend():
            return Page("requisite", [], Counter(too_many_requisites=len(bare.requisites)))
        return self._needed(bare.requisites, bare.depth, self._page)

    def _needed(self, requisites: list[Requisite], depth: int, own: Belonging) -> Page:
        dealt = deal(requisites, own.share)
        page = self._brought(dealt.taken, depth, own)
        return Page("requisite", page.links, page.refused + Counter(too_many_requisites=dealt.left_out))

    def _brought(self, shares: Sequence[tuple[str, int]], depth: int, own: Belonging) -> Page:
        if own.steps >= MOST_STEPS:
            return Page("requisite", [], Counter(requisite_too_far=len(shares)))
        links: list[Link] = []
        refused: Counter[str] = Counter()
        for url, share in shares:
            if url in self._recent:
                continue
            if reason := self._scope.decide_requisite(url):
                refused[reason] += 1
            else:
                link = Link(url, depth, PAGE_RESOURCE, resource_steps=own.steps + 1, resource_share=share)
                links.append(link)
        return Page("requisite", links, refused)


def redirected(url: str, location: str) -> list[str]:
    """Where a Location leads: one URL, or none. HTTP fields are Latin-1 to us. Browsers escape the bytes that are not
    ASCII, whatever they mean (they should be UTF-8)."""
    return joined(url, [_NOT_ASCII.sub(lambda found: f"%{ord(found[0]) & 255:02X}", location)])


def joined(base: str, urls: Iterable[str]) -> list[str]:
    found = []
    for url in urls:
        try:
            found.append(without_user(join(base, url)))
        except BadInput:
            pass  # no link at all, as in a page
    return found


def content_type_of(fetched: FetchedResponse) -> str | None:
    return fetched.head.headers.get("Content-Type")


class Fields(TypedDict):
    """What a page is read with, beside its payload and its URL."""

    content_type: str | None
    link_field: str | None


def fields_of(fetched: FetchedResponse) -> Fields:
    link_field = ", ".join(fetched.head.headers.get_all("Link")) or None
    return Fields(content_type=content_type_of(fetched), link_field=link_field)


def media_type_of(content_type: str | None) -> str:
    """As the server calls it: browsers take nothing else for a sheet or a module."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_html(content_type: str | None, payload: bytes) -> bool:
    """As the server calls it; where it says nothing, or "some bytes", as it looks."""
    named = media_type_of(content_type)
    if named in ("text/html", "application/xhtml+xml"):
        return True
    return named in ("", "application/octet-stream") and b"<html" in payload[:1024].lower()


def capture_of(fetched: FetchedResponse, item: ClaimedUrl, kind: Kind) -> Capture:
    subset: Subset = "warc" if fetched.head.status == 200 else "crawldiagnostics"
    if kind == "not_modified" and item.last:
        return Capture(exchange=fetched.exchange, kind="not_modified", original=original_of(item.last), subset=subset)
    extra = (("hopsFromSeed", str(item.depth)),)
    headers = fetched.head.headers
    return Capture(exchange=fetched.exchange, payload=fetched.payload, headers=headers, subset=subset, extra=extra)


def original_of(last: LastVisit) -> OriginalCapture:
    time = last.record_time or last.time
    return OriginalCapture(
        record_id=last.record_id,
        uri=last.record_url or last.url,
        date=datetime.fromtimestamp(time, UTC),
        payload_digest=last.digest or None,
    )


def conditions(last: LastVisit | None) -> tuple[tuple[str, str], ...]:
    """Only "if it has changed", where we have what it would be compared with: a whole page, maybe of a visit before the
    last one."""
    if last is None or not last.record_id:
        return ()
    return if_changed(last.etag, last.modified)


def if_changed(etag: str, modified: str) -> tuple[tuple[str, str], ...]:
    """The header fields that ask for a page only if it is another than the one these validators came with."""
    if etag:
        return (("If-None-Match", etag),)
    return (("If-Modified-Since", modified),) if modified else ()


def validators_of(headers: Headers) -> tuple[str, str]:
    """ETag and Last-Modified, each empty where it is missing or too long to be kept."""
    etag, modified = headers.get("ETag") or "", headers.get("Last-Modified") or ""
    return etag if len(etag) <= MOST_ETAG else "", modified if len(modified) <= MOST_MODIFIED else ""
