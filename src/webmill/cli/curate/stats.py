"""`webmill curate stats`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.text import escape_text, format_count
from webmill.curate.report import CurateReport, DistributionSummary
from webmill.pipeline.curate.run import open_corpus


@click.command(
    epilog="""\b
Examples:
  webmill curate stats news/
  webmill curate stats news/ --json | jq .steps"""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def stats(*, root: Path, as_json: bool) -> None:
    """Show how many documents each step removed and why, with examples, and lengths, languages, hosts, dates before and
    after."""
    report = open_corpus(root.resolve()).report()
    if as_json:
        click.echo(msgspec.json.encode(report))
        return
    for step in report.steps:
        click.echo(f"{escape_text(step.step)}: {step.documents:,} in, {step.kept:,} out")
        for reason, removed in step.reasons.items():
            click.echo(f"  {reason}: {removed.count:,}")
            for example in removed.examples:
                click.echo(f"    {escape_text(example)}")
    for name in ("lengths", "languages", "hosts", "months"):
        print_distribution(name, report.before, report.after)


def print_distribution(name: str, before: DistributionSummary, after: DistributionSummary) -> None:
    """Print a distribution: value, documents before, documents after."""
    click.echo(f"{name} (before, after)")
    kept = getattr(after, name)
    for value, count in getattr(before, name).items():
        click.echo(f"  {escape_text(value)}: {count:,} {kept.get(value, 0):,}")


def print_curate_report(report: CurateReport) -> None:
    """Print how many documents each step left."""
    for step in report.steps:
        if step.removed:
            reasons = ", ".join(f"{one.count:,} {reason}" for reason, one in step.reasons.items())
            note(f"{escape_text(step.step)}: {step.removed:,} of {step.documents:,} removed ({reasons})")
    note(f"{format_count(report.kept, 'document')} of {report.documents:,} kept")
