"""`webmill frontier add`: adds URLs to a crawl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from webmill.cli.context import finish, note
from webmill.cli.frontier.options import crawl_argument, frontier_option, steer_crawl
from webmill.cli.param_types import CountType
from webmill.cli.text import format_count
from webmill.crawl.frontier.base import MOST_DEPTH, PRIORITIES
from webmill.crawl.seeds import RejectedSeed, read_seeds
from webmill.model import Link

SHOWN = 3  # rejected lines


@click.command(
    epilog="""\b
Examples:
  webmill frontier add news/ https://example.com/new --priority 0
  webmill frontier add news/ --file urls.txt

The scope of the crawl still decides which links on these pages are followed.

Exit code 3: done, but some URLs are invalid; a message names them."""
)
@crawl_argument
@click.argument("urls", nargs=-1, metavar="[URL]...")
@frontier_option
@click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="File of URLs, one per line; repeatable.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITIES - 1),
    metavar="N",
    default=3,
    show_default=True,
    help="Priority; 0 is fetched first. Seeds have 3, links 5.",
)
@click.option(
    "--depth",
    type=CountType(least=0),
    default=0,
    show_default=True,
    help="Number of links from a seed, as counted for --depth of the crawl.",
)
def add(
    *,
    collection: Path,
    urls: tuple[str, ...],
    frontier: str | None,
    files: tuple[Path, ...],
    priority: int,
    depth: int,
) -> None:
    """Add URLs to the crawl in DIR. URLs that it already knows are ignored."""
    add_urls(collection, urls, files=files, priority=priority, depth=depth, frontier=frontier)


def add_urls(
    collection: Path,
    urls: Sequence[str],
    *,
    files: Sequence[Path],
    priority: int,
    depth: int,
    frontier: str | None,
) -> None:
    """Add URLs, and print how many were new."""
    if not (urls or files):
        raise click.UsageError("give a URL, or --file FILE")
    if depth > MOST_DEPTH:
        raise click.BadParameter(f"at most {MOST_DEPTH:,}", param_hint="--depth")
    rejected: list[RejectedSeed] = []
    count = 0

    def links() -> Iterator[Link]:
        nonlocal count
        for seed in read_seeds(urls, files=files):
            if isinstance(seed, RejectedSeed):
                count += 1
                rejected.extend([seed] if len(rejected) < SHOWN else [])
            else:
                yield Link(seed, depth=depth, priority=priority)

    with steer_crawl(collection, frontier) as steering:
        given = steering.add(links())
    if given.sent:
        note(f"{format_count(given.sent, 'URL')} sent to the running crawl")
    else:
        excluded = f", {given.excluded:,} in excluded domains" if given.excluded else ""
        note(f"{format_count(given.added, 'URL')} added, {given.known:,} already known{excluded}")
    finish(
        rejected=count,
        where="; ".join(f"{one.source} line {one.line}: {one.text!r} [{one.reason}]" for one in rejected),
    )
