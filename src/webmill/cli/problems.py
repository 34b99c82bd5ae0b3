"""`webmill problems`: lists everything that went wrong in a collection, by cause, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.text import escape_text, json_line
from webmill.pipeline.problems import ProblemGroup, collect_problems, count_problems

COLOURS = {"error": "red", "warning": "yellow"}
EXAMPLES = 3  # printed of each group


@click.command(
    epilog="""\b
Examples:
  webmill problems news/
  webmill problems news/ --stage crawl --examples 20
  webmill problems news/ --json | jq -r '.groups[].examples[].subject'

\b
It only reads, so it is safe while other commands run. A warning is what
is usual on the web: robots.txt, pages that do not exist.
Exit code 3: there are errors."""
)
@click.argument("root", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--stage", metavar="STAGE", help="Only of this stage: crawl, archive, index, extract, dataset, publish or alert."
)
@click.option(
    "--examples",
    type=click.IntRange(0, 20),
    metavar="N",
    default=EXAMPLES,
    show_default=True,
    help="Cases to print of each cause.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout, with up to 20 cases of each cause."
)
def problems(root: Path, *, stage: str | None, examples: int, as_json: bool) -> None:
    """List everything that went wrong in the collection in DIR, in any stage, by cause, with what to do."""
    report = collect_problems(root.resolve(), folder=str(root))
    if stage:
        report = msgspec.structs.replace(report, groups=[group for group in report.groups if group.stage == stage])
    if as_json:
        click.echo(json_line(msgspec.to_builtins(report)))
    for group in report.groups if not as_json else ():
        click.secho(headline(group), fg=COLOURS[group.severity])
        for line in details(group, examples=examples):
            click.echo(f"    {escape_text(line)}")
    note(count_problems(report) or "no problems")
    if report.errors:
        raise click.exceptions.Exit(3)


def headline(group: ProblemGroup) -> str:
    count = f"{'at least ' * group.is_estimate}{group.count:,}"
    return f"{group.severity}  {group.stage}: {escape_text(group.title)} ({count})"


def details(group: ProblemGroup, *, examples: int) -> Iterator[str]:
    shown = group.examples[:examples]
    for one in shown:
        yield f"{one.subject}: {one.message}" if one.message else one.subject
    if shown and (rest := group.count - len(shown)) > 0:
        yield f"… and {rest:,} more"
    if group.first is not None and group.last is not None:
        when = sorted({format_time(group.first), format_time(group.last)})
        yield f"when: {' to '.join(when)}"
    if group.advice:
        yield f"do:   {group.advice}"
    if group.command:
        yield f"      {group.command}"


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
