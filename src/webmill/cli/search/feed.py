"""`webmill search update`, `rebuild`, `check`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.publish.places import json_option, publishing_in, root_argument, storage_option
from webmill.cli.search.places import engine_option, opened
from webmill.errors import BadInput, WebmillError
from webmill.flows.search import feed
from webmill.flows.search.feed import Fed


@click.command(epilog="Example: webmill search update news/")
@root_argument
@storage_option
@engine_option
@json_option
@pass_context
def update(context: Context, *, root: Path, storage: str | None, engine_url: str | None, as_json: bool) -> None:
    """Bring the index up to the live version: only what changed is read."""
    _run(context, feed.update, root=root, storage=storage, engine_url=engine_url, as_json=as_json)


@click.command(epilog="Example: webmill search check news/")
@root_argument
@storage_option
@engine_option
@json_option
@pass_context
def check(context: Context, *, root: Path, storage: str | None, engine_url: str | None, as_json: bool) -> None:
    """Compare the index with all of the live version, and mend what is missing, doubled or left over."""
    _run(context, feed.reconcile, root=root, storage=storage, engine_url=engine_url, as_json=as_json)


@click.command(epilog="Example: webmill search rebuild news/")
@root_argument
@storage_option
@engine_option
@json_option
@pass_context
def rebuild(context: Context, *, root: Path, storage: str | None, engine_url: str | None, as_json: bool) -> None:
    """Make the index anew. Until it ends, searches find what is there already."""
    try:
        _run(context, feed.rebuild, root=root, storage=storage, engine_url=engine_url, as_json=as_json)
    except BadInput as error:
        if engine_url or error.reason != "bad_search_index":
            raise
        shutil.rmtree(publishing_in(root).search)  # it holds nothing that is not elsewhere
        _run(context, feed.rebuild, root=root, storage=storage, engine_url=engine_url, as_json=as_json)


def follow(context: Context, root: Path, *, storage: str | None) -> None:
    """After a publication: an index that is there is brought up to it. What fails is told; the version stays."""
    if not publishing_in(root).search.is_dir():
        return
    try:
        with opened(root, storage=storage, engine_url=None) as (versions, engine):
            fed = feed.update(versions, engine, watch=context.progress)
        note(f"search: {fed.changed:,} put in, {fed.removed:,} taken out")
    except WebmillError as error:
        warn(f"the search index is not up to date: {error}; then: webmill search update {root}")


def _run(
    context: Context,
    work: Callable[..., Fed],
    *,
    root: Path,
    storage: str | None,
    engine_url: str | None,
    as_json: bool,
) -> None:
    with opened(root, storage=storage, engine_url=engine_url) as (versions, engine):
        fed = work(versions, engine, watch=context.progress)
        count = engine.count()
    if as_json:
        click.echo(msgspec.json.encode(fed))
    note(
        f"version {fed.version}: {count:,} documents; {fed.changed:,} put in, {fed.removed:,} taken out"
        + ", compared with all of the version" * fed.compared
    )
    finish(rejected=len(fed.skipped), where="their blobs cannot be read: `webmill publish verify`")
