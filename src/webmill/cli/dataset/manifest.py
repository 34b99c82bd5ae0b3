"""`webmill dataset manifest`."""

from __future__ import annotations

from itertools import islice

import click

from webmill.cli.context import Context, pass_context
from webmill.cli.renamed import Renamed
from webmill.flows.dataset.manifest import COMMON_CRAWL, Kind, decode_lines, lines_from_paths
from webmill.wiring import open_readable


@click.command(
    epilog="""\b
Examples:
  webmill dataset manifest --crawl CC-MAIN-2024-30 > manifest.txt
  webmill dataset manifest --crawl CC-MAIN-2024-30 --kind warc --limit 5
  webmill dataset manifest --crawl NAME --base-url my-collection/"""
)
@click.option("--crawl", required=True, help="Name of the crawl: CC-MAIN-YYYY-WW, or of a collection of your own.")
@click.option(
    "--kind",
    type=click.Choice(["warc", "aligned"]),
    default="aligned",
    show_default=True,
    help="WARC files alone, or with their WAT and WET files.",
)
@click.option(
    "--base-url",
    "source",
    cls=Renamed,
    old=["--from"],
    metavar="URL|DIR",
    default=COMMON_CRAWL,
    show_default=True,
    help="Where the crawl is: https://…, s3://…, a folder.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first lines.")
@pass_context
def manifest(context: Context, /, *, crawl: str, kind: Kind, source: str, limit: int | None) -> None:
    """Write the manifest of a crawl, one line per WARC file, from its warc.paths.gz."""
    key = f"crawl-data/{crawl}/warc.paths.gz"
    storage = open_readable(source, http=context.settings().http)
    paths = decode_lines(storage.read(key), source=key)
    for line in islice(lines_from_paths(paths, kind=kind), limit):
        click.echo(line)
