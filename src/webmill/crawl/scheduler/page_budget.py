"""How many pages a shard may fetch. The coordinator hands out `--max-pages` in grants, so that the sum is exact."""

from __future__ import annotations

from collections import Counter

from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.batch import ClaimLimit


class PageBudget:
    """What a shard was granted, less what it has fetched and what it has in hand."""

    def __init__(self, pages: int) -> None:
        """`pages` were fetched by earlier processes of the shard."""
        self.pages = self.granted = pages
        self.revoked = 0  # how often pages were given back
        self._in_hand: Counter[int] = Counter()  # URLs that may be pages, by turn
        self._claiming = 0  # URLs that may be claimed at this moment

    def grant(self, total: int) -> None:
        """Allow `total` pages, those that were fetched before included."""
        self.granted = total

    def revoke(self) -> None:
        """Give back what is not needed for URLs in hand, nor for those that are being claimed."""
        self.granted = min(self.granted, self.pages + self.in_hand + self._claiming)
        self.revoked += 1

    @property
    def in_hand(self) -> int:
        return self._in_hand.total()

    def limit_claim(self, *, free_turns: int, urls_per_turn: int, fetches_resources: bool) -> ClaimLimit:
        """Return how much may be claimed, so that no limit can be passed."""
        pages = self.granted - self.pages - self.in_hand
        if free_turns <= 0:
            return ClaimLimit()
        if pages <= 0:
            return ClaimLimit(free_turns, urls_per_turn, resources_only=True) if fetches_resources else ClaimLimit()
        if pages < free_turns * urls_per_turn:
            urls_per_turn = max(1, pages // free_turns)
        return ClaimLimit(min(free_turns, pages // urls_per_turn), urls_per_turn)

    def begin_claim(self, claim: ClaimLimit) -> None:
        self._claiming = 0 if claim.resources_only else claim.turns * claim.urls

    def end_claim(self) -> None:
        self._claiming = 0

    def begin_turn(self, token: int, urls: int) -> None:
        self._in_hand[token] = urls

    def end_url(self, token: int) -> None:
        if self._in_hand[token]:
            self._in_hand[token] -= 1

    def end_turn(self, token: int) -> None:
        self._in_hand.pop(token, None)

    def report(self, progress: CrawlProgress) -> None:
        progress.pages, progress.granted, progress.revoked = self.pages, self.granted, self.revoked
        progress.in_hand = self.in_hand
