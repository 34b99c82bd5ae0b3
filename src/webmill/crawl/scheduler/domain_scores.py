"""What domains are worth, as far as a shard has learnt it from links: the order `best` asks the best domain next.

A domain's score is what links of other domains brought it (`visit/link_order`), shared among its pages that were
fetched and the next one: a domain that is linked to ten times as much may give ten times as many pages before another
one is next. Its rank is the logarithm. Scores are approximations: what a kill takes of them costs order, never a URL.
So they are kept apart from the frontier, in a file that is not synced and that may be removed; the ranks that follow
from them are in the frontier.

Memory is bounded: the scores of at most so many domains are in it, the others in the file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import PAGE_RESOURCE, SITEMAPS, VisitDone, domain_of
from webmill.crawl.visit.link_order import HIGHEST_SCORED
from webmill.crawl.visit.outcome import VisitResult
from webmill.infra.sqlite import Database, Schema
from webmill.model import Link

KEPT_DOMAINS = 1 << 16  # in memory: some 16 MiB
SEED_WEIGHT = 0.1  # of a URL that the user has named: as much as a few links of good pages
SCHEMA = Schema(
    tag=int.from_bytes(b"wmSc"),
    steps=(
        """
        CREATE TABLE score (domain TEXT PRIMARY KEY, received REAL NOT NULL, pages INTEGER NOT NULL)
            STRICT, WITHOUT ROWID;
        """,
    ),
)


class DomainScore(msgspec.Struct, gc=False):
    received: float = 0.0  # from links of other domains
    pages: int = 0  # that were fetched
    rank: int = 0  # as the frontier has it
    is_changed: bool = False  # since it was written

    def current_rank(self) -> int:
        """Return the rank that follows from the score: 1 to `HIGHEST_SCORED`."""
        worth = self.received / (1 + self.pages)
        if worth <= 0.0:
            return 1
        return max(1, min(HIGHEST_SCORED, HIGHEST_SCORED + math.floor(math.log2(worth))))


class DomainScores:
    """The scores of a shard's domains, in `path` and, of late, in memory."""

    def __init__(self, path: Path, *, kept: int = KEPT_DOMAINS) -> None:
        self._database = Database(path, schema=SCHEMA)
        self._kept = kept
        self._scores: dict[str, DomainScore] = {}  # those that were used last are at the end
        self.ranks: dict[str, int] = {}  # that the last `note` has changed

    def note(self, links: Iterable[Link], pages: Mapping[str, int]) -> None:
        """Note what links bring their domains, and how many pages of domains were fetched."""
        received: dict[str, float] = {}
        self.ranks = {}
        for link in links:
            if weight := weight_of(link):
                name = domain_of(link.url)
                received[name] = received.get(name, 0.0) + weight
        for name, score in self._load(received.keys() | pages.keys()).items():
            score.received += received.get(name, 0.0)
            score.pages += pages.get(name, 0)
            score.is_changed = True
            if (rank := score.current_rank()) != score.rank:
                self.ranks[name] = score.rank = rank
        if len(self._scores) > self._kept:
            self._shrink()

    def close(self) -> None:
        self._write(self._scores)
        self._database.close()

    def _load(self, names: Iterable[str]) -> dict[str, DomainScore]:
        """Return the scores of these domains, which are in memory from now on."""
        found = {name: self._scores.pop(name) if name in self._scores else DomainScore() for name in sorted(names)}
        unknown = [name for name, score in found.items() if not score.rank]
        if unknown:
            sql = "SELECT domain, received, pages FROM score WHERE domain IN (SELECT value FROM json_each(?))"
            for name, received, pages in self._database.read(sql, (msgspec.json.encode(unknown).decode(),)):
                found[name].received, found[name].pages = received, pages
        self._scores |= found
        return found

    def _shrink(self) -> None:
        """Write out the half that was used least lately."""
        names = list(self._scores)[: self._kept // 2]
        self._write({name: self._scores.pop(name) for name in names})

    def _write(self, scores: Mapping[str, DomainScore]) -> None:
        rows = [(name, one.received, one.pages) for name, one in scores.items() if one.is_changed]
        if rows:
            with self._database.write_relaxed():
                self._database.many("INSERT OR REPLACE INTO score VALUES (?, ?, ?)", rows)


def count_pages(results: Iterable[VisitResult]) -> Counter[str]:
    """Return how many new pages the domains gave."""
    return Counter(
        domain_of(result.outcome.url)
        for result in results
        if isinstance(result.outcome, VisitDone) and result.outcome.is_page and not result.is_revisit
    )


def weight_of(link: Link) -> float:
    """Return what a link brings its domain. A URL that the user has named brings most."""
    if link.depth == 0 and link.priority != PAGE_RESOURCE and link.priority not in SITEMAPS:
        return SEED_WEIGHT
    return link.weight
