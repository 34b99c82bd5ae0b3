"""How fast a budget of pages may be spent in the order `best`.

As long as all domains that wait can be asked as often as politeness allows, each gives the same number of pages
whatever its rank, and the order among them means nothing. So a shard starts turns more slowly than it could: in the
time of one delay it asks only the best of the domains, one of `SPREAD`, and the crawl takes about so many times as
long, at most.
"""

from __future__ import annotations

from collections.abc import Iterable

from webmill.crawl.frontier.base import VisitDone
from webmill.crawl.visit.outcome import VisitResult

SPREAD = 4
FEW_DOMAINS = 8  # are all asked
SMOOTHING = 0.05  # the part of a new delay in the mean
BURST = 1.0  # seconds: turns that were not started for longer are lost


class BudgetPace:
    """Counts the turns that may start. `observe` learns the mean delay between two requests to a domain; until it has
    seen one, and without any, all may start."""

    def __init__(self) -> None:
        self._delay, self._allowed, self._counted_at = 0.0, 1.0, 0.0

    def observe(self, results: Iterable[VisitResult]) -> None:
        for result in results:
            if isinstance(result.outcome, VisitDone) and result.next is not None and result.outcome.visit.status:
                delay = max(0.0, result.next - result.outcome.visit.time)
                self._delay += (delay - self._delay) * (SMOOTHING if self._delay else 1.0)

    def limit(self, free_turns: int, *, domains: int, turns: int, now: float) -> int:
        """Return how many of `free_turns` may start. `domains` wait or have one of the `turns`. One may always be under
        way."""
        if not self._delay:
            return free_turns
        rate = max(min(domains, FEW_DOMAINS), domains / SPREAD) / self._delay
        most = max(1.0, rate * BURST)
        self._allowed = min(self._allowed + rate * max(0.0, now - self._counted_at), most)
        self._counted_at = now
        return min(free_turns, max(int(self._allowed), 0 if turns else 1))

    def spend(self, turns: int) -> None:
        """Note that turns have started."""
        self._allowed -= turns
