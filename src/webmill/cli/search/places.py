"""Flags that the commands share, and the parts they open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from webmill.cli.publish.places import publishing_in, storage_for_reading
from webmill.errors import NotFound
from webmill.infra.storage.base import Storage
from webmill.search.base import Engine
from webmill.wiring import open_search

engine_option = click.option(
    "--engine", "engine_url", metavar="URL", help="Another engine than DIR/search: meilisearch://…, opensearch://…"
)


@contextmanager
def opened(root: Path, *, storage: str | None, engine_url: str | None) -> Iterator[tuple[Storage, Engine]]:
    place = publishing_in(root)
    versions = storage_for_reading(place, storage)
    with closing(open_search(engine_url or str(place.search))) as engine:
        yield versions, engine


@contextmanager
def opened_to_read(root: Path, *, engine_url: str | None) -> Iterator[Engine]:
    place = publishing_in(root)
    if not engine_url and not place.search.is_dir():
        raise NotFound(f"nothing is indexed in {root} yet: `webmill search update {root}`")
    with closing(open_search(engine_url or str(place.search))) as engine:
        yield engine
