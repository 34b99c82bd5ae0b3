"""`webmill extract`: documents of a collection's own archives."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.extracted import advise, tell, tell_unread
from webmill.cli.options import settings_options
from webmill.cli.words import shown
from webmill.index.archives import crawls_with_archives
from webmill.pipeline.extract.collection import extract_collection, shape_of
from webmill.pipeline.extract.totals import ExtractReport
from webmill.settings import Settings


@click.command(
    epilog="""\b
Examples:
  webmill extract news/                 # new archives since the last time
  webmill extract news/ --format parquet
  webmill extract news/ --extractor plain --from-scratch
Then: webmill publish documents news/

\b
Killed at any moment, the next one goes on. Exit code 3: archives failed, are
damaged, or most captures could not be read; what is wrong is told, and kept
in DIR/.webmill/extract/errors."""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@settings_options("extract", "executor")
@click.option("--from-scratch", is_flag=True, help="Forget the documents made before, and make all of them anew.")
@click.option("--retry", is_flag=True, help="Try archives that failed before again.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@pass_context
def extract(
    context: Context, /, *, root: Path, settings: Settings, from_scratch: bool, retry: bool, as_json: bool
) -> None:
    """Text, title, language of what DIR's WARC files hold, as documents in DIR/documents.

    Of pages, plain text, feeds, and PDF with webmill[pdf]. What has no text by its type (pictures, styles, scripts) is
    counted and left out. Only archives that were not read before. For other people's archives, or functions of your
    own: `webmill dataset`.
    """
    root = root.resolve()
    advise(shape_of(settings.extract).recipe.extractor)
    report = extract_collection(
        root, settings, progress=context.progress, refuse=refused, retry=retry, from_scratch=from_scratch
    )
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        tell_all(report, root)
    finish(rejected=report.rejected, where=reasons_in(root))


def tell_all(report: ExtractReport, root: Path) -> None:
    if not (report.tasks or report.failed or report.left):
        note("no new archives" if crawls_with_archives(root) else f"there are no WARC files in {root} yet")
        return
    tell(report)
    tell_unread(report.outcomes, captures=report.captures)
    if report.failed:
        note(f"`webmill dead list {root}` says why, `webmill extract {root} --retry` tries them again")


def reasons_in(root: Path) -> str:
    return f"see {root}/.webmill/extract/errors and the lines above"


def refused(path: str, reason: str, message: str) -> None:
    warn(f"{shown(path)}: {shown(message)} [{reason}]")
