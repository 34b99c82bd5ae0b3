"""`webmill frontier reshard`: divides a crawl into another number of shards."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import hint, note
from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import format_count
from webmill.crawl.frontier_admin.reshard import reshard as divide_anew
from webmill.crawl.layout import MAX_SHARDS


@click.command(
    epilog="""\b
Examples:
  webmill frontier reshard news/ 8
  webmill crawl news/

To undo it, give the former number."""
)
@crawl_argument
@click.argument("shards", type=click.IntRange(1, MAX_SHARDS), metavar="N")
@frontier_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def reshard(*, collection: Path, shards: int, frontier: str | None, as_json: bool) -> None:
    """Divide the crawl in DIR into N shards: `webmill crawl` runs a process for each.

    No crawl may run in DIR. All URLs, visits, retries, exclusions, robots.txt files and delays are kept. The new
    shards are made beside the old ones, which takes the same disk space again, compared with them, and then take
    their place. If this is interrupted, run it again.
    """
    with open_crawl(collection, frontier) as place:
        done = divide_anew(place, shards)
    if as_json:
        click.echo(msgspec.json.encode(done))
        return
    urls = f"{format_count(done.waiting, 'URL')} waiting, {done.visited:,} visited, on {done.domains:,} domains"
    note(f"{format_count(done.shards, 'shard')} (before: {done.before}): {urls}")
    hint(f"next: webmill crawl {collection}")
