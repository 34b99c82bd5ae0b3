"""A crawl's numbers for Prometheus, under the names that dashboards of such crawlers know."""

from __future__ import annotations

from collections.abc import Mapping

from webmill.crawl.fetch import FAILURES
from webmill.crawl.progress import CrawlProgress
from webmill.infra.metrics import Counter, Gauge, Metric, Metrics

PORT = 8001

_STATUS_ERRORS = ("http_429", "http_500", "http_502", "http_503", "http_504")
PAGES = Counter("crawler_pages_crawled", "Pages archived.")
ADDED = Counter("crawler_urls_added", "New URLs in the frontier.")
FETCHES = Counter(
    "crawler_fetches", "Responses, by what was requested.", {"fetch_type": ("page", "robots_txt", "requisite")}
)
ERRORS = Counter(
    "crawler_errors",
    "Requests without a usable response.",
    {"error_type": (*sorted(FAILURES), *_STATUS_ERRORS, "robots_unreachable", "internal")},
)
BYTES = Counter("crawler_content_bytes", "Bytes of responses, as they came over the wire.")
REVISITS = Counter("crawler_revisits", "Records that only say that a page is unchanged.")
EXPIRED = Counter("crawler_leases_expired", "Turns whose process died or hung.")
FRONTIER = Gauge("crawler_frontier_size", "URLs that wait.")
ACTIVE = Gauge("crawler_active_workers", "Domains that are being visited.")
DOMAINS = Gauge("crawler_domains", "Domains, by state.", {"state": ("waiting", "active", "known")})
QUEUE_AGE = Gauge("crawler_queue_age_seconds", "How long the longest due domain has waited.")
NODES = Gauge("crawler_nodes", "Nodes of this crawl, as this one sees them.")
SHARDS = Gauge(
    "crawler_shards", "Shards of a crawl on many nodes, by who has them.", {"owner": ("here", "elsewhere", "nobody")}
)
CRAWL_PAGES = Gauge("crawler_crawl_pages", "Pages of the whole crawl, on all nodes.")
DURATION = Gauge("crawler_fetch_seconds_mean", "Seconds from request to last byte, mean of all responses so far.")

DECLARED: tuple[Metric, ...] = (
    PAGES,
    ADDED,
    FETCHES,
    ERRORS,
    BYTES,
    REVISITS,
    EXPIRED,
    FRONTIER,
    ACTIVE,
    DOMAINS,
    DURATION,
    QUEUE_AGE,
    NODES,
    SHARDS,
    CRAWL_PAGES,
)


class CrawlMetrics:
    """Counts what grew between two sums of all shards."""

    def __init__(self) -> None:
        self.metrics = Metrics(DECLARED)
        self._last = CrawlProgress(shard=-1)
        self._is_first = True

    def show(self, progress: CrawlProgress) -> None:
        last, self._last = self._last, progress
        if self._is_first:  # pages of earlier runs are not this run's
            last.pages, last.expired, self._is_first = progress.pages, progress.expired, False
        metrics = self.metrics
        for metric, name in ((PAGES, "pages"), (ADDED, "links"), (BYTES, "bytes"), (REVISITS, "revisits")):
            metrics.count(metric, max(0, getattr(progress, name) - getattr(last, name)))
        metrics.count(EXPIRED, max(0, progress.expired - last.expired))
        metrics.count(FETCHES, max(0, progress.robots - last.robots), fetch_type="robots_txt")
        metrics.count(FETCHES, max(0, progress.page_resources - last.page_resources), fetch_type="requisite")
        metrics.count(FETCHES, max(0, _count_pages(progress) - _count_pages(last)), fetch_type="page")
        for kind, grown in _growth(progress.errors, last.errors).items():
            metrics.count(ERRORS, grown, error_type=kind)
        metrics.set(FRONTIER, progress.waiting)
        metrics.set(ACTIVE, progress.turns)
        metrics.set(DOMAINS, progress.domains_waiting, state="waiting")
        metrics.set(DOMAINS, progress.turns, state="active")
        metrics.set(DOMAINS, progress.domains, state="known")
        metrics.set(QUEUE_AGE, progress.queue_age)
        if nodes := progress.nodes:
            metrics.set(NODES, nodes.nodes)
            metrics.set(CRAWL_PAGES, nodes.pages)
            metrics.set(SHARDS, nodes.shards_here, owner="here")
            metrics.set(SHARDS, nodes.shards_nowhere, owner="nobody")
            metrics.set(SHARDS, nodes.shards - nodes.shards_here - nodes.shards_nowhere, owner="elsewhere")
        metrics.set(DURATION, progress.seconds / progress.fetched if progress.fetched else 0.0)


def _count_pages(progress: CrawlProgress) -> int:
    return progress.fetched - progress.robots - progress.page_resources


def _growth(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {kind: count - before.get(kind, 0) for kind, count in now.items() if count > before.get(kind, 0)}
