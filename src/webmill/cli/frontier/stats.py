"""`webmill frontier stats`: counts of URLs and domains, and disk space."""

from __future__ import annotations

import time
from pathlib import Path

import click
import msgspec

from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import format_duration, format_size
from webmill.crawl.frontier_admin.stats import ShardStats, read_stats, sum_stats

MAX_COLUMNS = 4  # shards that fit in 80 columns


@click.command(epilog="Example: webmill frontier stats news/ --json")
@crawl_argument
@frontier_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def stats(*, collection: Path, frontier: str | None, as_json: bool) -> None:
    """Show how many URLs wait and were visited, for each shard (process) and in total."""
    with open_crawl(collection, frontier) as place:
        each = list(read_stats(place, now=time.time()))
    if as_json:
        click.echo(msgspec.json.encode({"total": sum_stats(each), "shards": each}))
        return
    shown = [sum_stats(each), *each] if len(each) <= MAX_COLUMNS else [sum_stats(each)]
    for name, *cells in make_table(shown if len(each) > 1 else each):
        click.echo(f"{name:<18}" + "".join(f"{cell:>15}" for cell in cells))
    if len(each) > MAX_COLUMNS:
        click.echo(f"{len(each)} shards: --json lists them")


def make_table(shown: list[ShardStats]) -> list[tuple[str, ...]]:
    def row(name: str, cells: list[str]) -> tuple[str, ...]:
        return (name, *cells)

    def count(name: str, words: str) -> tuple[str, ...]:
        return row(words, [f"{getattr(one.stats, name):,}" for one in shown])

    heads = ["all" if one.shard is None else f"shard {one.shard}" for one in shown]
    return [
        *([row("", heads)] if len(shown) > 1 else []),
        count("waiting", "URLs waiting"),
        count("in_hand", "  in progress"),
        count("visited", "  visited"),
        row("  known in total", [f"{one.known:,}" for one in shown]),
        count("pages", "pages"),
        count("revisits", "to revisit"),
        count("domains", "domains"),
        count("domains_waiting", "  waiting"),
        count("domains_in_hand", "  active"),
        row("  excluded", [f"{one.excluded:,}" for one in shown]),
        count("expired", "leases expired"),
        row("oldest waiting", [format_duration(one.oldest) for one in shown]),
        row("on disk", [format_size(one.bytes) for one in shown]),
    ]
