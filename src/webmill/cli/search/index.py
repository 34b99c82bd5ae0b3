"""`webmill search update`, `rebuild`, `check`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.dry_run import dry_run_option, format_amount
from webmill.cli.options import together
from webmill.cli.param_types import require_folder
from webmill.cli.publish.storage import json_option, root_argument, storage_option
from webmill.cli.search.options import search_options
from webmill.cli.text import format_count
from webmill.errors import WebmillError
from webmill.pipeline.search import feed
from webmill.pipeline.search.collection import (
    SearchUpdate,
    build_index_as_of,
    index_folder,
    open_for_reading,
    open_published,
    update_index,
    wanted_items,
)
from webmill.pipeline.search.collection import rebuild_index as make_anew
from webmill.pipeline.search.collection import update_existing_index as bring_after
from webmill.pipeline.search.feed import FeedReport
from webmill.pipeline.status.files import measure_folder
from webmill.publish import history
from webmill.search.backends import search_address
from webmill.settings import Settings

index_options = together(root_argument, storage_option, search_options, json_option)
UNREADABLE = "blobs that cannot be read; `webmill publish verify --read-data` lists them"


@click.command(
    epilog="""\b
Examples:
  webmill search update news/
  webmill search update news/ --as-of 2026-03

Exit code 3: done, but some blobs cannot be read."""
)
@index_options
@click.option("--as-of", default="", metavar="DATE", help="Build an index of the version that was live then: 2026-03.")
@pass_context
def update(context: Context, *, root: Path, storage: str | None, settings: Settings, as_json: bool, as_of: str) -> None:
    """Update the index to the live version. Only changes are read."""
    if as_of:
        done = build_index_as_of(root.resolve(), settings.search, as_of, progress=context.progress, storage=storage)
        finish_update(done, as_json=as_json)
        return
    finish_update(
        update_index(root.resolve(), settings.search, progress=context.progress, storage=storage), as_json=as_json
    )


@click.command(
    epilog="""\b
Examples:
  webmill search check news/ --dry-run
  webmill search check news/

Exit code 3: done, but some blobs cannot be read."""
)
@index_options
@dry_run_option
@pass_context
def check(
    context: Context, *, root: Path, storage: str | None, settings: Settings, dry_run: bool, as_json: bool
) -> None:
    """Compare the index with the whole live version, and fix missing, duplicate or leftover documents."""
    if dry_run:
        require_folder(root)
        with open_for_reading(root, settings.search) as engine:
            missing, left_over = feed.differences(
                open_published(root, storage), engine, wants=wanted_items(settings.search)
            )
        note(f"would be indexed: {format_count(missing, 'document')}; would be removed: {left_over:,}")
        return
    done = update_index(
        root.resolve(), settings.search, progress=context.progress, storage=storage, work=feed.reconcile
    )
    finish_update(done, as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  webmill search rebuild news/ --dry-run
  webmill search rebuild news/

Exit code 3: done, but some blobs cannot be read."""
)
@index_options
@dry_run_option
@pass_context
def rebuild(
    context: Context, *, root: Path, storage: str | None, settings: Settings, dry_run: bool, as_json: bool
) -> None:
    """Rebuild the index from scratch. The old index is replaced when the new one is complete."""
    if dry_run:
        live = history.live_version(open_published(root, storage))
        folder = index_folder(search_address(settings.search.url, root.resolve()))
        old = (
            f"the index in {folder} ({format_amount(measure_folder(folder))})" if folder else "the index of the server"
        )
        note(f"would be replaced: {old}, by one of version {live.version}: {format_count(live.count, 'document')}")
        return
    finish_update(
        make_anew(root.resolve(), settings.search, progress=context.progress, storage=storage), as_json=as_json
    )


def update_after_publishing(context: Context, root: Path, *, storage: str | None) -> None:
    """Update an existing index after publishing. A failure is a warning: the version stays published."""
    root = root.resolve()
    try:
        fed = bring_after(root, context.settings(root).search, progress=context.progress, storage=storage)
    except WebmillError as error:
        print_search_update(None, str(error), root)
    else:
        print_search_update(fed, "", root)


def print_search_update(fed: FeedReport | None, problem: str, root: Path) -> None:
    if fed and (fed.changed or fed.removed):
        note(f"search: {format_count(fed.changed, 'document')} indexed, {fed.removed:,} removed")
    if problem:
        warn(f"the search index is not up to date: {problem}; repair it, then run: webmill search update {root}")


def print_update(done: SearchUpdate) -> None:
    fed, count = done.fed, done.documents
    note(
        f"version {fed.version}: {format_count(count, 'document')}; {fed.changed:,} indexed, {fed.removed:,} removed"
        + ", compared with the whole version" * fed.compared
    )


def finish_update(done: SearchUpdate, *, as_json: bool) -> None:
    """Print what was done. Exit with code 3 if some blobs cannot be read."""
    if as_json:
        click.echo(msgspec.json.encode(done.fed))
    print_update(done)
    finish(rejected=len(done.fed.skipped), where=UNREADABLE)
