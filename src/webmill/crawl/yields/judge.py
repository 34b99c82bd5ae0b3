"""Which links of a shard are followed now, last, or not: what the scheduler asks of the yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    PRIORITIES,
    SITEMAPS,
    DomainTurn,
    LastVisit,
    VisitDone,
)
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.yields.yield_store import PARKED, YieldStore
from webmill.model import Link

SLOW_PRIORITY = PRIORITIES - 1  # of links of a pattern that gives little: after all others of the domain


class YieldJudge:
    """Judges the links and visits of one shard. `folds`: drop parameters that proved not to change a page."""

    def __init__(self, yields: YieldStore, *, folds: bool) -> None:
        self.yields, self._folds = yields, folds

    def sort_links(self, links: Iterable[Link], *, now: float) -> tuple[list[Link], list[VisitDone]]:
        """Return the links that are followed, and those of parked patterns as visits that say so."""
        followed: list[Link] = []
        parked: list[VisitDone] = []
        for link in links:
            if not self.yields.is_judged(link.url) or not is_judged_link(link):
                followed.append(link)
                continue
            if self._folds and not link.redirects and (folded := self.yields.fold(link.url)) != link.url:
                link = msgspec.structs.replace(link, url=folded)
            found = self.yields.standing(link.url)
            if found.standing == "parked":
                parked.append(parked_visit(link.url, found.pattern, depth=link.depth, now=now))
                self.yields.count_parked(link.url, found.pattern)
            else:
                followed.append(slowed(link) if found.standing == "slow" else link)
        return followed, parked

    def refusals(self, turns: Sequence[DomainTurn], *, now: float) -> dict[str, VisitDone]:
        """Return what becomes of the URLs in hand whose pattern was parked meanwhile."""
        refused: dict[str, VisitDone] = {}
        for item in (item for turn in turns for item in turn.items):
            if item.last is None and item.depth and item.priority not in (PAGE_RESOURCE, *SITEMAPS):
                found = self.yields.standing(item.url)
                if found.standing == "parked":
                    refused[item.url] = parked_visit(item.url, found.pattern, depth=item.depth, now=now)
                    self.yields.count_parked(item.url, found.pattern)
        return refused

    def observe(self, results: Iterable[VisitResult], *, find_via: Callable[[str], str], now: float) -> None:
        """Count what first visits of pages gave."""
        for result in results:
            if isinstance(result.outcome, VisitDone) and result.outcome.is_page and not result.is_repeated:
                visit = result.outcome.visit
                if visit.status and not visit.resource_steps and not visit.sitemap_depth:
                    self.yields.observe(
                        result.sample,
                        url=visit.url,
                        status=visit.status,
                        via=find_via(visit.url),
                        leads_on=any(link.redirects for link in result.links),
                    )
        self.yields.save_now_and_then(now)

    def release(self, pattern: str) -> None:
        self.yields.release(pattern)


def is_judged_link(link: Link) -> bool:
    """Tell whether a link may be slowed or parked: no seed is, nor what was added by hand, nor a sitemap."""
    return bool(link.depth) and link.priority != PAGE_RESOURCE and link.priority not in SITEMAPS


def slowed(link: Link) -> Link:
    return msgspec.structs.replace(link, priority=SLOW_PRIORITY)


def parked_visit(url: str, pattern: str, *, depth: int, now: float) -> VisitDone:
    """Return a visit that was not made. It is kept, with its reason, until the pattern is released."""
    return VisitDone(LastVisit(url=url, time=now, error=f"{PARKED}: {pattern}"[:500], depth=depth), is_page=False)
