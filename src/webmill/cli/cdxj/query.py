"""`webmill cdxj query`: prints the captures of a URL from local or remote indexes."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from webmill.cli.cdxj.indexes import open_indexes
from webmill.cli.cdxj.streams import STDOUT, open_output
from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.text import format_count
from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import parse
from webmill.formats.cdx.query import MatchType
from webmill.formats.url.surt import without_surrogates
from webmill.index.lookup.query import Query, Sort, run_query, surt_range, url_range


@click.command(
    epilog="""\b
Examples:
  webmill cdxj query example.com/a --index news/
  webmill cdxj query '*.example.com' --index index/ --filter '=status:200'
  webmill cdxj query example.com --index a.cdxj --index b.cdxj --closest 2021
  webmill cdxj query commoncrawl.org --json --index \\
    https://data.commoncrawl.org/cc-index/collections/CC-MAIN-2024-30/indexes/

\b
Filters:
  FIELD:VALUE    the field contains VALUE         !FIELD:VALUE   it does not
  =FIELD:VALUE   the field equals VALUE           !=FIELD:VALUE  it does not
  ~FIELD:RE2     RE2 matches the field's start    !~FIELD:RE2    it does not

Exit code 3: done, but some lines of the index are not CDXJ."""
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
@click.option(
    "--match",
    type=click.Choice(["exact", "prefix", "host", "domain"]),
    metavar="TYPE",
    help="How to match: exact, prefix, host or domain  [default: exact; prefix for URL*; domain for *.HOST]",
)
@click.option("--from", "start", metavar="DATE", help="Captured at or after this date: 2021, 2021-03, 20210304…")
@click.option("--to", "end", metavar="DATE", help="Captured before the end of this date: 2021 includes all of 2021.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FILTER",
    help="Condition on a field, see below; repeatable, all must hold.",
)
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
    match: MatchType | None,
    start: str | None,
    end: str | None,
    filters: tuple[str, ...],
    closest: str | None,
    sort: Sort | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the captures of a URL as CDXJ lines, sorted by URL and date."""
    if bool(url) == bool(surt):
        raise click.UsageError("give either a URL or --surt KEY")
    if bool(closest) != (sort == "closest") and (sort or not closest):
        raise click.UsageError("--sort closest needs --closest DATE, which allows no other order")
    wanted = Query(
        range=surt_range(surt, match) if surt else url_range(url or "", match),
        start=start,
        end=end,
        filters=filters,
        sort=sort or ("closest" if closest else "forward"),
        closest=closest,
        limit=limit,
    )
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
