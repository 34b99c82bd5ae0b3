"""`webmill curate explain`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.text import escape_text
from webmill.pipeline.curate.explain import ExplainedNumber, Explanation, explain_document


@click.command(
    epilog="""\b
Examples:
  webmill curate explain news/ https://example.org/
  webmill curate explain news/ https://example.org/ --json"""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("named", metavar="URL|ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per document.")
def explain(*, root: Path, named: str, as_json: bool) -> None:
    """Say why the document with this URL or id is in the corpus or not: every number that was measured, and its limit.

    Several documents with the URL are explained one after the other.
    """
    for found in explain_document(root.resolve(), named):
        if as_json:
            click.echo(msgspec.json.encode(found))
        else:
            print_explanation(found)


def print_explanation(found: Explanation) -> None:
    click.echo(f"{escape_text(found.url)} ({escape_text(found.id)})")
    click.echo("  kept" if found.kept else f"  removed by {escape_text(found.step or '')}: {found.reason}")
    if found.same_as:
        click.echo(f"  repeats {escape_text(found.same_as)}")
    for step in found.steps:
        mark = " (removed here)" if step.removed_here else "" if step.concerned else " (not for its language)"
        click.echo(f"  {escape_text(step.step)}{mark}")
        for number in step.numbers:
            click.echo(f"    {describe_number(number)}")


def describe_number(number: ExplainedNumber) -> str:
    value = "unknown" if number.value is None else f"{number.value:.6g}"
    bounds = (("at least", number.least), ("at most", number.most))
    limits = [f"{words} {bound:g}" for words, bound in bounds if bound is not None]
    text = f"{number.name} {value}" + (f", {' and '.join(limits)}" if limits else "")
    return f"{text}: beyond" if number.broken else text
