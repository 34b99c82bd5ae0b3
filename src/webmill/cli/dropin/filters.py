"""`filter-blocklist`, `filter-excessive-urls`."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.cdxj.streams import STDOUT, open_output, read_source, source_name
from webmill.cli.context import note, warn
from webmill.cli.dropin.lines import BUFFER, FILE, INPUT, INPUT_OR_ARGUMENT, OUTPUT, VERBOSE, VERSION, choose_source
from webmill.cli.param_types import ANY_COUNT
from webmill.index.cdxj.blocklist import block, load_blocklist
from webmill.index.cdxj.excessive import drop_excessive, find_excessive, load_excessive, remove_urlkeys
from webmill.index.lines import FilterCounts, write_batches

THRESHOLD = click.option(
    "-n", "--threshold", default=1000, show_default=True, type=ANY_COUNT, help="Maximum captures per URL."
)


@click.command("filter-blocklist", epilog="Example: filter-blocklist -i all.cdxj -b blocklist.txt -o clean.cdxj")
@INPUT
@click.option(
    "-b",
    "--blocklist",
    "listed",
    required=True,
    type=FILE,
    help="File with one regular expression (RE2) per line; # starts a comment.",
)
@OUTPUT
@VERBOSE
@VERSION
def blocklist(*, source: Path, listed: Path, output: Path, verbose: bool) -> None:
    """Drop the lines that match a rule of the blocklist."""
    rules = load_blocklist(listed)
    if verbose:
        note(f"Loaded {len(rules)} blocklist patterns")
    if not rules:
        warn("Warning: No patterns loaded from blocklist")
    tally = FilterCounts()
    with open_output(output) as out:
        write_batches(block(read_source(source), rules, tally=tally), out)
    note(f"# Kept {tally.kept} lines, blocked {tally.removed} lines ({tally.removed_share:.1%})")


class AutoByDefaultGroup(click.Group):
    """Runs `auto` if no command is named: `filter-excessive-urls all.cdxj -o fewer.cdxj`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {*self.commands, *(name for option in self.get_params(ctx) for name in option.opts)}
        return super().parse_args(ctx, args if not args or args[0] in known else ["auto", *args])


@click.group(
    "filter-excessive-urls",
    cls=AutoByDefaultGroup,
    invoke_without_command=True,
    epilog="Example: filter-excessive-urls auto -i all.cdxj -n 500 -o fewer.cdxj",
)
@VERSION
@click.pass_context
def excessive(ctx: click.Context) -> None:
    """Find or drop URLs with too many captures. The input must be sorted."""
    if not ctx.invoked_subcommand:
        click.echo(ctx.get_help())
        ctx.exit(1)


@excessive.command(epilog="Example: filter-excessive-urls find -i all.cdxj -n 500 > urls.txt")
@INPUT
@THRESHOLD
def find(*, source: Path, threshold: int) -> None:
    """List URLs with too many captures: SURT and count."""
    found = find_excessive(read_source(source), limit=threshold, source=source_name(source))
    with open_output(STDOUT) as out:
        out.writelines(bytes(excess) + b"\n" for excess in found)
    note(f"# Found {len(found)} URLs with > {threshold} occurrences")


@excessive.command(epilog="Example: filter-excessive-urls remove -i all.cdxj -b urls.txt -o fewer.cdxj")
@INPUT
@click.option("-b", "--blacklist", "listed", required=True, type=FILE, help="File that `find` printed.")
@OUTPUT
def remove(*, source: Path, listed: Path, output: Path) -> None:
    """Drop all captures of the URLs in a list."""
    urlkeys = load_excessive(listed)
    note(f"# Loaded {len(set(urlkeys))} URLs to filter")
    tally = FilterCounts()
    with open_output(output) as out:
        write_batches(remove_urlkeys(read_source(source), urlkeys, tally=tally), out)
    print_filter_counts(tally)


@excessive.command(epilog="Example: filter-excessive-urls auto -i all.cdxj -n 500 -o fewer.cdxj")
@INPUT_OR_ARGUMENT
@OUTPUT
@THRESHOLD
@BUFFER
@VERBOSE
def auto(
    *, named: Path | None, source: Path | None, output: Path, threshold: int, buffer: int | None, verbose: bool
) -> None:
    """Find URLs with too many captures and drop them."""
    source = choose_source(named, source)
    tally = FilterCounts()
    if verbose:
        note(f"# Dropping URLs with > {threshold} occurrences")
    with open_output(output) as out:
        lines = read_source(source, block=buffer)
        write_batches(drop_excessive(lines, limit=threshold, tally=tally, source=source_name(source)), out)
    print_filter_counts(tally)


def print_filter_counts(tally: FilterCounts) -> None:
    note(f"# Kept {tally.kept} lines, filtered {tally.removed} lines ({tally.removed_share:.1%})")
