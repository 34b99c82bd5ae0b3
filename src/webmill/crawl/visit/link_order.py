"""The order `best`: which links of a page come first within their domain, and what they say of other domains.

A page shares a weight, the greater the higher its domain ranks (`domain_scores`), among its links, as OPIC does with
cash (Abiteboul et al. 2003). Only what goes to other domains counts: to itself a site could give any. Links to URLs
that are known already count as well, but once for each pair of domains, so that what stands in the footer of every page
of a site is one recommendation and not thousands.

Within a domain the home page comes first, and what its sitemap says is important or new; last what a sitemap says is
unimportant, or whose pattern gave nothing new. Figures: `benchmarks/ordering.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from webmill.crawl.frontier.base import PINNED_RANK, domain_of
from webmill.crawl.page.url_joining import join_urls
from webmill.crawl.visit.recent_links import RecentLinks
from webmill.formats.site.sitemap import Sitemap, SitemapUrl, parse_lastmod
from webmill.model import Link

NEAR, LINKED, FAR = 4, 5, 7  # priorities of pages: before, among and after those that nothing is said of
DAMPING = 0.85
KEPT_PAIRS = 50_000  # pairs of domains, at least, and at most twice as many: some 15 MB

HIGHEST_SCORED = PINNED_RANK - 1  # the highest rank that a crawl gives by itself
RANKS_PER_HALF = 4  # a domain of so many ranks less has half the weight. Less steep, and spam weighs as much as any
IMPORTANT, UNIMPORTANT = 0.8, 0.3  # of a sitemap's <priority>: from the first on, and up to the second
FRESH = 7 * 86400.0  # seconds since <lastmod>


def page_weight(rank: int) -> float:
    """Return what a page of a domain of this rank has to share among its links."""
    return float(DAMPING * 2.0 ** ((min(rank, HIGHEST_SCORED) - HIGHEST_SCORED) / RANKS_PER_HALF))


class LinkOrder:
    """Orders the links of pages. `has_poor_pattern` tells of a URL that others like it gave nothing new."""

    def __init__(self, has_poor_pattern: Callable[[str], bool] = lambda _: False) -> None:
        self._has_poor_pattern = has_poor_pattern
        self._credited = RecentLinks(KEPT_PAIRS)

    def arrange(self, links: Sequence[Link], known: Sequence[str], *, domain: str, rank: int, depth: int) -> list[Link]:
        """Return the links of a page of `domain`, with priorities and weights; with them links to `known` URLs of
        domains that no page of this one has had a link to."""
        weight = page_weight(rank) / max(1, len(links) + len(known))
        arranged = [self._arrange(link, domain, weight) for link in links]
        others = (url for url in known if (other := domain_of(url)) != domain and self._is_first(domain, other))
        return arranged + [Link(url, depth, LINKED, weight=weight) for url in others]

    def _arrange(self, link: Link, domain: str, weight: float) -> Link:
        if link.priority not in (NEAR, LINKED):
            return link
        priority, other = link.priority, domain_of(link.url)
        if priority == LINKED:
            priority = NEAR if is_home(link.url) else FAR if self._has_poor_pattern(link.url) else LINKED
        if other != domain:
            self._is_first(domain, other)
            return msgspec.structs.replace(link, priority=priority, weight=weight)
        return link if priority == link.priority else msgspec.structs.replace(link, priority=priority)

    def _is_first(self, domain: str, other: str) -> bool:
        pair = f"{domain} {other}"
        if pair in self._credited:
            return False
        self._credited.add(pair)
        return True


def order_listed(links: Sequence[Link], sitemap: Sitemap, base: str) -> list[Link]:
    """Return the links that a sitemap lists with the priorities that their entries stand for."""
    now = datetime.now(UTC).timestamp()
    said = {
        url: priority
        for entry in sitemap.urls
        if (priority := sitemap_priority(entry, now=now)) != LINKED
        for url in join_urls(base, [entry.loc])
    }
    return [msgspec.structs.replace(link, priority=said.get(link.url, link.priority)) for link in links]


def sitemap_priority(entry: SitemapUrl, *, now: float) -> int:
    """Return the priority of a page by what its sitemap says of it."""
    if now - FRESH < parse_lastmod(entry.lastmod) <= now:
        return NEAR
    said = 0.5 if entry.priority is None else entry.priority
    return NEAR if said >= IMPORTANT else FAR if said <= UNIMPORTANT else LINKED


def is_home(url: str) -> bool:
    return url.endswith("/") and url.count("/") == 3
