"""`cdxj-search`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import click

from webmill.cli.cdxj.streams import STDOUT, open_output
from webmill.cli.context import note, warn
from webmill.cli.dropin.lines import VERSION
from webmill.cli.param_types import ANY_COUNT
from webmill.cli.query_options import date_options, filter_option
from webmill.compat.replay.search import (
    AnyIndexFile,
    compile_conditions,
    drop_repeats,
    filter_lines,
    find_index_files,
    search_range,
)
from webmill.errors import NotFound
from webmill.formats.url.surt import surt as key_of_url
from webmill.index.lookup.indexes import MergedIndex
from webmill.index.lookup.query import Query, run_query


@click.command(
    "cdxj-search",
    epilog="""\b
Examples:
  cdxj-search --url http://example.com/ index/AWP.idx
  cdxj-search --surt 'com,example)/' --matchType prefix --limit 10 cdxj/

\b
Filters:
  FIELD=VALUE  FIELD!=VALUE  FIELD~RE2  FIELD!~RE2 (anywhere in the field)""",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--url", help="URL to look up.")
@click.option("--surt", metavar="KEY", help="Index key to look up.")
@click.option(
    "--matchType",
    "match_type",
    type=click.Choice(["exact", "prefix", "domain", "subdomains"]),
    default="exact",
    metavar="TYPE",
    help="How to match: exact, prefix, domain (this host only) or subdomains (without it)  [default: exact]",
)
@date_options
@filter_option
@click.option("--limit", type=ANY_COUNT, help="Maximum number of captures  [default: all]")
@click.option("--sort", is_flag=True, help="Ignored: the output is always sorted.")
@click.option("--dedupe", is_flag=True, help="Print only the first line of the same SURT and timestamp.")
@click.option("--skip-errors", is_flag=True, help="Skip files that cannot be read.")
@click.option("-v", "--verbose", is_flag=True, help="Print more on stderr.")
@click.option("--progress", is_flag=True, help="Print the name of each file on stderr.")
@VERSION
def search(
    *,
    files: tuple[str, ...],
    url: str | None,
    surt: str | None,
    match_type: str,
    start: str | None,
    end: str | None,
    filters: tuple[str, ...],
    limit: int | None,
    sort: bool,  # noqa: ARG001  # kept for the scripts that say it
    dedupe: bool,
    skip_errors: bool,
    verbose: bool,
    progress: bool,
) -> None:
    """Look up captures in sorted CDXJ files and ZipNum indexes. FILE can be a file, a pattern or a folder."""
    if (url is None) == (surt is None):
        raise click.UsageError("give either --url URL or --surt KEY")
    wanted = Query(
        range=search_range(key_of_url(url) if url is not None else surt or "", match_type), start=start, end=end
    )
    holds = compile_conditions(filters)
    paths = find_index_files(files)
    if not paths:
        raise NotFound("No files found matching the specified patterns")
    indexes = [AnyIndexFile(path, skipped=warn if skip_errors else None) for path in paths]
    if progress or verbose:
        for number, path in enumerate(paths, start=1):
            note(f"Searching file {number}/{len(paths)}: {path}")
    lines: Iterable[bytes] = run_query(MergedIndex(indexes), wanted)
    lines = filter_lines(lines, holds, warn=warn) if filters else lines
    lines = drop_repeats(lines) if dedupe else lines
    count = 0
    with open_output(STDOUT) as out:
        for line in islice(lines, limit or None):
            out.write(line)
            count += 1
    if verbose:
        note(f"Output {count} results")
