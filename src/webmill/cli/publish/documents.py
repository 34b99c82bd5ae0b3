"""`webmill publish documents`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from webmill.cli.collections import existing
from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.main import FAILED
from webmill.cli.publish.places import (
    echo_json,
    json_option,
    publishing_in,
    root_argument,
    storage_for_writing,
    storage_option,
    tell_version,
)
from webmill.cli.search.feed import follow
from webmill.cli.words import counted
from webmill.infra.address import scheme_of
from webmill.pipeline.documents import open_documents
from webmill.pipeline.publish.documents import FACETS, WRITERS, Found, publish_documents
from webmill.pipeline.publish.due import note_look
from webmill.publish.guard import MOST_LOST, Shrunk
from webmill.publish.snapshot import Options, Published

ROWS = {  # what became of rows, in words
    "bad_documents": "files that cannot be read",
    "bad_row": "rows that cannot be read",
    "no_text": "without text",
    "no_url": "without a URL",
    "not_ok": "of other answers than 2xx",
    "older": "older captures",
    "published": "published",
    "repeated": "visits that found nothing new",
}


@click.command(
    epilog="""\b
Examples:
  webmill cc run --crawl latest --domain example.com -o news/documents
  webmill publish documents news/
  webmill publish documents news/ --from s3://bucket/documents \\
    --facet language

\b
Of each URL the newest capture with text is published; its id is the urlkey.
Text, title and language are its content: a page in which they are the same
costs no write. Where nothing has changed since the live version, no other is
made. Exit code 3: done, but some input could not be read."""
)
@root_argument
@click.option("--from", "origin", metavar="DIR|URL", help="Where the documents are  [default: DIR/documents]")
@click.option(
    "--facet",
    "facets",
    multiple=True,
    type=click.Choice(FACETS),
    default=("language",),
    show_default=True,
    help="Index by it, too; repeatable.",
)
@storage_option
@click.option("--force", is_flag=True, help="Publish also what is the same, or lost too much to be believed.")
@click.option(
    "--most-lost",
    type=click.FloatRange(0, 1),
    default=MOST_LOST,
    show_default=True,
    metavar="SHARE",
    help="Refuse to lose more pages than this.",
)
@json_option
@pass_context
def documents(
    context: Context,
    /,
    *,
    root: Path,
    origin: str | None,
    facets: tuple[str, ...],
    storage: str | None,
    force: bool,
    most_lost: float,
    as_json: bool,
) -> None:
    """Publish the documents that `webmill extract`, `cc` or `dataset` wrote, as blobs and a version."""
    place = publishing_in(root)
    if not origin:
        existing(root)
    started, began = time.monotonic(), datetime.now(UTC)
    found = open_documents(origin or str(place.documents))
    versions = storage_for_writing(place, storage)
    readers = 1 if scheme_of(storage or "")[0] == "file" else WRITERS
    options = Options(facets=facets, force=force, most_lost=most_lost, writers=WRITERS, readers=readers)
    with context.progress("Publishing", unit="pages") as bar:
        try:
            published, read = publish_documents(versions, found, options=options, bar=bar)
        except Shrunk as error:
            warn(f"refused: {error}")
            raise click.exceptions.Exit(FAILED) from None
    if not published.is_new and not origin:  # else those of the collection were not looked at
        note_look(versions, began)
    if as_json:
        echo_json({"published": published, "read": read})
    tell(published, read, seconds=time.monotonic() - started)
    follow(context, root, storage=storage)
    bad = read.rows["bad_row"] + read.rows["bad_documents"]
    finish(rejected=bad, where=f"rows or files of documents; `webmill publish show {root} --errors` says why")


def tell(published: Published, read: Found, *, seconds: float) -> None:
    told = [f"{count:,} {ROWS.get(reason, reason)}" for reason, count in sorted(read.rows.items()) if count]
    note(f"{counted(read.files, 'file')}: {', '.join(told) or 'no rows'}")
    counts, name = published.counts, published.version.version
    tell_version(name, counts, is_new=published.is_new, held=counted(counts.items, "page"), seconds=seconds)
