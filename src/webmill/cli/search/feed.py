"""`webmill search update`, `rebuild`, `check`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.dry_run import dry_run_option, quantity
from webmill.cli.publish.places import json_option, root_argument, storage_option
from webmill.cli.search.places import engine_option, folder_of, index_of, opened_to_read, published
from webmill.cli.words import counted
from webmill.errors import WebmillError
from webmill.infra.lock import exclusive
from webmill.pipeline.search import feed
from webmill.pipeline.search.feed import Fed
from webmill.pipeline.status.files import amount_of
from webmill.publish import history
from webmill.search.backends import open_search, replacing_search


@click.command(
    epilog="""\b
Example:
  webmill search update news/

Exit code 3: done, but some blobs cannot be read."""
)
@root_argument
@storage_option
@engine_option
@json_option
@pass_context
def update(context: Context, *, root: Path, storage: str | None, index: str | None, as_json: bool) -> None:
    """Bring the index up to the live version: only what changed is read."""
    bring(context, feed.update, root=root, storage=storage, index=index, as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  webmill search check news/ --dry-run
  webmill search check news/

Exit code 3: done, but some blobs cannot be read."""
)
@root_argument
@storage_option
@engine_option
@dry_run_option
@json_option
@pass_context
def check(
    context: Context, *, root: Path, storage: str | None, index: str | None, dry_run: bool, as_json: bool
) -> None:
    """Compare the index with all of the live version, and mend what is missing, doubled or left over."""
    if dry_run:
        with opened_to_read(context, root, index) as engine:
            missing, left_over = feed.differences(published(root, storage), engine)
        note(f"would be put in: {counted(missing, 'document')}; would be taken out: {left_over:,}")
        return
    bring(context, feed.reconcile, root=root, storage=storage, index=index, as_json=as_json)


@click.command(
    epilog="""\b
Examples:
  webmill search rebuild news/ --dry-run
  webmill search rebuild news/

Exit code 3: done, but some blobs cannot be read."""
)
@root_argument
@storage_option
@engine_option
@dry_run_option
@json_option
@pass_context
def rebuild(
    context: Context, *, root: Path, storage: str | None, index: str | None, dry_run: bool, as_json: bool
) -> None:
    """Make the index anew, beside the old one, whose place it takes when it is whole."""
    versions, place = published(root, storage), index_of(context, root, index)
    folder = folder_of(place)
    if dry_run:
        live = history.live(versions)
        old = f"the index in {folder} ({quantity(amount_of(folder))})" if folder else "the index of the server"
        note(f"would be replaced: {old}, by one of version {live.version}: {counted(live.count, 'document')}")
        return
    with (
        exclusive(folder.parent if folder else root, "search-rebuild", doing="making a search index"),
        replacing_search(place) as fresh,
        closing(open_search(fresh)) as engine,
    ):
        fed = feed.update(versions, engine, watch=context.progress)
        count = engine.count()
    tell(fed, count, as_json=as_json)


def bring(
    context: Context,
    work: Callable[..., Fed],
    *,
    root: Path,
    storage: str | None,
    index: str | None,
    as_json: bool,
) -> None:
    versions, place = published(root, storage), index_of(context, root, index)
    with ExitStack() as stack:
        if not folder_of(place):  # a folder knows itself who writes to it
            stack.enter_context(exclusive(root, "search-rebuild", doing="writing to a search server"))
        engine = stack.enter_context(closing(open_search(place)))
        fed = work(versions, engine, watch=context.progress)
        tell(fed, engine.count(), as_json=as_json)


def follow(context: Context, root: Path, *, storage: str | None) -> None:
    """After a publication: an index that is there is brought up to it. What fails is told; the version stays."""
    place = index_of(context, root, None)
    folder = folder_of(place)
    if folder and not folder.is_dir():
        return
    try:
        with closing(open_search(place, create=False)) as engine:
            fed = feed.update(published(root, storage), engine, watch=context.progress)
        if fed.changed or fed.removed:
            note(f"search: {fed.changed:,} put in, {fed.removed:,} taken out")
    except WebmillError as error:
        warn(f"the search index is not up to date: {error}; then: webmill search update {root}")


def tell(fed: Fed, count: int, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(fed))
    note(
        f"version {fed.version}: {counted(count, 'document')}; {fed.changed:,} put in, {fed.removed:,} taken out"
        + ", compared with all of the version" * fed.compared
    )
    finish(rejected=len(fed.skipped), where="their blobs cannot be read: `webmill publish verify --read-data`")
