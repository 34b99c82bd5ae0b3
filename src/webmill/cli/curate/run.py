"""`webmill curate plan`, `run`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, hint, note, pass_context, warn
from webmill.cli.curate.stats import print_curate_report
from webmill.cli.options import settings_options
from webmill.cli.text import escape_text, format_count
from webmill.pipeline.curate.run import curate_collection, plan_curation
from webmill.settings import Settings

root_argument = click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
origin_option = click.option(
    "--from", "origin", metavar="PLACE", help="Documents elsewhere: a folder or s3://…  [default: DIR/documents]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")


@click.command(
    epilog="""\b
Example:
  webmill curate plan news/ --recipe fineweb"""
)
@root_argument
@settings_options("curate")
@origin_option
@json_option
def plan(*, root: Path, settings: Settings, origin: str | None, as_json: bool) -> None:
    """Show the steps of the recipe with their parameters, and how many files each has still to measure."""
    found = plan_curation(root.resolve(), settings, origin=origin)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    click.echo(f"{escape_text(found.recipe.name)}: {escape_text(found.recipe.about)}")
    for number, step in enumerate(found.recipe.steps, 1):
        hidden = ("use", "name", "by_language", "code")
        fields = {name: value for name, value in msgspec.to_builtins(step).items() if name not in hidden}
        if step.own_languages():
            fields["by_language"] = format_count(len(step.own_languages()), "language")
        shown = ", ".join(f"{name}={value}" for name, value in fields.items() if value not in (None, "", [], ()))
        click.echo(f"{number:2}. {escape_text(step.title)}  {escape_text(shown)}")
        if found.lacking[step.title]:
            click.echo(f"    {format_count(found.lacking[step.title], 'file')} to measure")
    click.echo(f"{format_count(found.files, 'file')} of documents, {found.due} to be measured")


@click.command(
    epilog="""\b
Examples:
  webmill curate run news/
  webmill curate run news/ --recipe fineweb
  webmill curate run news/ --recipe mine.toml --processes 4
  webmill curate run corpus/ --from datasets/news/output

\b
If it is interrupted, run it again to continue.
Exit code 3: done, but some rows of documents could not be read."""
)
@root_argument
@settings_options("curate", "executor")
@origin_option
@json_option
@pass_context
def run(context: Context, /, *, root: Path, settings: Settings, origin: str | None, as_json: bool) -> None:
    """Measure the documents of DIR by the steps of a recipe, and decide which are kept, in DIR/corpus.

    Only new documents are measured; a changed threshold measures nothing. Documents and their files stay as they are.
    """
    root = root.resolve()
    result = curate_collection(root, settings, progress=context.progress, origin=origin)
    assert result.report
    for problem in result.problems:
        warn(escape_text(problem))
    if as_json:
        click.echo(msgspec.json.encode(result))
    else:
        note(f"{format_count(result.measured, 'file')} measured, {result.files - result.measured} unchanged")
        print_curate_report(result.report)
        hint(f"Next: webmill curate export {root} --hf OUT, or webmill curate explain {root} URL")
    finish(rejected=result.unreadable, where="rows of documents; they are named when their file is measured")
