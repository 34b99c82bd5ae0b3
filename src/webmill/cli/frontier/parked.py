"""`webmill frontier parked` and `release`: patterns of URLs that gave nothing new."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import hint, note
from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import escape_text, format_count
from webmill.crawl.frontier_admin.parked import ParkedPattern, read_parked, release_pattern


@click.command(epilog="Example: webmill frontier parked news/")
@crawl_argument
@frontier_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line on stdout.")
def parked(*, collection: Path, frontier: str | None, as_json: bool) -> None:
    """List the patterns of URLs that are not fetched any more, since their pages gave nothing new.

    Each with the URLs that were parked, the pages that were fetched, and how many of those had something new.
    """
    with open_crawl(collection, frontier) as place:
        found = sorted(read_parked(place), key=lambda each: (-each.urls, each.pattern))
    for each in found:
        click.echo(msgspec.json.encode(each) if as_json else escape_text(describe(each)))
    note(format_count(len(found), "parked pattern"))
    if found:
        hint(f"to fetch one all the same: webmill frontier release {collection} 'PATTERN'")


def describe(each: ParkedPattern) -> str:
    counts = f"{format_count(each.urls, 'URL')} parked; of {each.fetched:,} fetched, {each.new:,} had new text"
    return f"{each.pattern}  ({counts})"


@click.command(epilog="Example: webmill frontier release news/ 'example.com/calendar/{n}/{n}'")
@crawl_argument
@click.argument("pattern", metavar="PATTERN")
@frontier_option
def release(*, collection: Path, pattern: str, frontier: str | None) -> None:
    """Fetch the URLs of a parked pattern after all, and never park it again.

    PATTERN is as `webmill frontier parked` and `webmill problems` write it.
    """
    with open_crawl(collection, frontier) as place:
        known = {each.pattern for each in read_parked(place)}
        if known and pattern not in known:
            raise click.UsageError(
                f"{pattern!r} is not parked; `webmill frontier parked {collection}` lists those that are"
            )
        count = release_pattern(place, pattern)
    if count is None:
        note("the running crawl fetches them")
        return
    note(f"{format_count(count, 'URL')} to be fetched")
    if count:
        hint(f"next: webmill run {collection}")
