"""`webmill frontier compact`: frees disk space of the frontier."""

from __future__ import annotations

import time
from pathlib import Path

import click

from webmill.cli.context import note
from webmill.cli.dry_run import dry_run_option
from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import format_count, format_size
from webmill.crawl.frontier_admin import commands
from webmill.crawl.frontier_admin.stats import read_stats, sum_stats


@click.command(
    epilog="""\b
Examples:
  webmill frontier compact news/ --dry-run
  webmill frontier compact news/"""
)
@crawl_argument
@frontier_option
@dry_run_option
def compact(*, collection: Path, frontier: str | None, dry_run: bool) -> None:
    """Free the disk space of URLs that are no longer waiting.

    Rewrites files in DIR/frontier. No URL is lost.
    """
    with open_crawl(collection, frontier) as place:
        if dry_run:
            now = sum_stats([*read_stats(place, now=time.time())])
            size, kept = format_size(now.bytes), format_count(now.stats.waiting + now.stats.in_hand, "URL")
            note(f"would rewrite {size}; {kept} waiting or in progress and all visits would be kept")
            return
        is_done = commands.compact_frontier(place)
    note("done" if is_done else "requested: the running crawl does it next")
