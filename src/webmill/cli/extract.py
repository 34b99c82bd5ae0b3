"""`webmill extract`: documents of a collection's own archives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, hint, note, pass_context, warn
from webmill.cli.dataset.run import tell
from webmill.cli.options import settings_options
from webmill.cli.words import counted, shown
from webmill.collection import Publishing
from webmill.index.archives import archived
from webmill.pipeline.dataset.config import Make, Write
from webmill.pipeline.dataset.folder import FILE_NAME, Sealed, find_folders
from webmill.pipeline.dataset.own import warcs_of
from webmill.pipeline.dataset.run import Report
from webmill.pipeline.extract_archives import extract_archives, shape_of
from webmill.settings import Settings


@click.command(
    epilog="""\b
Examples:
  webmill extract news/                 # new archives since the last time
  webmill extract news/ --format parquet
Then: webmill publish documents news/

\b
Killed at any moment, the next one goes on. Exit code 3: some pages gave
errors; they are told, and kept in DIR/extract/*/errors."""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@settings_options("extract", "executor.jobs")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@pass_context
def extract(context: Context, /, *, root: Path, settings: Settings, as_json: bool) -> None:
    """Text, title, language and links of what DIR's WARC files hold, as documents in DIR/documents.

    Of pages, plain text, feeds, and PDF with webmill[pdf]. What has no text by its kind (pictures, styles, scripts) is
    counted and left out. Only archives that were not read before. For other people's archives, or functions of your
    own: `webmill dataset`.
    """
    root = root.resolve()
    report = extract_archives(root, settings, watch=context.progress, refuse=refused)
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        tell_all(report, root)
    tell_otherwise(root, *shape_of(root, settings.extract))
    finish(rejected=report.failed + report.errors + report.left, where=reasons_in(root))


def tell_all(report: Report, root: Path) -> None:
    if report.tasks:
        tell(report)
    else:
        note("no archives that were not read before" if archived(root) else f"there are no WARC files in {root} yet")


def reasons_in(root: Path) -> str:
    return f"`webmill dataset errors NAME --in {root}/extract` says why"


def tell_otherwise(root: Path, document: Make, write: Write) -> None:
    """Of archives that were read before, and into something else than is asked for now: they are not read again."""
    wanted, found = words_of(document, write), Counter[str]()
    for path in find_folders(Publishing(root).extract):
        made = msgspec.json.decode((path / FILE_NAME).read_bytes(), type=Sealed).dataset
        found[words_of(made.document, made.write)] += len(warcs_of(path))
    for shape, count in found.items():
        if shape != wanted:
            repair = f"remove {Publishing(root).extract} and what it wrote to {write.to}, and run this again"
            hint(f"{counted(count, 'archive', 'were')} read before, into {shape}; for {wanted} of all, {repair}")


def words_of(document: Make, write: Write) -> str:
    return write.format + " with every capture" * (document.keep == "captures")


def refused(path: str, reason: str, message: str) -> None:
    warn(f"{shown(path)}: {shown(message)} [{reason}]")
