"""What a sitemap says of the pages and sitemaps that it lists: when they changed, and which are read first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webmill.crawl.frontier.base import LATER_SITEMAP, SITEMAP
from webmill.crawl.page.url_joining import Joiner, join_or_none
from webmill.formats.site.sitemap import Sitemap, parse_lastmod

FIRST_SITEMAPS = 5  # of a robots.txt or index that are read before pages: without a limit a site could name thousands

DAY = 86400.0  # by which the clocks of servers may be ahead


def with_sitemap_priorities(urls: Iterable[str], *, is_first: bool = True) -> Iterator[tuple[str, int]]:
    """Yield sitemaps with their priorities: the first few come before pages, unless they are named by later ones."""
    for number, url in enumerate(urls):
        yield url, SITEMAP if is_first and number < FIRST_SITEMAPS else LATER_SITEMAP


def times_of_change(sitemap: Sitemap, base: str, *, now: float) -> dict[str, float]:
    """Return the URLs of entries that say when they changed, with that."""
    join, times = Joiner(base), dict[str, float]()
    for entry in sitemap.urls:
        modified = parse_lastmod(entry.lastmod)
        if 0.0 < modified < now + DAY and (url := join_or_none(join, entry.loc)):
            times[url] = modified
    return times
