"""The tools that tell what changed: in all documents since a date, and in one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import msgspec

from webmill.errors import NotFound
from webmill.formats.timestamps import earliest, to_datetime
from webmill.publish.changes import ChangeSummary, PageChange
from webmill.publish.shards import find_item
from webmill.publish.types import Version
from webmill.serve.api.capture_history import read_history
from webmill.serve.api.cursors import AnswerSize, make_cursor, read_cursor
from webmill.serve.api.documents import MOST_VERSIONS, ItemChange, changes_of
from webmill.serve.api.recorded_changes import find_changes
from webmill.serve.api.untrusted import LONGEST_EXCERPT, LONGEST_TITLE, clip
from webmill.serve.mcp.arguments import ChangesArguments, HistoryArguments
from webmill.serve.mcp.citations import LONGEST_URL, address_of, cite_content, cite_item, id_of
from webmill.serve.mcp.opened import OpenedCollection
from webmill.serve.mcp.replies import (
    ChangeExcerpts,
    Citation,
    DocumentVersion,
    ListedChange,
    ListedChanges,
    PageHistory,
)

MOST_READS = 50  # parts of lists of changes, and versions, for one answer
_VERSION = re.compile(r"[0-9]{8}-[0-9a-f]+")


class ChangePlace(msgspec.Struct, frozen=True, array_like=True):
    """Behind this change of this version; without an id, at the version's beginning."""

    version: str
    after: str


def what_changed(asked: OpenedCollection, arguments: ChangesArguments) -> ListedChanges:
    place = read_cursor(arguments, ChangePlace)
    walk = ChangeWalk(asked, arguments, place)
    found: list[ListedChange] = []
    size = AnswerSize()
    following: ChangePlace | None = place
    for version, change in walk.changes():
        listed = list_change(asked, version, change)
        if len(found) == arguments.limit or not size.has_room(listed):
            break
        found.append(listed)
        following = ChangePlace(version.version, change.id)
    else:
        following = walk.stopped_at
    return ListedChanges(
        changes=found,
        unrecorded=walk.unrecorded,
        next_cursor=make_cursor(arguments, following) if following else None,
    )


class ChangeWalk:
    """Reads the recorded changes of versions, from a place on. `stopped_at`: there is more to read than was read."""

    def __init__(self, asked: OpenedCollection, arguments: ChangesArguments, place: ChangePlace | None) -> None:
        self._published, self._arguments, self._place = asked.reader.published, arguments, place
        self._reads = 0
        self.unrecorded: list[str] = []
        self.stopped_at: ChangePlace | None = None

    def changes(self) -> Iterator[tuple[Version, PageChange]]:
        versions = later_versions(self._published.versions(), self._arguments.since)
        first = self._place.version if self._place else ""
        for version in versions:
            if first and version.sequence < int(first.partition("-")[0]):
                continue
            after = self._place.after if self._place and version.version == first else ""
            if self._is_exhausted(version, after):
                return
            summary = self._published.change_summary(version)
            if summary is None:
                self.unrecorded.append(version.version)
                continue
            yield from self._of_version(version, summary, after)
            if self.stopped_at:
                return

    def _of_version(self, version: Version, summary: ChangeSummary, after: str) -> Iterator[tuple[Version, PageChange]]:
        following: str | None = after
        while following is not None:
            if self._is_exhausted(version, following):
                return
            kind = self._arguments.kind or ""
            part = find_changes(self._published, summary, kind=kind, after=following, limit=self._arguments.limit)
            yield from ((version, one) for one in part.changes if is_of_site(one.url, self._arguments.site))
            following = part.after

    def _is_exhausted(self, version: Version, after: str) -> bool:
        self._reads += 1
        if self._reads > MOST_READS:
            self.stopped_at = ChangePlace(version.version, after)
        return self._reads > MOST_READS


def later_versions(versions: Sequence[Version], since: str) -> list[Version]:
    """Return the versions that were published after a version, or on this date or later; oldest first."""
    if _VERSION.fullmatch(since):
        return [version for version in versions if version.sequence > int(since.partition("-")[0])]
    moment = to_datetime(earliest(since))
    return [version for version in versions if version.published_at >= moment]


def is_of_site(url: str, site: str) -> bool:
    if not site:
        return True
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return f".{host}".endswith(f".{site.lower().strip('.')}")


def list_change(asked: OpenedCollection, version: Version, change: PageChange) -> ListedChange:
    return ListedChange(
        kind=change.kind,
        id=change.id,
        published_at=version.published_at,
        citation=cite_change(asked, change),
        share=change.share,
        old_hash=change.old,
        moved_to=clip(change.moved_to, LONGEST_URL) if change.moved_to else None,
        untrusted=ChangeExcerpts(
            title=clip(change.title, LONGEST_TITLE),
            added=clip(change.added, LONGEST_EXCERPT),
            removed=clip(change.removed, LONGEST_EXCERPT),
        ),
    )


def cite_change(asked: OpenedCollection, change: PageChange) -> Citation:
    """Return the citation of the new text; of a page that is gone, without a capture: `at` is of the version."""
    url = change.moved_to or change.url
    if change.new is None:
        return Citation(collection=asked.name, url=clip(url, LONGEST_URL), version=change.version)
    return cite_content(asked, url, at=change.at, version=change.version, content_hash=change.new)


def history_of(asked: OpenedCollection, arguments: HistoryArguments) -> PageHistory:
    address, id_ = address_of(arguments.url), id_of(arguments.url)
    try:
        history = read_history(asked.site.index(), address, count=0)
    except NotFound:  # nothing is indexed: versions may be there nevertheless
        history = None
    published = asked.reader.published
    versions = published.versions()
    changes = [document_version(asked, one, id_, url=address) for one in changes_of(published, id_, versions)]
    if not changes and not (history and history.total):
        raise NotFound(f"there is no capture and no document of {address[:300]} in this collection")
    days = sorted(history.days) if history else []
    return PageHistory(
        id=id_,
        versions=changes,
        captures=history.total if history else 0,
        captures_by_year=history.years if history else {},
        first_day=days[0] if days else None,
        last_day=days[-1] if days else None,
        is_cut=len(versions) > MOST_VERSIONS or bool(history and history.is_cut),
    )


def document_version(asked: OpenedCollection, change: ItemChange, id_: str, *, url: str) -> DocumentVersion:
    published, version = asked.reader.published, change.version
    item = find_item(published.storage, published.index(version), id_) if change.hash else None
    gone = Citation(collection=asked.name, url=url, version=version.version)
    return DocumentVersion(
        what=change.what,
        published_at=version.published_at,
        citation=cite_item(asked, item, version=version.version) if item else gone,
    )
