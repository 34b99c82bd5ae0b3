"""`webmill dataset manifest`."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from webmill.cli.cc.server_flags import (
    ServerFlags,
    base_url_of,
    check_crawl_name,
    note_missing_contact,
    open_base_url,
    politeness_options,
    resolve_crawl,
)
from webmill.cli.context import Context, pass_context
from webmill.cli.options import SettingOption
from webmill.commoncrawl.catalog import COMMON_CRAWL, paths_key
from webmill.commoncrawl.crawl_storage import INTERACTIVE_RETRIES
from webmill.errors import NotFound
from webmill.masking import hide_secrets
from webmill.pipeline.extract.manifest import ManifestKind, decode_lines, lines_from_paths


@click.command(
    epilog="""\b
Examples:
  webmill dataset manifest --crawl CC-MAIN-2024-30 > manifest.txt
  webmill dataset manifest --crawl CC-MAIN-2024-30 --kind warc --limit 5
  webmill dataset manifest --crawl latest --base-url my/ --kind warc

With --kind aligned, WAT and WET files are listed without checking that they exist. In your own collection,
`webmill derive` makes them."""
)
@click.option("--crawl", required=True, help="Name of the crawl: CC-MAIN-2024-30 or latest.")
@click.option(
    "--kind",
    type=click.Choice(["warc", "aligned"]),
    default="aligned",
    show_default=True,
    help="List WARC files only, or with their WAT and WET files.",
)
@click.option(
    "--base-url",
    cls=SettingOption,
    old=["--from"],
    metavar="URL|DIR",
    help=f"Where the crawl is: https://…, s3://… or a folder  [default: {COMMON_CRAWL}]",
)
@politeness_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Write only the first N lines.")
@pass_context
def manifest(context: Context, /, *, crawl: str, kind: ManifestKind, limit: int | None, **flags: Any) -> None:
    """Write the manifest of a crawl, one line per WARC file, from its warc.paths.gz."""
    check_crawl_name(crawl)
    settings = ServerFlags.from_flags(flags).apply_to(context.settings())
    base = base_url_of(settings)
    note_missing_contact(settings, base)
    key = paths_key(resolve_crawl(crawl, base, settings), "warc")
    try:
        listed = open_base_url(base, settings, policy=INTERACTIVE_RETRIES).read(key)
    except NotFound as error:
        raise NotFound(
            f"no {key} in {hide_secrets(base)}: `webmill cc crawls` with the same --base-url lists the crawls; "
            "in your own collection, `webmill index` writes the lists"
        ) from error
    for line in islice(lines_from_paths(decode_lines(listed, source=key), kind=kind), limit):
        click.echo(line)
