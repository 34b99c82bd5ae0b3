"""`webmill extract`: documents of a collection's own archives."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, hint, note, pass_context, warn
from webmill.cli.dataset.places import doors
from webmill.cli.dataset.run import emit, tell
from webmill.cli.renamed import processes_option
from webmill.cli.words import counted, shown
from webmill.collection import Publishing, crawls_in
from webmill.index.archives import archived
from webmill.infra.executor.backends import open_executor
from webmill.pipeline.dataset.config import Make, Write
from webmill.pipeline.dataset.folder import FILE_NAME, Sealed, find_folders
from webmill.pipeline.dataset.own import datasets_due, warcs_of
from webmill.pipeline.dataset.run import Report, Run, run_dataset
from webmill.pipeline.dataset.task import add_counts
from webmill.settings import ExecutorSettings


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
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="Of the documents; parquet needs webmill[parquet].",
)
@click.option("--all-captures", is_flag=True, help="A record of every capture: of pictures, too, without text.")
@processes_option("Archives at once  [default: one per core]")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@pass_context
def extract(context: Context, /, *, root: Path, form: str, all_captures: bool, jobs: int | None, as_json: bool) -> None:
    """Text, title, language and links of what DIR's WARC files hold, as documents in DIR/documents.

    Of pages, plain text, feeds, and PDF with webmill[pdf]. What has no text by its kind (pictures, styles, scripts) is
    counted and left out. Only archives that were not read before. For other people's archives, or functions of your
    own: `webmill dataset`.
    """
    root = root.resolve()
    settings = context.settings(root)
    chosen = ExecutorSettings(url=settings.executor.url, jobs=jobs or settings.executor.jobs)
    write = Write(to=str(Publishing(root).documents), format=form)  # type: ignore[arg-type]  # click has checked it
    document = Make(keep="captures" if all_captures else "documents")
    total = Report()
    with closing(open_executor(chosen.url, workers=chosen.jobs)) as crew:
        work = Run(crew, doors(settings.http), context.progress, emit=emit, killable=chosen.url != "inline")
        for folder in datasets_due(root, crawls_in(root), document=document, write=write, refuse=refused):
            report = run_dataset(folder, work)
            total = added(total, report)
    if as_json:
        click.echo(msgspec.json.encode(total))
    elif total.tasks:
        tell(total)
    else:
        note("no archives that were not read before" if archived(root) else f"there are no WARC files in {root} yet")
    tell_otherwise(root, document, write)
    where = f"`webmill dataset errors NAME --in {root}/extract` says why"
    finish(rejected=total.failed + total.errors + total.left, where=where)


def tell_otherwise(root: Path, document: Make, write: Write) -> None:
    """Of archives that were read before, and into something else than is asked for now: they are not read again."""
    wanted, found = shape_of(document, write), Counter[str]()
    for path in find_folders(Publishing(root).extract):
        made = msgspec.json.decode((path / FILE_NAME).read_bytes(), type=Sealed).dataset
        found[shape_of(made.document, made.write)] += len(warcs_of(path))
    for shape, count in found.items():
        if shape != wanted:
            repair = f"remove {Publishing(root).extract} and what it wrote to {write.to}, and run this again"
            hint(f"{counted(count, 'archive', 'were')} read before, into {shape}; for {wanted} of all, {repair}")


def shape_of(document: Make, write: Write) -> str:
    return write.format + " with every capture" * (document.keep == "captures")


def refused(path: str, reason: str, message: str) -> None:
    warn(f"{shown(path)}: {shown(message)} [{reason}]")


def added(one: Report, other: Report) -> Report:
    add_counts(left_out := dict(one.left_out), other.left_out)
    return Report(
        tasks=one.tasks + other.tasks,
        pages=one.pages + other.pages,
        documents=one.documents + other.documents,
        skipped=one.skipped + other.skipped,
        left_out=left_out,
        errors=one.errors + other.errors,
        failures=[*one.failures, *other.failures],
        stopped=one.stopped or other.stopped,
        failed=one.failed + other.failed,
        left=one.left + other.left,
    )
