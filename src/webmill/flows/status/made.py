"""Documents, versions, and the search index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path

from webmill.collection import Publishing
from webmill.errors import NotFound, WebmillError
from webmill.flows.publish.pages import is_documents
from webmill.flows.status.files import added, amount_of, files_below, size_of
from webmill.flows.status.nouns import Amount, Publication, Search
from webmill.infra.storage.local import LocalStorage
from webmill.publish import history
from webmill.publish.manifest import read_file
from webmill.publish.nouns import Version, decode
from webmill.publish.places import BLOBS
from webmill.publish.version import STATS, Counts
from webmill.search.base import Engine

TICK = 0.02  # seconds that the times of files may be behind the clock


def documents_in(root: Path) -> Amount | None:
    amount = added(map(size_of, _documents(root)))
    return amount if amount.files else None


def reason_not_to_publish(root: Path, *, most: int | None = None) -> str:
    """Empty when there are documents that no version has seen; among the first so many, for a glance."""
    last = _last_look(root)
    there = False
    for entry in islice(_documents(root), most):
        try:
            # Files come by renaming, which changes this time and not that of the content.
            came = entry.stat(follow_symlinks=False).st_ctime
        except FileNotFoundError:  # gone meanwhile
            continue
        there = True
        if not last or came >= last.timestamp() - TICK:
            return ""
    return "no documents since the live version" if there else "there are no documents yet"


def _documents(root: Path) -> Iterator[os.DirEntry[str]]:
    folder = Publishing(root).documents
    return (entry for entry in files_below(folder) if is_documents(Path(entry.path).relative_to(folder).as_posix()))


def _last_look(root: Path) -> datetime | None:
    """When documents were last looked at for a version: those that came while it was made are not in it."""
    storage = LocalStorage(root)
    try:
        last = history.last_record(storage)
        if last is None:
            return None
        newest = max(history.versions(storage, last), key=lambda version: version.published_at)
        return counts_of(storage, newest).started_at
    except WebmillError:  # publishing tells what is wrong
        return None


def counts_of(storage: LocalStorage, version: Version) -> Counts:
    return decode(read_file(storage, version, STATS), Counts, source=STATS)


def publication_of(root: Path) -> Publication | None:
    storage = LocalStorage(root)
    last = history.last_record(storage)
    if last is None:
        return None
    live = last.commit.live
    counts = counts_of(storage, live)
    return Publication(
        versions=len(history.versions(storage, last)),
        live=live.version,
        published_at=live.published_at,
        documents=live.count,
        failed_sources=counts.failed_sources,
        errors=counts.errors,
        blobs=amount_of(root / BLOBS),
    )


def search_of(open_engine: Callable[[], Engine], *, live: str | None) -> Search | None:
    try:
        with closing(open_engine()) as engine:
            count, cursor = engine.count(), engine.cursor()
    except NotFound:
        return None
    return Search(count, cursor, is_behind=live is not None and cursor != live)
