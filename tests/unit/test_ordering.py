"""The benchmark of orders, on small webs: `best` is never behind `breadth`, and ahead where hosts differ."""

from __future__ import annotations

from benchmarks.ordering import crawl
from benchmarks.ordering_webs import dense, power_law, spam

PAGES = 3000


def ratio_on(make: object) -> float:
    web = make(PAGES)  # type: ignore[operator]
    return crawl(web, "best", concurrency=500).mass / crawl(web, "breadth", concurrency=500).mass


def test_best_collects_more_where_hosts_differ() -> None:
    assert ratio_on(power_law) >= 1.2
    assert ratio_on(spam) >= 1.2


def test_best_is_not_behind_where_hosts_are_alike() -> None:
    assert ratio_on(dense) >= 0.98  # of so small a web the order of a few pages is more than a hundredth
