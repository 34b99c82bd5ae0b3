"""Flags that the commands share, and the parts they open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from webmill.cli.collections import existing
from webmill.cli.context import Context
from webmill.cli.publish.places import publishing_in, storage_for_reading
from webmill.errors import NotFound
from webmill.infra.address import scheme_of
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.search.backends import open_search, search_of
from webmill.search.base import Engine

engine_option = click.option(
    "--index",
    "index",
    metavar="URL",
    help="A folder, meilisearch://KEY@HOST:PORT/INDEX or opensearch://USER:PASSWORD@HOST:PORT/INDEX; with an s after "
    "the scheme, over TLS.  [default: as the settings say, or DIR/search]",
)


def index_of(context: Context, root: Path, flag: str | None) -> str:
    """As the flag says, else the settings, else in the collection."""
    if flag is None:
        root = root.resolve()
        return search_of(context.settings(root if root.is_dir() else None).search.url, root)
    scheme, path = scheme_of(flag)
    return str(Path(path).resolve()) if scheme == "file" else flag


def folder_of(index: str) -> Path | None:
    """None: it is on a server."""
    scheme, path = scheme_of(index)
    return Path(path) if scheme == "file" else None


def published(root: Path, storage: str | None) -> Storage:
    """`NotFound` before the first publication: then there is nothing to index, and nothing is made."""
    versions = storage_for_reading(publishing_in(root), storage)
    if not history.every_version(versions):
        raise NotFound(f"nothing has been published in {root}: `webmill publish documents` or `webmill publish run`")
    return versions


@contextmanager
def opened_to_read(context: Context, root: Path, flag: str | None) -> Iterator[Engine]:
    if flag is None:
        existing(root)
    try:
        engine = open_search(index_of(context, root, flag), create=False)
    except NotFound as error:
        option = " --index …" if flag else ""
        raise NotFound(f"{error} yet: `webmill search update {root}{option}`") from None
    with closing(engine):
        yield engine
