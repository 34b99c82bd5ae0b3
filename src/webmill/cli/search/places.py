"""Flags that the commands share, and the parts they open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from webmill.cli.publish.places import publishing_in, storage_for_reading
from webmill.errors import NotFound
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.search.base import Engine
from webmill.wiring import open_search

engine_option = click.option(
    "--index",
    "index",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the index is.  [default: DIR/search]",
)


def index_of(root: Path, index: Path | None) -> Path:
    return (index or publishing_in(root).search).resolve()


def published(root: Path, storage: str | None) -> Storage:
    """`NotFound` before the first publication: then there is nothing to index, and nothing is made."""
    versions = storage_for_reading(publishing_in(root), storage)
    if not history.every_version(versions):
        raise NotFound(f"nothing has been published in {root}: `webmill publish documents` or `webmill publish run`")
    return versions


@contextmanager
def opened_to_read(root: Path, index: Path | None) -> Iterator[Engine]:
    place = index_of(root, index)
    try:
        engine = open_search(str(place), create=False)
    except NotFound:
        raise NotFound(f"nothing is indexed in {place} yet: `webmill search update {root}`") from None
    with closing(engine):
        yield engine
