"""`webmill status`: shows the state of a collection."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import msgspec

from webmill.cli.context import Context, pass_context
from webmill.cli.crawl_progress import format_until
from webmill.cli.status_rows import StatusRow, make_rows
from webmill.cli.text import escape_text, format_count, json_line
from webmill.crawl.backends import open_cluster
from webmill.errors import WebmillError
from webmill.pipeline.crawl_frontier import stored_redis
from webmill.pipeline.problems import collect_problems, count_problems
from webmill.pipeline.status import (
    CollectionStatus,
    StatusProblem,
    describe_unfinished,
    read_collection_status,
    run_wishes,
)
from webmill.search.backends import open_search, search_address
from webmill.settings import Settings

if TYPE_CHECKING:  # imports Redis
    from webmill.crawl.cluster.cluster_state import ClusterView

WIDTH, INDENT = 80, 11
COLOURS = {"due": "yellow", "bad": "red", "": None}


@click.command(
    epilog="""\b
Examples:
  webmill status news/
  webmill status news/ --json | jq '.due[].stage'

\b
It only reads, so it is safe to use while other commands run. Counts of very
large folders are lower bounds ("at least"); see docs/reference/status.md.
Damage is printed as a problem ("problems" in JSON); the exit code stays 0."""
)
@click.argument("root", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@pass_context
def status(context: Context, /, *, root: Path, as_json: bool) -> None:
    """Show the state of the collection in DIR: what each stage has made, what is due, what went wrong.

    For a crawl on many machines, the nodes and shards registered in Redis are listed as well.
    """
    folder = root.resolve()
    settings, problems = read_settings(context, folder)
    engine = partial(open_search, search_address(settings.search.url, folder), create=False)
    seen = read_collection_status(folder, run_wishes(settings, folder), open_engine=engine)
    nodes, complaint = read_nodes(folder, seen)
    problems = [*seen.problems, *problems, *complaint]
    wrong = collect_problems(folder, folder=str(root))
    if as_json:
        state = msgspec.to_builtins(msgspec.structs.replace(seen, problems=problems))
        next_, counts = next_command(seen, root), {"errors": wrong.errors, "warnings": wrong.warnings}
        click.echo(
            json_line({**state, "nodes": msgspec.to_builtins(nodes, str_keys=True), "next": next_, "wrong": counts})
        )
        return
    for row in make_rows(seen, root):
        print_row(row)
    for row in node_rows(nodes) if nodes else ():
        print_row(row)
    for problem in problems:
        print_row(
            StatusRow("PROBLEM", f"{problem.part}: {problem.message}; run `webmill doctor {quote_path(root)}`", "bad")
        )
    if found := count_problems(wrong):
        colour: Literal["due", "bad"] = "bad" if wrong.errors else "due"
        print_row(StatusRow("problems", f"{found}: webmill problems {quote_path(root)}", colour, is_command=True))
    print_row(StatusRow("next", next_command(seen, root) or why_nothing_is_due(seen), is_command=True))


def read_settings(context: Context, folder: Path) -> tuple[Settings, list[StatusProblem]]:
    """Return the settings; if they are wrong, the defaults and a problem."""
    try:
        settings = context.settings(folder)
        settings.run.in_order()
    except WebmillError as error:
        return Settings(), [StatusProblem("settings", str(error))]
    return settings, []


def next_command(seen: CollectionStatus, root: Path) -> str:
    """Return the next command to type, or an empty string."""
    if seen.is_running or any(crawl.is_running for crawl in seen.crawls):
        return ""
    if describe_unfinished(seen.crawls, now=seen.time) and not any(due.stage == "crawl" for due in seen.due):
        return f"webmill crawl {quote_path(root)}"  # started by hand: `run` crawls from a file of seeds
    if seen.due:
        return f"webmill run {quote_path(root)}"
    is_empty = not (seen.archives or seen.documents or seen.publish or seen.indexes or seen.crawls)
    return f"webmill init {quote_path(root)} URL --contact YOU" if is_empty else ""


def why_nothing_is_due(seen: CollectionStatus) -> str:
    if seen.is_running:
        return "nothing to do: `webmill run` is active"
    if any(crawl.is_running for crawl in seen.crawls):
        return "nothing to do: the crawl is running"
    looks = [crawl.total.revisit_due for crawl in seen.crawls if crawl.total.revisit_due is not None]
    planned = (
        f"; the next look at pages is planned for {format_until(min(looks)).removeprefix('until ')}" if looks else ""
    )
    return f"nothing is due{planned}"


def quote_path(root: Path) -> str:
    return shlex.quote(str(root))


def print_row(row: StatusRow) -> None:
    """Print a row in 80 columns; commands are never wrapped. click removes colours where there is no terminal."""
    text = escape_text(row.text)
    fold = partial(textwrap.wrap, width=WIDTH - INDENT, break_long_words=False, break_on_hyphens=False)
    wrapped = [text] if row.is_command else fold(text)
    for number, line in enumerate(wrapped):
        label = click.style(f"{'' if number else row.label:<{INDENT}}", bold=True)
        click.echo(label + click.style(line, fg=COLOURS[row.state]))


# --- a crawl on many machines --------------------------------------------------------------------------------------


def read_nodes(folder: Path, seen: CollectionStatus) -> tuple[ClusterView | None, list[StatusProblem]]:
    """Return the nodes of a crawl that keeps its frontier in Redis, and problems with reading them."""
    if not seen.crawls:
        return None, []
    try:
        redis = stored_redis(folder)
        if not redis:
            return None, []
        with closing(open_cluster(redis, name=seen.crawls[-1].name)) as cluster:
            return cluster.view(), []
    except WebmillError as error:
        return None, [StatusProblem("nodes", str(error))]


def node_rows(crawl: ClusterView) -> Iterator[StatusRow]:
    counts = Counter(crawl.owners.values())
    for id_ in sorted(crawl.living & crawl.nodes.keys()):
        node = crawl.nodes[id_]
        yield StatusRow("node", f"{id_} on {node.host}, process {node.pid}: {format_count(counts[id_], 'shard')}")
    for shard, report in sorted(crawl.reports.items()):
        known, owner = report.progress, crawl.owner(shard) or "no node"
        state = (
            f"{format_count(known.pages, 'page')}, {format_count(known.waiting, 'URL', 'wait')}, {known.turns:,} active"
        )
        yield StatusRow("shard", f"{shard} {owner}: {state}")
