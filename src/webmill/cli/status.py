"""`webmill status`: how a crawl stands."""

from __future__ import annotations

import time
from pathlib import Path

import click
import msgspec

from webmill.cli.crawl_view import age, amount, kinds
from webmill.flows.crawl.status import read_status


@click.command(epilog="Example: webmill status news/")
@click.argument("collection", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(*, collection: Path, as_json: bool) -> None:
    """How the crawl in DIR stands: running or not, pages, what waits, what went wrong."""
    found = read_status(collection / "frontier")
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    total = found.total
    state = "running" if found.is_running else f"not running (last end: {found.end or 'killed'})"
    rows = [
        ("crawl", f"{found.name}, {state}"),
        ("as of", f"{age(max(0.0, time.time() - found.time))} ago, {age(found.time - found.started)} into the run"),
        ("pages", f"{total.pages:,}"),
        ("bytes", f"{amount(total.bytes)} in this run"),
        ("waiting", f"{total.waiting:,} URLs of {total.domains_waiting:,} domains"),
        ("active", f"{total.turns:,} domains"),
        ("answers", kinds(total.statuses) or "none"),
        ("errors", kinds(total.errors) or "none"),
        ("refused", kinds(total.refused) or "none"),
        *(("slowest", f"{host}, {seconds:.1f} s") for host, seconds in total.slowest[:3]),
    ]
    for name, value in rows:
        click.echo(f"{name:<9}{value}")
