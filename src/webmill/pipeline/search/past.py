"""Search as of a day: the version that was live then has an index of its own, `DIR/search-history/VERSION`.

It is built when it is asked for (`webmill search update DIR --as-of 2026-03`), and never changes: neither does the
version. By meaning it is searched with the vectors of the collection, of which most are there already.
"""

from __future__ import annotations

from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.errors import BadInput, NotFound
from webmill.forgotten import forgotten_in
from webmill.formats.timestamps import latest, to_datetime
from webmill.infra.lock import exclusive
from webmill.infra.storage.base import Storage
from webmill.pipeline.progress import ProgressReporter
from webmill.pipeline.search import feed
from webmill.pipeline.search.engines import CollectionEngine, open_engine
from webmill.pipeline.search.feed import FeedReport, WantItem
from webmill.publish import history
from webmill.publish.shards import is_forgotten
from webmill.publish.types import Version
from webmill.search.backends import replacing_search
from webmill.settings import SearchSettings


def version_as_of(versions: Storage, period: str) -> Version:
    """Return the version that was live at the end of a period: `2026`, `2026-03`, `2026-03-31`; or of this name."""
    every = history.list_versions(versions)
    if named := next((version for version in every if version.version == period), None):
        return named
    try:
        moment = to_datetime(latest(period)) + timedelta(seconds=1)
    except BadInput:
        raise BadInput(f"{period[:40]} is not a date; write 2026-03 or 2026-03-31", reason="bad_query") from None
    found = [version for version in every if version.published_at < moment]
    if not found:
        raise NotFound(f"no version of {period} or before is kept")
    return max(found, key=lambda version: _last_live(version, moment))


def _last_live(version: Version, moment: datetime) -> tuple[bool, datetime]:
    """Order versions by whether they were live at the moment, and then by when they were published."""
    return version.until is None or version.until >= moment, version.published_at


def past_index(root: Path, version: Version) -> Path:
    return PublishFolders(root).search_history / version.version


def indexed_versions(root: Path, versions: Storage) -> list[Version]:
    """Return the past versions that have an index, the newest first."""
    folder = PublishFolders(root).search_history
    if not folder.is_dir():
        return []
    every = history.list_versions(versions)
    return [version for version in reversed(every) if past_index(root, version).is_dir()]


def open_past_engine(root: Path, settings: SearchSettings, version: Version) -> CollectionEngine:
    """Open the index of a past version. `NotFound` says how to build it."""
    folder = past_index(root, version)
    if not folder.is_dir():
        raise NotFound(
            f"version {version.version}, which was live then, has no index: webmill search update {root} "
            f"--as-of {version.version}"
        )
    return open_engine(root, msgspec.structs.replace(settings, url=str(folder)), create=False)


def build_past_index(
    root: Path,
    versions: Storage,
    settings: SearchSettings,
    period: str,
    *,
    progress: ProgressReporter,
    wants: WantItem,
) -> tuple[FeedReport, int]:
    """Build the index of the version that was live then, aside, and put it into its place when it is whole. Return how
    many documents it has."""
    version = version_as_of(versions, period)
    folder = past_index(root, version)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        exclusive(folder.parent, "search-rebuild", doing="making a search index"),
        replacing_search(str(folder)) as fresh,
        closing(open_engine(root, settings, place=fresh)) as engine,
    ):
        forgotten = forgotten_in(versions)  # the version still has it
        fed = feed.update(
            versions,
            engine,
            progress=progress,
            wants=lambda item: wants(item) and not is_forgotten(forgotten, item),
            version=version,
        )
        return fed, engine.count()
