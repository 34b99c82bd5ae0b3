"""`webmill extract`: extracts documents from the archives of a collection."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.extract_report import print_extract_report, suggest_extractor, warn_if_unreadable
from webmill.cli.options import settings_options
from webmill.cli.text import escape_text
from webmill.index.archives import crawls_with_archives
from webmill.pipeline.extract.collection import extract_collection, output_shape
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
If it is interrupted, run it again to continue.
Exit code 3: archives failed or are damaged, or most captures could not be
read; messages say why, and DIR/.webmill/extract/errors has the details."""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@settings_options("extract", "executor")
@click.option("--from-scratch", is_flag=True, help="Discard the existing documents and extract all of them again.")
@click.option("--retry", is_flag=True, help="Retry archives that failed before.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_context
def extract(
    context: Context, /, *, root: Path, settings: Settings, from_scratch: bool, retry: bool, as_json: bool
) -> None:
    """Extract text, title and language from the new WARC files of DIR, as documents in DIR/documents.

    Reads web pages, plain text, feeds, and PDF (with webmill[pdf]). Types without text (images, styles, scripts) are
    counted and skipped. For archives outside a collection use `webmill dataset`.
    """
    root = root.resolve()
    suggest_extractor(output_shape(settings.extract).recipe.extractor)
    report = extract_collection(
        root, settings, progress=context.progress, refuse=warn_refused_file, retry=retry, from_scratch=from_scratch
    )
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        print_collection_report(report, root)
    finish(rejected=report.rejected, where=where_reasons(root))


def print_collection_report(report: ExtractReport, root: Path) -> None:
    if not (report.tasks or report.failed or report.left):
        note(
            "no new archives"
            if crawls_with_archives(root)
            else f"no WARC files in {root} yet: add some with `webmill crawl` or `webmill add`"
        )
        return
    print_extract_report(report)
    warn_if_unreadable(report.outcomes, captures=report.captures)
    if report.failed:
        note(f"`webmill dead list {root}` says why; `webmill extract {root} --retry` retries them")


def where_reasons(root: Path) -> str:
    return f"see {root}/.webmill/extract/errors and the lines above"


def warn_refused_file(path: str, reason: str, message: str) -> None:
    warn(f"{escape_text(path)}: {escape_text(message)} [{reason}]")
