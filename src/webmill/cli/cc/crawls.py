"""`webmill cc crawls`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from webmill.cli.cc.server_flags import ServerFlags, base_url_of, list_crawls, note_missing_contact, server_options
from webmill.cli.context import Context, note, pass_context
from webmill.formats.url.surt import without_surrogates
from webmill.masking import hide_secrets


@click.command(
    epilog="""\b
Examples:
  webmill cc crawls --limit 5
  webmill cc crawls --base-url my-collection/
  webmill cc crawls --json | jq -r .id"""
)
@server_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List only the N newest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@pass_context
def crawls(context: Context, /, *, limit: int | None, as_json: bool, **flags: Any) -> None:
    """List the available crawls, newest first."""
    settings = ServerFlags.from_flags(flags).apply_to(context.settings())
    base = base_url_of(settings)
    note_missing_contact(settings, base)
    found = list_crawls(base, settings)[:limit]
    if as_json:
        for crawl in found:
            click.echo(msgspec.json.encode(crawl))
        return
    width = max((len(crawl.id) for crawl in found), default=0)
    for crawl in found:
        period = f"{crawl.start[:10]} to {crawl.end[:10]}" if crawl.start or crawl.end else ""
        click.echo(replace_control_characters(f"{crawl.id:<{width}}  {period:<24}  {crawl.name}").rstrip())
    if not found:
        note(f"no crawls in {hide_secrets(base)}")


def replace_control_characters(text: str) -> str:
    """Return text from a server without characters that move the cursor."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in without_surrogates(text))
