"""`webmill frontier export`: writes the URLs of a crawl to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from webmill.cli.context import Context, note, pass_context
from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import format_count
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.frontier_admin.export import visited_urls, waiting_row, waiting_urls
from webmill.infra import atomic
from webmill.model import Link


@click.command(
    epilog="""\b
Examples:
  webmill frontier export news/ --format txt | sort > waiting.txt
  webmill frontier export news/ --visited -o visited.jsonl

While the crawl runs, its frontier is copied first, which needs the same disk space again."""
)
@crawl_argument
@frontier_option
@click.option("--waiting", is_flag=True, help="Export URLs that wait or are being fetched  [default]")
@click.option("--visited", is_flag=True, help="Export visited URLs, with status, time and record.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "txt"]),
    default="jsonl",
    show_default=True,
    help="Output format; txt is just the URLs.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; it appears when it is complete  [default: stdout]",
)
@pass_context
def export(
    context: Context,
    /,
    *,
    collection: Path,
    frontier: str | None,
    waiting: bool,
    visited: bool,
    form: str,
    output: Path | None,
) -> None:
    """Export the URLs of the crawl in DIR, one per line, in bounded memory."""
    if waiting and visited:
        raise click.UsageError("give --waiting or --visited, not both")
    with open_crawl(collection, frontier) as place:
        rows = visited_urls(place) if visited else waiting_urls(place)
        if output is None:
            write_urls(rows, sys.stdout.buffer, form, context)
            return
        with atomic.writing(output) as file:
            count = write_urls(rows, file, form, context)
        note(f"{format_count(count, 'URL')} in {output}")


def write_urls(rows: Iterator[Link] | Iterator[LastVisit], file: BinaryIO, form: str, context: Context) -> int:
    encode = msgspec.json.Encoder().encode
    with context.progress("export", unit="URLs") as progress:
        for row in rows:
            line = waiting_row(row) if isinstance(row, Link) else row
            file.write(row.url.encode() + b"\n" if form == "txt" else encode(line) + b"\n")
            progress.advance()
    return progress.done
