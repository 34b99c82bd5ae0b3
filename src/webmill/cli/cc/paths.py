"""`webmill cc paths`."""

from __future__ import annotations

from itertools import islice
from typing import Any, get_args

import click

from webmill.cli.cc.server_flags import (
    ServerFlags,
    base_url_of,
    check_crawl_name,
    note_missing_contact,
    open_base_url,
    resolve_crawl,
    server_options,
)
from webmill.cli.context import Context, pass_context
from webmill.cli.text import escape_bytes
from webmill.commoncrawl.catalog import Kind, paths_key
from webmill.commoncrawl.crawl_storage import INTERACTIVE_RETRIES
from webmill.errors import NotFound
from webmill.index.lines import read_lines
from webmill.masking import hide_secrets


@click.command(
    epilog="""\b
Examples:
  webmill cc paths CC-MAIN-2024-30 --limit 3
  webmill cc paths latest --kind wet
  webmill cc paths NAME --base-url my-collection/ --kind index"""
)
@click.argument("crawl")
@click.option(
    "--kind",
    type=click.Choice(get_args(Kind)),
    metavar="KIND",
    default="warc",
    help=f"Which files: {', '.join(get_args(Kind))}  [default: warc]",
)
@server_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List only the first N.")
@pass_context
def paths(context: Context, /, *, crawl: str, kind: Kind, limit: int | None, **flags: Any) -> None:
    """List the files of CRAWL, relative to the base URL. `latest` is the newest crawl."""
    check_crawl_name(crawl)
    settings = ServerFlags.from_flags(flags).apply_to(context.settings())
    base = base_url_of(settings)
    note_missing_contact(settings, base)
    key = paths_key(resolve_crawl(crawl, base, settings), kind)
    try:
        stream = open_base_url(base, settings, policy=INTERACTIVE_RETRIES).open(key)
    except NotFound as error:
        raise NotFound(
            f"no {key} in {hide_secrets(base)}: `webmill cc crawls` lists the crawls; not all have each kind of file; "
            "in your own collection, `webmill index` writes the lists"
        ) from error
    with stream:
        for line in islice(read_lines(stream, name=key), limit):
            click.echo(escape_bytes(line.removesuffix(b"\n")))
