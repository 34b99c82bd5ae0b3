"""`webmill cdxj query`: prints the captures of a URL from local or remote indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from webmill.cli.cdxj.indexes import open_indexes
from webmill.cli.cdxj.streams import STDOUT, open_output
from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.query_options import FILTERS_HELP, QueryFlags, query_options
from webmill.cli.text import format_count
from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import parse
from webmill.formats.url.surt import without_surrogates
from webmill.index.lookup.query import Sort, run_query, surt_range, url_range


@click.command(
    epilog="""\b
Examples:
  webmill cdxj query example.com/a --index news/
  webmill cdxj query '*.example.com' --index index/ --filter '=status:200'
  webmill cdxj query example.com --index a.cdxj --index b.cdxj --closest 2021
  webmill cdxj query commoncrawl.org --json --index \\
    https://data.commoncrawl.org/cc-index/collections/CC-MAIN-2024-30/indexes/

"""
    + FILTERS_HELP
    + "\n\nExit code 3: done, but some lines of the index are not CDXJ."
)
@click.argument("url", required=False)
@click.option("--surt", metavar="KEY", help="Look up this index key instead of a URL.")
@click.option(
    "-i",
    "--index",
    "indexes",
    required=True,
    multiple=True,
    metavar="DIR|FILE|URL",
    help="Index to search: a collection, a ZipNum folder or .idx, sorted CDXJ files; a path or URL; repeatable.",
)
@query_options
@click.option("--closest", metavar="DATE", help="Sort by distance from this date, closest first.")
@click.option(
    "--sort",
    type=click.Choice(["forward", "reverse", "closest"]),
    metavar="ORDER",
    help="Order of captures: forward, reverse or closest  [default: forward]",
)
@click.option("--limit", type=AT_LEAST_ONE, help="Maximum number of captures  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, including urlkey and timestamp.")
@pass_context
def query(
    context: Context,
    /,
    *,
    url: str | None,
    surt: str | None,
    indexes: tuple[str, ...],
    closest: str | None,
    sort: Sort | None,
    limit: int | None,
    as_json: bool,
    **query_flags: Any,
) -> None:
    """Print the captures of a URL as CDXJ lines, sorted by URL and date."""
    if bool(url) == bool(surt):
        raise click.UsageError("give either a URL or --surt KEY")
    if bool(closest) != (sort == "closest") and (sort or not closest):
        raise click.UsageError("--sort closest needs --closest DATE, which allows no other order")
    flags = QueryFlags(**query_flags)
    keys = surt_range(surt, flags.match) if surt else url_range(url or "", flags.match)
    order = sort or ("closest" if closest else "forward")
    wanted = msgspec.structs.replace(flags.make_query(keys), sort=order, closest=closest, limit=limit)
    index = open_indexes(indexes, http=context.settings().http)
    rejected: list[str] = []
    count = 0
    with open_output(STDOUT) as out:
        lines = run_query(index, wanted, on_reject=lambda _, error: rejected.append(str(error)))
        for line in encode_captures(lines, rejected) if as_json else lines:
            out.write(line)
            count += 1
    note(f"# {format_count(count, 'capture')}")
    finish(rejected=len(rejected), where=f"lines that are not CDXJ, such as: {(rejected or [''])[0]}")


def encode_captures(lines: Iterator[bytes], rejected: list[str]) -> Iterator[bytes]:
    for line in lines:
        try:
            capture = parse(line)
        except BadInput as error:
            rejected.append(str(error))
            continue
        head = {"urlkey": without_surrogates(capture.urlkey), "timestamp": capture.timestamp}
        yield msgspec.json.encode(head | {k: v for k, v in capture.fields.items() if k not in head}) + b"\n"
