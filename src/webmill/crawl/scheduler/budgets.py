"""How many pages may still be fetched: by a shard, for `--max-pages`, and from a domain, for `--max-pages-per-domain`.

The coordinator hands out `--max-pages` in grants, so that the sum is exact. Pages of a domain are counted before the
frontier settles them: a kill in between counts too many, so the limit is never passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.batch import ClaimLimit
from webmill.infra.sqlite import Database, Schema

UNLIMITED = 1 << 60  # pages

SCHEMA = Schema(
    tag=int.from_bytes(b"wmQo"),
    steps=("CREATE TABLE domain (name TEXT PRIMARY KEY, pages INTEGER NOT NULL) STRICT, WITHOUT ROWID;",),
)


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

    def limit_claim(
        self, *, free_turns: int, urls_per_turn: int, fetches_resources: bool, revisits: bool = False
    ) -> ClaimLimit:
        """Return how much may be claimed, so that no limit can be passed. Revisits are no new pages."""
        pages = self.granted - self.pages - self.in_hand
        if free_turns <= 0:
            return ClaimLimit()
        if pages <= 0 and revisits:
            return ClaimLimit(free_turns, urls_per_turn, visited_only=True)
        if pages <= 0:
            return ClaimLimit(free_turns, urls_per_turn, resources_only=True) if fetches_resources else ClaimLimit()
        if pages < free_turns * urls_per_turn:
            urls_per_turn = max(1, pages // free_turns)
        return ClaimLimit(min(free_turns, pages // urls_per_turn), urls_per_turn)

    def begin_claim(self, claim: ClaimLimit) -> None:
        self._claiming = claim.turns * claim.urls if claim.may_have_pages else 0

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


class DomainBudget(Protocol):
    def remaining(self, domains: Iterable[str]) -> dict[str, int] | None:
        """Return how many pages each domain may still give. None: any number."""
        ...

    def spent(self, names: Iterable[str]) -> dict[str, int]:
        """Return how many pages were counted under each name."""
        ...

    def spend(self, pages: Counter[str]) -> None:
        """Count pages against their domains, or other names."""
        ...

    def close(self) -> None: ...


class SqliteDomainBudget:
    def __init__(self, path: Path, *, limit: int | None) -> None:
        self.limit = limit
        self._database = Database(path, schema=SCHEMA)

    def remaining(self, domains: Iterable[str]) -> dict[str, int] | None:
        if self.limit is None:
            return None
        return {domain: max(0, self.limit - pages) for domain, pages in self.spent(domains).items()}

    def spent(self, names: Iterable[str]) -> dict[str, int]:
        find = "SELECT pages FROM domain WHERE name = ?"
        found = {name: self._database.read(find, (name,)) for name in names}
        return {name: rows[0][0] if rows else 0 for name, rows in found.items()}

    def spend(self, pages: Counter[str]) -> None:
        with self._database.write_relaxed() as run:
            for domain, number in pages.items():
                run(
                    "INSERT INTO domain VALUES (?, ?) ON CONFLICT DO UPDATE SET pages = pages + excluded.pages",
                    (domain, number),
                )

    def close(self) -> None:
        self._database.close()
