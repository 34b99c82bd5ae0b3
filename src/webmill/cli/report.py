"""`webmill report`: what a crawl has fetched, by hosts, media types, status codes or seeds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import click
import msgspec

from webmill.cli.context import hint, note
from webmill.cli.log import SinceType
from webmill.cli.param_types import ANY_COUNT
from webmill.cli.text import escape_text, format_count, format_size, json_line, spell_out
from webmill.crawl.reports import KINDS, SeedRow, VisitReport, report_seeds, report_visits
from webmill.crawl.visit_log import LogFilter, VisitLogReader
from webmill.pipeline.crawl_frontier import open_crawl

ROWS = 50


@click.command(
    epilog="""\b
Examples:
  webmill report news/ hosts
  webmill report news/ status --since 1d
  webmill report news/ seeds --json | jq -r '.rows[].seed'

\b
hosts, types and status count the visits in the log of the crawl, which keeps
the newest (some 800,000 of each process); seeds says what the frontier knows
of each."""
)
@click.argument("root", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--since", type=SinceType(), help="Only visits since then: 2h ago, or 2026-11-18.")
@click.option("--rows", type=ANY_COUNT, metavar="N", default=ROWS, show_default=True, help="Rows to print; 0: all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, with all rows.")
def report(root: Path, *, kind: str, since: float | None, rows: int, as_json: bool) -> None:
    """Report what the crawl in DIR has fetched: by hosts, media types, status codes or seeds."""
    if kind == "seeds":
        with open_crawl(root) as crawl:
            found = list(report_seeds(crawl))
        print_rows({"kind": kind, "rows": msgspec.to_builtins(found)}, map(format_seed, found), rows, as_json=as_json)
        note(f"{format_count(len(found), 'seed')}, {sum(bool(row.error) for row in found):,} with an error")
        return
    reader = VisitLogReader(root.resolve() / "frontier")
    counted = report_visits([kind], reader.visits(LogFilter(since=since or 0.0)))[kind]
    print_rows(msgspec.to_builtins(counted), format_rows(counted), rows, as_json=as_json)
    if not counted.visits:
        hint("the log of this crawl is empty: it is written while `webmill crawl` runs")
    note(f"{format_count(counted.visits, 'visit')}, {format_count(len(counted.rows), 'row')}")
    if reader.unreadable:
        note(f"{reader.unreadable:,} lines of the log could not be read and were skipped")


def print_rows(value: object, lines: Iterator[str], rows: int, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line(value))
    for line in () if as_json else islice(lines, rows or None):
        click.echo(escape_text(line))


def format_rows(counted: VisitReport) -> Iterator[str]:
    yield f"{'visits':>9}  {'errors':>8}  {'bytes':>10}  {'ms each':>8}  {'last':<16}  {counted.kind}"
    for row in counted.rows:
        answers = max(1, row.visits)
        yield (
            f"{row.visits:>9,}  {row.errors:>8,}  {format_size(row.bytes):>10}  {1000 * row.seconds / answers:>8,.0f}  "
            f"{format_time(row.last):<16}  {row.name}"
        )


def format_seed(row: SeedRow) -> str:
    what = spell_out(row.error) if row.error else f"status {row.status}" if row.status else row.state
    return f"{format_time(row.time) if row.time else '-':<16}  {what:<24}  {row.seed}"


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
