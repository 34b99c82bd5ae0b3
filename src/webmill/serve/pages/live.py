"""The live version, its age and what it tells of itself, for pages that show some of it."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from webmill.errors import NotFound
from webmill.infra.storage.base import Readable
from webmill.publish import history
from webmill.publish.facets import Value
from webmill.publish.gather import Source
from webmill.publish.manifest import read_entry, read_manifest
from webmill.publish.nouns import Problem, Version, decode
from webmill.serve.site import Site

LARGEST = 8 << 20  # bytes of a file that a page is made from
T = TypeVar("T")


class Search(msgspec.Struct, frozen=True):
    """`cursor` is the version that it was made up to."""

    count: int
    cursor: str | None


def live_version(site: Site) -> Version | None:
    try:
        return history.live(site.versions)
    except NotFound:
        return None


def age_of(version: Version) -> float:
    return max(0.0, (datetime.now(UTC) - version.published_at).total_seconds())


def search_state(site: Site) -> Search | None:
    """None: nothing is indexed yet."""
    try:
        with closing(site.open_engine()) as engine:
            return Search(engine.count(), engine.cursor())
    except NotFound:
        return None


def facets_of(storage: Readable, version: Version) -> dict[str, list[Value]]:
    return _read(storage, version, "meta/facets.json", dict[str, list[Value]]) or {}


def sources_of(storage: Readable, version: Version) -> list[Source] | None:
    """None: more than a page can show."""
    return _read(storage, version, "meta/sources.json", list[Source])


def problems_of(storage: Readable, version: Version) -> list[Problem] | None:
    return _read(storage, version, "aux/errors.json", list[Problem])


def _read(storage: Readable, version: Version, key: str, kind: type[T]) -> T | None:
    """None when it is not there, or too large for a page."""
    for entry in read_manifest(storage, version).files:
        if entry.key == key and entry.bytes <= LARGEST:
            return decode(read_entry(storage, version, entry), kind, source=key)
    return None
