"""`webmill cdxj excessive`: URLs with too many captures."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from webmill.cli.cdxj.streams import INPUT, OUTPUT, STDOUT, open_output, read_source, source_name
from webmill.cli.context import note
from webmill.cli.param_types import ANY_COUNT
from webmill.cli.text import format_count
from webmill.index.cdxj.excessive import ExcessPolicy, drop_excessive, find_excessive, load_excessive, remove_urlkeys
from webmill.index.lines import FilterCounts, write_batches

MAX_CAPTURES = click.option(
    "-n", "--max-captures", default=1000, show_default=True, type=ANY_COUNT, help="Maximum captures per URL."
)


@click.group()
def excessive() -> None:
    """Find or drop URLs with too many captures. The input must be sorted; it is streamed."""


@excessive.command(
    short_help="List URLs with too many captures.",
    epilog="Example: webmill cdxj excessive find all.cdxj -n 5000 > too-many.txt",
)
@INPUT
@MAX_CAPTURES
def find(*, source: Path, max_captures: int) -> None:
    """Print `SURT COUNT` for every URL with too many captures, highest count first."""
    found = find_excessive(read_source(source), limit=max_captures, source=source_name(source))
    with open_output(STDOUT) as out:
        out.writelines(bytes(excess) + b"\n" for excess in found)
    note(f"# Found {format_count(len(found), 'URL')} with > {max_captures:,} captures")


@excessive.command(
    short_help="Drop all captures of the URLs in a list.",
    epilog="Example: webmill cdxj excessive remove all.cdxj -b too-many.txt -o fewer.cdxj",
)
@INPUT
@OUTPUT
@click.option(
    "-b",
    "--list",
    "listed",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a SURT, or SURT and count, per line; # starts a comment.",
)
def remove(*, source: Path, output: Path, listed: Path) -> None:
    """Drop all captures of the URLs in a list, such as `find` prints."""
    tally = FilterCounts()
    with open_output(output) as out:
        write_batches(remove_urlkeys(read_source(source), load_excessive(listed), tally=tally), out)
    print_filter_counts(tally)


@excessive.command(
    short_help="Find URLs with too many captures and drop them, in one pass.",
    epilog="""\b
Example:
  webmill cdxj merge cdxj/ | webmill cdxj excessive auto -n 1000 --keep 10""",
)
@INPUT
@OUTPUT
@MAX_CAPTURES
@click.option(
    "--keep", default=0, show_default=True, type=ANY_COUNT, help="Captures to keep of a URL that has too many."
)
@click.option(
    "--side",
    type=click.Choice(["first", "last"]),
    default="first",
    show_default=True,
    help="Keep the first or the last captures.",
)
@click.option(
    "--drop-revisits-first", is_flag=True, help="Drop revisits first, and other captures only if still needed."
)
def auto(
    *,
    source: Path,
    output: Path,
    max_captures: int,
    keep: int,
    side: Literal["first", "last"],
    drop_revisits_first: bool,
) -> None:
    """Find URLs with too many captures and drop them, in one pass."""
    tally = FilterCounts()
    policy = ExcessPolicy(count=keep, side=side, drop_revisits_first=drop_revisits_first)
    with open_output(output) as out:
        kept = drop_excessive(
            read_source(source), limit=max_captures, tally=tally, keep=policy, source=source_name(source)
        )
        write_batches(kept, out)
    print_filter_counts(tally)


def print_filter_counts(tally: FilterCounts) -> None:
    note(
        f"# Kept {format_count(tally.kept, 'line')}, "
        f"dropped {format_count(tally.removed, 'line')} ({tally.removed_share:.1%})"
    )
