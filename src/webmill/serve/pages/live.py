"""The live version and the state of the search index, for status pages."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from webmill.errors import NotFound
from webmill.publish.types import Version
from webmill.serve.api.engine import SharedEngine
from webmill.serve.api.published import PublishedVersions


class SearchState(msgspec.Struct, frozen=True):
    """The size of the search index; `cursor` is the version that it is up to."""

    count: int
    cursor: str | None


def live_version(published: PublishedVersions) -> Version | None:
    try:
        return published.live()
    except NotFound:
        return None


def age_of(version: Version) -> float:
    return max(0.0, (datetime.now(UTC) - version.published_at).total_seconds())


def search_state(engine: SharedEngine) -> SearchState | None:
    """Return the state of the search index, or None without one."""
    try:
        return SearchState(*engine.state())
    except NotFound:
        return None
