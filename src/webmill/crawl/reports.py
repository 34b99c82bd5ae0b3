"""Reports of a crawl, as Heritrix has them: its hosts, media types, status codes and seeds.

The first three are counted from the log of the crawl (`visit_log.py`), which keeps the newest visits; seeds from what
the frontier knows of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.layout import read_seeds
from webmill.crawl.scheduler.commands import error_of
from webmill.crawl.scheduler.inbox import shard_of
from webmill.crawl.visit_log import VisitLogLine

KINDS = ("hosts", "types", "status", "seeds")
MOST_ROWS = 200_000  # names that are counted apart; what comes behind them is `OTHERS`
OTHERS = "(others)"


class ReportRow(msgspec.Struct, kw_only=True):
    """The visits to one host, of one media type or with one status."""

    name: str
    visits: int = 0
    bytes: int = 0
    errors: int = 0  # without an answer, and answers with 400 and more
    seconds: float = 0.0  # of all responses
    last: float = 0.0  # the time of the newest visit


class SeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a seed. `state`: visited, waiting, in progress, unknown."""

    seed: str
    state: str
    status: int = 0
    error: str = ""
    time: float = 0.0


class VisitReport(msgspec.Struct, frozen=True, kw_only=True):
    """`first` and `last` are the times of the oldest and the newest visit that was counted."""

    kind: str
    visits: int
    first: float
    last: float
    rows: list[ReportRow]


NAME_OF: dict[str, Callable[[VisitLogLine], str]] = {
    "hosts": lambda visit: visit.host,
    "types": lambda visit: visit.mime or ("none" if visit.status else "no answer"),
    "status": lambda visit: str(visit.status) if visit.status else visit.kind or "no answer",
}


def report_visits(kinds: Iterable[str], visits: Iterable[VisitLogLine]) -> dict[str, VisitReport]:
    """Return the reports of these kinds, each with the most visited first."""
    rows: dict[str, dict[str, ReportRow]] = {kind: {} for kind in kinds}
    count, first, last = 0, 0.0, 0.0
    for visit in visits:
        count, first, last = count + 1, min(first or visit.time, visit.time), max(last, visit.time)
        for kind, found in rows.items():
            add_visit(found, NAME_OF[kind](visit), visit)
    return {
        kind: VisitReport(
            kind=kind, visits=count, first=first, last=last, rows=sorted(found.values(), key=lambda row: -row.visits)
        )
        for kind, found in rows.items()
    }


def add_visit(rows: dict[str, ReportRow], name: str, visit: VisitLogLine) -> None:
    row = rows.get(name)
    if row is None:
        name = name if len(rows) < MOST_ROWS else OTHERS
        row = rows.setdefault(name, ReportRow(name=name))
    row.visits += 1
    row.bytes += visit.size
    row.errors += bool(visit.kind)
    row.seconds += visit.seconds
    row.last = max(row.last, visit.time)


def report_seeds(crawl: CrawlFrontier) -> Iterator[SeedRow]:
    """Yield what came of each seed."""
    if not crawl.paths.seeds.exists():
        return
    shards = crawl.shards()
    for seed in read_seeds(crawl.paths.seeds):
        found = crawl.backend.find_url(crawl.paths.shard(shard_of(seed, shards)), seed)
        last = found.last
        yield SeedRow(
            seed=seed,
            state=found.known,
            status=last.status if last else 0,
            error=error_of(last) if last else "",
            time=last.time if last else 0.0,
        )
