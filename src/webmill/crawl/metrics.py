"""A crawl's numbers for Prometheus, under the names that dashboards of such crawlers know."""

from __future__ import annotations

from collections.abc import Mapping

from webmill.crawl.fetch import FAILURES
from webmill.crawl.progress import Snapshot
from webmill.infra.metrics import Counter, Gauge, Metric, Metrics

PORT = 8001

_STATUS_ERRORS = ("http_429", "http_500", "http_502", "http_503", "http_504")
PAGES = Counter("crawler_pages_crawled", "Pages archived.")
ADDED = Counter("crawler_urls_added", "New URLs in the frontier.")
FETCHES = Counter(
    "crawler_fetches", "Answers, by what was asked for.", {"fetch_type": ("page", "robots_txt", "requisite")}
)
ERRORS = Counter(
    "crawler_errors",
    "Requests without a usable answer.",
    {"error_type": (*sorted(FAILURES), *_STATUS_ERRORS, "robots_unreachable", "internal")},
)
BYTES = Counter("crawler_content_bytes", "Bytes of answers, as they came over the wire.")
REVISITS = Counter("crawler_revisits", "Records that only say that a page is as before.")
EXPIRED = Counter("crawler_leases_expired", "Turns whose process died or hung.")
FRONTIER = Gauge("crawler_frontier_size", "URLs that wait.")
ACTIVE = Gauge("crawler_active_workers", "Domains that are asked at this moment.")
DOMAINS = Gauge("crawler_domains", "Domains, by state.", {"state": ("waiting", "active", "known")})
QUEUE_AGE = Gauge("crawler_queue_age_seconds", "How long the first of the domains that may be asked has waited.")
NODES = Gauge("crawler_nodes", "Nodes of this crawl, as this one sees them.")
SHARDS = Gauge(
    "crawler_shards", "Shards of a crawl on many nodes, by who has them.", {"owner": ("here", "elsewhere", "nobody")}
)
CRAWL_PAGES = Gauge("crawler_crawl_pages", "Pages of the whole crawl, on all nodes.")
DURATION = Gauge("crawler_fetch_seconds_mean", "Seconds from request to last byte, of all answers so far.")

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
    """Fed with sums of all shards; what grew since the last one is counted."""

    def __init__(self) -> None:
        self.metrics = Metrics(DECLARED)
        self._last = Snapshot(shard=-1)
        self._is_first = True

    def show(self, seen: Snapshot) -> None:
        last, self._last = self._last, seen
        if self._is_first:  # pages of earlier runs are not this run's
            last.pages, last.expired, self._is_first = seen.pages, seen.expired, False
        metrics = self.metrics
        for metric, name in ((PAGES, "pages"), (ADDED, "links"), (BYTES, "bytes"), (REVISITS, "revisits")):
            metrics.count(metric, max(0, getattr(seen, name) - getattr(last, name)))
        metrics.count(EXPIRED, max(0, seen.expired - last.expired))
        metrics.count(FETCHES, max(0, seen.robots - last.robots), fetch_type="robots_txt")
        metrics.count(FETCHES, max(0, seen.requisites - last.requisites), fetch_type="requisite")
        metrics.count(FETCHES, max(0, _pages_of(seen) - _pages_of(last)), fetch_type="page")
        for kind, grown in _growth(seen.errors, last.errors).items():
            metrics.count(ERRORS, grown, error_type=kind)
        metrics.set(FRONTIER, seen.waiting)
        metrics.set(ACTIVE, seen.turns)
        metrics.set(DOMAINS, seen.domains_waiting, state="waiting")
        metrics.set(DOMAINS, seen.turns, state="active")
        metrics.set(DOMAINS, seen.domains, state="known")
        metrics.set(QUEUE_AGE, seen.queue_age)
        if nodes := seen.nodes:
            metrics.set(NODES, nodes.nodes)
            metrics.set(CRAWL_PAGES, nodes.pages)
            metrics.set(SHARDS, nodes.shards_here, owner="here")
            metrics.set(SHARDS, nodes.shards_nowhere, owner="nobody")
            metrics.set(SHARDS, nodes.shards - nodes.shards_here - nodes.shards_nowhere, owner="elsewhere")
        metrics.set(DURATION, seen.seconds / seen.fetched if seen.fetched else 0.0)


def _pages_of(seen: Snapshot) -> int:
    return seen.fetched - seen.robots - seen.requisites


def _growth(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {kind: count - before.get(kind, 0) for kind, count in now.items() if count > before.get(kind, 0)}
