"""`webmill status`: how a crawl stands."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import click
import msgspec

from webmill.cli.crawl_flags import FILE, read
from webmill.cli.crawl_view import age, amount, kinds
from webmill.errors import WebmillError
from webmill.flows.crawl.meeting import Picture
from webmill.flows.crawl.status import ENDS, Status, read_status, seats
from webmill.wiring import open_meeting


@click.command(epilog="Example: webmill status news/")
@click.argument("collection", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(*, collection: Path, as_json: bool) -> None:
    """How the crawl in DIR stands: running or not, pages, what waits, what went wrong.

    For a crawl on many machines: each node that has this DIR, and all nodes as Redis knows them.
    """
    folder = collection / "frontier"
    found = [read_status(folder, seat=seat) for seat in seats(folder)]
    crawl, problem = others(folder, found[-1].name)
    if as_json:
        told = [*found, crawl] if crawl else found
        click.echo(b"\n".join(map(msgspec.json.encode, told)))
        return
    for one in found:
        show(one)
    if crawl:
        show_nodes(crawl)
    elif problem:
        click.echo(f"nodes    {problem}")


def show(found: Status) -> None:
    total = found.total
    state = "running" if found.is_running else f"not running: the last run {ENDS.get(found.end, found.end)}"
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
        *(("slowest", f"{host}, {1000 * seconds:,.0f} ms") for host, seconds in total.slowest[:3]),
    ]
    if total.complaint:
        rows.append(("failed", total.complaint))
    for name, value in rows:
        click.echo(f"{name:<9}{value}")


def others(folder: Path, name: str) -> tuple[Picture | None, str]:
    """The nodes of a crawl that keeps its frontier in Redis; or why they cannot be told."""
    redis = read(folder / FILE).get("frontier")
    if not redis:
        return None, ""
    try:
        with closing(open_meeting(redis, name=name)) as meeting:
            return meeting.look(), ""
    except WebmillError as error:
        return None, str(error)


def show_nodes(crawl: Picture) -> None:
    counts = Counter(crawl.owners.values())
    for id_ in sorted(crawl.living & crawl.nodes.keys()):
        node = crawl.nodes[id_]
        click.echo(f"node     {id_} on {node.host}, process {node.pid}: {counts[id_]} shards")
    for shard, record in sorted(crawl.records.items()):
        seen, owner = record.seen, crawl.owner(shard) or "nobody"
        click.echo(
            f"shard    {shard:>3} {owner}: {seen.pages:,} pages, {seen.waiting:,} URLs wait, {seen.turns:,} active"
        )
