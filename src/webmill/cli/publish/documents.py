"""`webmill publish documents`."""

from __future__ import annotations

from pathlib import Path

import click

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.main import FAILED
from webmill.cli.options import settings_options
from webmill.cli.param_types import require_folder
from webmill.cli.publish.storage import json_option, print_json, print_version, root_argument, storage_option
from webmill.cli.search.index import print_search_update
from webmill.cli.text import format_count
from webmill.pipeline.publish.run import PublishReport, publish_collection
from webmill.publish.guard import VersionShrunk
from webmill.settings import Settings

ROWS = {  # names of what became of rows
    "bad_documents": "files that cannot be read",
    "bad_row": "rows that cannot be read",
    "no_text": "without text",
    "no_url": "without a URL",
    "not_ok": "with a status other than 2xx",
    "older": "older captures",
    "published": "published",
    "removed": "of pages that are gone",
    "repeated": "unchanged revisits",
}


@click.command(
    epilog="""\b
Examples:
  webmill cc run --crawl latest --domain example.com -o news/documents
  webmill publish documents news/
  webmill publish documents news/ --from s3://bucket/documents \\
    --facet language

\b
For each URL, the newest capture with text is published; its id is the urlkey.
Its content is text, title and language: if they are unchanged, nothing is
written. If no document has changed, no new version is made.
Exit code 3: done, but some input could not be read."""
)
@root_argument
@click.option("--from", "origin", metavar="DIR|URL", help="Where to read documents from  [default: DIR/documents]")
@settings_options("publish")
@storage_option
@click.option("--force", is_flag=True, help="Publish even if nothing changed, or if too many documents disappeared.")
@json_option
@pass_context
def documents(
    context: Context,
    /,
    *,
    root: Path,
    origin: str | None,
    storage: str | None,
    force: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Publish the documents that `webmill extract`, `cc` or `dataset` wrote, as a new version."""
    if not origin:
        require_folder(root)
    try:
        report = publish_collection(
            root.resolve(), settings, progress=context.progress, origin=origin, storage=storage, force=force
        )
    except VersionShrunk as error:
        warn(f"refused: {error}")
        raise click.exceptions.Exit(FAILED) from None
    if as_json:
        print_json({"published": report.published, "read": report.read})
    print_publish_report(report, root)
    finish(rejected=report.rejected, where=where_bad_rows(root))


def where_bad_rows(root: Path) -> str:
    return f"rows or files of documents; `webmill publish show {root} --errors` says why"


def print_publish_report(report: PublishReport, root: Path) -> None:
    read, published = report.read, report.published
    counts_by_reason = [f"{count:,} {ROWS.get(reason, reason)}" for reason, count in sorted(read.rows.items()) if count]
    note(f"{format_count(read.files, 'file')}: {', '.join(counts_by_reason) or 'no rows'}")
    counts, name = published.counts, published.version.version
    held = format_count(counts.items, "published document")
    print_version(name, counts, is_new=published.is_new, held=held, seconds=report.seconds)
    print_search_update(report.fed, report.search_problem, root)
