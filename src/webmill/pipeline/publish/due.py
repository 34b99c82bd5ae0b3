"""Whether there is something to publish: documents that came since they were last looked at for a version."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.errors import NotFound, WebmillError
from webmill.infra.storage.base import Readable, Storage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.tree import files_below
from webmill.pipeline.documents import is_document_file
from webmill.publish import history
from webmill.publish.keys import LAST_CHECK
from webmill.publish.manifest import read_file
from webmill.publish.pointer import read_pointer
from webmill.publish.types import Version, decode, encode
from webmill.publish.version import STATS, VersionStats

log = logging.getLogger(__name__)

CLOCK_TOLERANCE = 0.02  # seconds that the times of files may be behind the clock


class DocumentsChecked(msgspec.Struct, frozen=True):
    """The content of `LAST_CHECK`: when the live version was last found to hold all documents."""

    at: datetime


def reason_not_to_publish(root: Path, *, most: int | None = None) -> str:
    """Return why there is nothing to publish; empty if documents are new. Only the first few are looked at."""
    last = last_checked_at(LocalStorage(root), now=datetime.now(UTC))
    there = False
    for entry in islice(document_files(root), most):
        try:
            # Files come by renaming, which changes this time and not that of the content.
            came = entry.stat(follow_symlinks=False).st_ctime
        except FileNotFoundError:  # gone meanwhile
            continue
        there = True
        if not last or came >= last.timestamp() - CLOCK_TOLERANCE:
            return ""
    return "no documents since the live version" if there else "there are no documents yet"


def document_files(root: Path) -> Iterator[os.DirEntry[str]]:
    folder = PublishFolders(root).documents
    return (entry for entry in files_below(folder) if is_document_file(Path(entry.path).relative_to(folder).as_posix()))


def last_checked_at(storage: Storage, *, now: datetime) -> datetime | None:
    """Return when the last check of the documents began: those that came during it are not in its version.

    A time to come is of a clock that has been set back since: what came after it may bear an earlier one. And a look
    that began before the newest version was there may have been at another one.
    """
    try:
        last = history.read_last_record(storage)
        if last is None:
            return None
        newest = max(history.versions_at(storage, last), key=lambda version: version.published_at)
        looks = [at for at in _recorded_checks(storage) if at >= newest.published_at]
        return max((at for at in [version_counts(storage, newest).started_at, *looks] if at <= now), default=None)
    except WebmillError:  # publishing tells what is wrong
        return None


def confirmed_at(storage: Storage) -> datetime | None:
    """Return when the live version was published, or last found to hold everything; None before the first."""
    try:
        published = read_pointer(storage).updated_at
    except NotFound:
        return None
    return max([published, *_recorded_checks(storage)])


def record_check(storage: Storage, at: datetime) -> None:
    """Record a check. If that fails, the next run checks again and finds the same."""
    try:
        storage.write(LAST_CHECK, encode(DocumentsChecked(at)))
    except WebmillError as error:
        log.warning("the next run will look at the same documents again: %s", error)


def version_counts(storage: Readable, version: Version) -> VersionStats:
    return decode(read_file(storage, version, STATS), VersionStats, source=STATS)


def _recorded_checks(storage: Readable) -> list[datetime]:
    try:
        return [decode(storage.read(LAST_CHECK), DocumentsChecked, source=LAST_CHECK).at]
    except NotFound:
        return []
