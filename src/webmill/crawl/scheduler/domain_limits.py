"""Which of the claimed URLs are beyond what their domains may give: `--max-pages-per-domain`, or of a [[site]] table.

The pages that match a table with `max_pages` are counted apart from the others of their domain, by the table's name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    ClaimedUrl,
    DomainTurn,
    LastVisit,
    NotTried,
    Outcome,
    VisitDone,
    domain_of,
)
from webmill.crawl.scheduler.budgets import DomainBudget
from webmill.crawl.sites import CrawlSites
from webmill.crawl.visit.outcome import VisitResult


class DomainLimits:
    def __init__(self, budget: DomainBudget, sites: CrawlSites) -> None:
        self._budget, self._sites = budget, sites

    def spend(self, results: Iterable[VisitResult]) -> None:
        """Count the new pages of these results."""
        pages = Counter(
            self._group_of(result.outcome.url)[0]
            for result in results
            if isinstance(result.outcome, VisitDone) and result.outcome.is_page and not result.is_revisit
        )
        if pages:
            self._budget.spend(pages)

    def apply(self, turns: list[DomainTurn], *, now: float) -> tuple[list[DomainTurn], list[VisitResult]]:
        """Return the turns without what their domains may not give, and the results of that: it is settled for good
        when the budget is spent."""
        left = self._find_remaining(turns)
        if not left:
            return turns, []
        kept: list[DomainTurn] = []
        over: list[VisitResult] = []
        for turn in turns:
            outcomes = self._find_beyond(turn, left, now)
            if not outcomes:
                kept.append(turn)
                continue
            results = [VisitResult(token=turn.token, outcome=one, was_handed_out=False) for one in outcomes.values()]
            if rest := tuple(item for item in turn.items if item.url not in outcomes):
                kept.append(msgspec.structs.replace(turn, items=rest))
            else:
                results[-1] = msgspec.structs.replace(results[-1], next=now)
            over += results
        return kept, over

    def _find_remaining(self, turns: Iterable[DomainTurn]) -> dict[str, int]:
        """Return how many pages each group of URLs may still give; those without a limit are not there."""
        found = dict(self._budget.remaining(turn.domain for turn in turns) or {})
        if self._sites:
            groups = (self._group_of(item.url) for turn in turns for item in turn.items if _counts(item))
            limits = {name: limit for name, limit in groups if limit is not None}
            spent = self._budget.spent(limits) if limits else {}
            found |= {name: max(0, limit - spent[name]) for name, limit in limits.items()}
        return found

    def _find_beyond(self, turn: DomainTurn, left: dict[str, int], now: float) -> dict[str, Outcome]:
        taken: Counter[str] = Counter()
        beyond: dict[str, Outcome] = {}
        for item in filter(_counts, turn.items):
            name, _ = self._group_of(item.url)
            taken[name] += 1
            if name in left and taken[name] > left[name]:
                beyond[item.url] = NotTried(item.url) if left[name] else _refuse(item, now)
        return beyond

    def _group_of(self, url: str) -> tuple[str, int | None]:
        """Return the name that a page is counted under, and the limit of its table."""
        domain, rule = domain_of(url), self._sites.find(url)
        if rule is None or rule.max_pages is None:
            return domain, None
        return f"{domain} {rule.name}", rule.max_pages


def _counts(item: ClaimedUrl) -> bool:
    return item.priority != PAGE_RESOURCE and not item.was_archived


def _refuse(item: ClaimedUrl, now: float) -> VisitDone:
    visit = LastVisit(url=item.url, time=now, error="max_pages_per_domain", depth=item.depth)
    return VisitDone(visit, is_page=False)
