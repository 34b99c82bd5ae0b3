"""What a response means for the crawl: which links are followed, which page resources are fetched, what is archived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TypedDict

import msgspec

from webmill.crawl.browser.renderer import RenderedPage
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import LATER_SITEMAP, PAGE_RESOURCE, SITEMAPS, ClaimedUrl
from webmill.crawl.options import ROBOTS_NAME, CrawlRules, Politeness
from webmill.crawl.page.links import PageLinks, read_links
from webmill.crawl.page.resources import (
    PageResource,
    read_module_resources,
    read_page,
    read_resources,
    read_sheet_resources,
)
from webmill.crawl.page.url_joining import join_urls, redirect_target
from webmill.crawl.politeness.robots import robots_directives
from webmill.crawl.scope import Scope, extension_of
from webmill.crawl.sites import CrawlSites
from webmill.crawl.visit.captures import AnswerKind
from webmill.crawl.visit.last_visit import conditions
from webmill.crawl.visit.link_opinions import ask_plugins
from webmill.crawl.visit.link_order import LINKED, order_listed
from webmill.crawl.visit.recent_links import EmbeddedPage, EmbeddedPages, RecentLinks
from webmill.crawl.visit.resource_share import ResourceShare, share_out
from webmill.crawl.visit.sitemap_links import times_of_change, with_sitemap_priorities
from webmill.crawl.yields.folding import fold_url
from webmill.crawl.yields.page_sample import PageSample, sample_page, sample_payload
from webmill.errors import BadInput
from webmill.formats.site.sitemap import Sitemap, looks_like_sitemap, read_sitemap
from webmill.infra.plugins.loaded import NO_PLUGINS, Plugins
from webmill.model import Headers, Link

SEED, REDIRECTED = 3, 4  # priorities
MOST_SITEMAP_LEVELS = 3  # an index names sitemaps, and at some sites indexes; a chain of them without an end is a trap


CUT = frozenset({"page_too_long", "too_many_links"})  # flaws of a page of which not all was read
STYLE_SHEET = "text/css"
SCRIPTS = frozenset({"text/javascript", "application/javascript", "application/x-javascript", "text/ecmascript"})

MOST_STEPS = 7  # from the page


class PageReading(msgspec.Struct, frozen=True):
    """What was read in a response."""

    kind: AnswerKind
    links: list[Link]
    refused: Counter[str]  # links that are not followed, by reason
    lists_pages: bool = False  # it is a sitemap or a feed
    sample: PageSample | None = None  # what the page shows, where it is judged by that
    known: Sequence[str] = ()  # URLs that it has links to and that went into the frontier a short while ago


NOTHING = PageReading("resource", [], Counter())
NOWHERE = PageReading("resource", [], Counter(redirect_refused=1))  # redirected to a file, a script, nowhere


class PageReader:
    """Reads responses by the rules of one crawl. `page_resources`: how many one page may bring. `since`: when the rules
    became what they are."""

    def __init__(
        self,
        scope: Scope,
        rules: CrawlRules,
        politeness: Politeness,
        *,
        page_resources: int,
        sites: CrawlSites | None = None,
        since: float = 0.0,
        plugins: Plugins = NO_PLUGINS,
    ) -> None:
        self._plugins = plugins
        self._scope, self._rules, self._politeness, self._sites, self.since = scope, rules, politeness, sites, since
        self._page_share = ResourceShare(steps=-1, share=page_resources)
        self._recent = RecentLinks()
        self._embedded = EmbeddedPages()
        self._lock = Lock()  # a large answer is read in a thread
        self.skipped_endings: Counter[str] = Counter()  # of links that were not followed because of their ending

    def read(self, fetched: FetchedResponse, item: ClaimedUrl) -> PageReading:
        return self._with_more_links(self._read(fetched, item), fetched, item)

    def _read(self, fetched: FetchedResponse, item: ClaimedUrl) -> PageReading:
        status = fetched.head.status
        if status == 304 and conditions(item.last, since=self.since):
            return PageReading("not_modified", [], Counter())
        if item.priority == PAGE_RESOURCE:
            return self._read_resource(fetched, item)
        if (target := redirect_target(item.url, fetched.head)) is not None:
            return self._read_redirect(target, item)
        if status != 200:
            return PageReading("page", [], Counter())
        if self._rules.sitemaps and looks_like_sitemap(fetched.payload):
            return self._read_sitemap(fetched.payload, item, fetched.head.headers)
        return self._read_page(fetched, item)

    def read_rendered(self, fetched: FetchedResponse, item: ClaimedUrl, rendered: RenderedPage) -> PageReading:
        """Return what a page is that a browser has shown. What it needs to be displayed was fetched by that."""
        if rendered.html:
            answer = rendered.as_answer(fetched)
            html = read_links(answer.payload, url=item.url, **html_headers(answer))
            page = self._links_of_page(answer, item, html)
            if self._judges(item):
                sample = sample_page(answer.payload, url=item.url, canonical=html.canonical)
                page = msgspec.structs.replace(page, sample=sample)
        else:
            page = self._read_page(fetched, item)
        page = self._with_more_links(page, fetched, item)
        if not rendered.links:
            return page
        found = self._links_in_scope("page", join_urls(item.url, rendered.links), item.depth + 1, LINKED)
        return msgspec.structs.replace(page, links=[*page.links, *found.links], refused=page.refused + found.refused)

    def may_fetch(self, url: str) -> str | None:
        """Return why a resource of a page is not fetched, or None."""
        return self._scope.decide_resource(url)

    def why_excluded(self, url: str) -> str | None:
        """Return why a URL is not asked for any more: by a pattern that came later than it, or since it was taken
        down."""
        return self._scope.why_excluded(url)

    def find_via(self, url: str) -> str:
        """Return the page that had a link to this URL, if that was of late; else ""."""
        return self._recent.find_via(url)

    def mark_queued(self, links: Iterable[Link], *, via: str) -> None:
        """The links of the page `via` go into the frontier: they need not be looked at again."""
        for link in links:
            self._recent.add(link.url, via)
            if self._rules.page_resources:
                if link.priority != PAGE_RESOURCE:
                    self._embedded.add_link(link.url)
                elif not link.resource_share:
                    self._embedded.add_resource(link.url)

    # --- redirects and sitemaps ---

    def _read_redirect(self, target: str, item: ClaimedUrl) -> PageReading:
        if not target:
            return PageReading("redirect", [], NOWHERE.refused)
        if item.priority in SITEMAPS:
            return self._sitemap_links(self.allowed_sitemaps([target], item.url), item, kind="sitemap")
        return self._links_in_scope("redirect", [target], item.depth, REDIRECTED, redirects=item.redirects + 1)

    def _read_sitemap(self, payload: bytes, item: ClaimedUrl, headers: Headers) -> PageReading:
        try:
            sitemap = read_sitemap(payload)
        except BadInput as error:
            return PageReading("page", [], Counter({error.reason: 1}))
        entries = join_urls(item.url, (entry.loc for entry in sitemap.urls))
        kind: AnswerKind = "sitemap" if item.priority in SITEMAPS else "page"  # feeds are pages that people link to
        if kind == "page" and self._politeness.obey_nofollow and self._is_nofollow(headers):
            return PageReading(kind, [], Counter(nofollow=len(entries)))
        sample = sample_page(payload, url=item.url) if kind == "page" and self._judges(item) else None
        pages = self._links_in_scope(kind, entries, item.depth + 1, LINKED)
        news = self._news_of(sitemap, item)
        newest_first = sorted(sitemap.sitemaps, key=lambda entry: entry.lastmod or "", reverse=True)
        allowed = self.allowed_sitemaps((entry.loc for entry in newest_first), item.url)
        sitemaps = self._sitemap_links(allowed, item, kind=kind)
        listed = [*(link for link in pages.links if link.url not in news), *news.values()]
        if self._rules.order == "best":
            listed = order_listed(listed, sitemap, item.url)
        links, refused = [*sitemaps.links, *listed], pages.refused + sitemaps.refused
        return PageReading(kind, links, refused, lists_pages=True, sample=sample)

    def _news_of(self, sitemap: Sitemap, item: ClaimedUrl) -> dict[str, Link]:
        """Return the links of entries that say when they changed, by URL: known ones may be due again."""
        depth, times = item.depth + 1, times_of_change(sitemap, item.url, now=datetime.now(UTC).timestamp())
        return {
            url: Link(url, depth, LINKED, modified=modified)
            for url, modified in times.items()
            if self._scope.decide(url, depth) is None
        }

    def _sitemap_links(self, urls: list[str], item: ClaimedUrl, *, kind: AnswerKind) -> PageReading:
        depth = item.sitemap_depth + item.redirects  # an index may be met as a page, behind redirects
        if depth >= MOST_SITEMAP_LEVELS:
            return PageReading(kind, [], Counter(sitemap_too_deep=len(urls)) if urls else Counter())
        is_first = depth == 0 and item.priority != LATER_SITEMAP
        links = [
            Link(url, item.depth, priority, sitemap_depth=depth + 1)
            for url, priority in with_sitemap_priorities(urls, is_first=is_first)
        ]
        return PageReading(kind, links, Counter())

    def allowed_sitemaps(self, urls: Iterable[str], base: str) -> list[str]:
        """Return the sitemaps that may be read."""
        return [url for url in join_urls(base, urls) if self._scope.decide_sitemap(url) is None]

    # --- links of pages ---

    def _read_page(self, fetched: FetchedResponse, item: ClaimedUrl) -> PageReading:
        if not is_html(content_type_of(fetched), fetched.payload):
            sample = sample_payload(fetched.payload) if self._judges(item) else None
            return PageReading("page", [], Counter(), sample=sample)
        self._embedded.count_page()
        page, resources = self._parse(fetched, item)
        found = self._links_of_page(fetched, item, page)
        if self._judges(item):
            sample = sample_page(fetched.payload, url=item.url, canonical=page.canonical)
            found = msgspec.structs.replace(found, sample=sample)
        if not resources:
            return found
        needed = self._resource_links(resources, item.depth, self._page_share)
        links, refused = [*needed.links, *found.links], found.refused + needed.refused
        return msgspec.structs.replace(found, links=links, refused=refused)

    def _judges(self, item: ClaimedUrl) -> bool:
        """Tell whether a page is judged by what it gives: the first time that it is fetched."""
        return self._rules.traps and item.last is None

    def _parse(self, fetched: FetchedResponse, item: ClaimedUrl) -> tuple[PageLinks, list[PageResource]]:
        if self._wants_resources(item.url):
            return read_page(fetched.payload, url=item.url, **html_headers(fetched))
        return read_links(fetched.payload, url=item.url, **html_headers(fetched)), []

    def _wants_resources(self, url: str) -> bool:
        """Tell whether what a page needs is fetched."""
        rule = self._sites.find(url) if self._sites else None
        if rule is None or rule.page_resources is None:
            return self._rules.page_resources and self._rules.resources_everywhere
        return self._rules.page_resources and rule.page_resources

    def _links_of_page(self, fetched: FetchedResponse, item: ClaimedUrl, page: PageLinks) -> PageReading:
        if self._politeness.obey_nofollow and self._is_nofollow(fetched.head.headers, page.meta_robots):
            return PageReading("page", [], Counter(nofollow=len(page.links)))
        links = page.links
        refused = Counter[str](flaw for flaw in page.flaws if flaw in CUT) if page.flaws else Counter[str]()
        if self._politeness.obey_nofollow and page.nofollow:
            links = [url for url in links if url not in page.nofollow]
            refused["nofollow"] = len(page.links) - len(links)
        if self._rules.fold:
            links = list(dict.fromkeys(map(fold_url, links)))
        found = self._links_in_scope("page", links, item.depth + 1, LINKED)
        return PageReading(
            "page", found.links, found.refused + refused if refused else found.refused, known=found.known
        )

    def _is_nofollow(self, headers: Headers, meta_robots: str = "") -> bool:
        return robots_directives(headers, meta_robots, agent=ROBOTS_NAME).nofollow

    def _links_in_scope(
        self, kind: AnswerKind, urls: list[str], depth: int, priority: int, *, redirects: int = 0
    ) -> PageReading:
        links: list[Link] = []
        refused: Counter[str] = Counter()
        endings: Counter[str] = Counter()
        urls, opinions = ask_plugins(self._plugins, urls, depth) if self._plugins.sources else (urls, {})
        if self._rules.page_resources:
            for url in urls:
                if url in self._recent:
                    more = self._resources_of_embedded(url)
                    links += more.links
                    refused += more.refused
        new = self._recent.drop_known(urls)
        for url in new:
            reason = self._decide(url, depth, opinion=opinions.get(url))
            if reason is None:
                links.append(Link(url, depth, priority, redirects))
            else:
                refused[reason] += 1
                if reason == "extension":
                    endings[extension_of(url)] += 1
        if endings:
            with self._lock:
                self.skipped_endings.update(endings)
        known = [url for url in urls if url in self._recent] if self._rules.order == "best" else ()
        return PageReading(kind, links, refused, known=known)

    def _decide(self, url: str, depth: int, *, opinion: bool | None) -> str | None:
        """Return None for a link that is followed, or the reason against it. `opinion`: that of a plugin."""
        if opinion is None:
            return self._scope.decide(url, depth)
        return self._scope.decide_resource(url) if opinion else "plugin"

    def _with_more_links(self, page: PageReading, fetched: FetchedResponse, item: ClaimedUrl) -> PageReading:
        """Return what was read with the links that plugins find in a response."""
        if not self._plugins.calls("after_response") or page.kind not in ("page", "redirect"):
            return page
        more = self._plugins.more_links(item.url, fetched.head.status, fetched.head.headers, fetched.payload)
        found = self._links_in_scope("page", join_urls(item.url, more), item.depth + 1, LINKED)
        return msgspec.structs.replace(page, links=[*page.links, *found.links], refused=page.refused + found.refused)

    # --- page resources ---

    def _read_resource(self, fetched: FetchedResponse, item: ClaimedUrl) -> PageReading:
        """A document in the scope of the crawl is a page as well: its links are followed. No others are."""
        own, status = ResourceShare(item.resource_steps, item.resource_share), fetched.head.status
        if (target := redirect_target(item.url, fetched.head)) is not None:
            return self._make_resource_links([(target, own.share)], item.depth, own) if target else NOWHERE
        if status != 200:
            return NOTHING
        if not is_html(content_type_of(fetched), fetched.payload):
            return self._resource_links(self._resources_of_file(fetched, item), item.depth, own)
        if self._scope.decide(item.url, item.depth):
            is_frame = own.share and self._rules.page_resources
            frame = read_resources(fetched.payload, url=item.url, **html_headers(fetched)) if is_frame else []
            return self._resource_links(frame, item.depth, own)
        page, resources = self._parse(fetched, item)
        found, needed = self._links_of_page(fetched, item, page), self._resources_of_document(resources, item, own)
        return PageReading("resource", [*needed.links, *found.links], found.refused + needed.refused)

    def _resources_of_file(self, fetched: FetchedResponse, item: ClaimedUrl) -> list[PageResource]:
        """Return the resources of a style sheet or a module."""
        content_type = content_type_of(fetched)
        media_type = media_type_of(content_type)
        if self._rules.page_resources and media_type == STYLE_SHEET:
            return read_sheet_resources(fetched.payload, url=item.url, content_type=content_type)
        is_module = media_type in SCRIPTS and item.resource_share
        if self._rules.page_resources and is_module:
            return read_module_resources(fetched.payload, url=item.url)
        return []

    def _resources_of_document(
        self, resources: list[PageResource], item: ClaimedUrl, own: ResourceShare
    ) -> PageReading:
        """Without a share it is hardly a frame: servers answer with a page, too, when they have no such image."""
        if own.share:
            return self._resource_links(resources, item.depth, own)
        page = EmbeddedPage(item.depth, resources)
        return self._expand(page) if self._embedded.add_page(item.url, page) else NOTHING

    def _resources_of_embedded(self, url: str) -> PageReading:
        """Return the resources of a page that was fetched as an image, when a link to it is met."""
        self._embedded.add_link(url)
        page = self._embedded.pop(url)
        return self._expand(page) if page else NOTHING

    def _expand(self, page: EmbeddedPage) -> PageReading:
        if not self._embedded.may_expand():
            return PageReading("resource", [], Counter(too_many_requisites=len(page.resources)))
        return self._resource_links(page.resources, page.depth, self._page_share)

    def _resource_links(self, resources: list[PageResource], depth: int, own: ResourceShare) -> PageReading:
        """Return links to as many of the resources as `own` may bring."""
        shared = share_out(resources, own.share)
        page = self._make_resource_links(shared.taken, depth, own)
        return PageReading("resource", page.links, page.refused + Counter(too_many_requisites=shared.left_out))

    def _make_resource_links(self, shares: Sequence[tuple[str, int]], depth: int, own: ResourceShare) -> PageReading:
        if own.steps >= MOST_STEPS:
            return PageReading("resource", [], Counter(requisite_too_far=len(shares)))
        links: list[Link] = []
        refused: Counter[str] = Counter()
        for url, share in shares:
            if url in self._recent:
                continue
            if reason := self._scope.decide_resource(url):
                refused[reason] += 1
            else:
                link = Link(url, depth, PAGE_RESOURCE, resource_steps=own.steps + 1, resource_share=share)
                links.append(link)
        return PageReading("resource", links, refused)


def content_type_of(fetched: FetchedResponse) -> str | None:
    return fetched.head.headers.get("Content-Type")


class HtmlHeaders(TypedDict):
    """The header fields that a page is read with, beside its payload and its URL."""

    content_type: str | None
    link_field: str | None


def html_headers(fetched: FetchedResponse) -> HtmlHeaders:
    link_field = ", ".join(fetched.head.headers.get_all("Link")) or None
    return HtmlHeaders(content_type=content_type_of(fetched), link_field=link_field)


def media_type_of(content_type: str | None) -> str:
    """Return the type as the server calls it: browsers take nothing else for a style sheet or a module."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_html(content_type: str | None, payload: bytes) -> bool:
    """Trust what the server says; where it says nothing, or "some bytes", look at the payload."""
    named = media_type_of(content_type)
    if named in ("text/html", "application/xhtml+xml"):
        return True
    return named in ("", "application/octet-stream") and b"<html" in payload[:1024].lower()
