"""The changes by text that a version recorded (`webmill.publish.changes`), part by part."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

import msgspec

from webmill.publish.changes import ChangeSummary, PageChange, shown_changes
from webmill.publish.types import Version
from webmill.serve.api.differences import PAGE
from webmill.serve.api.published import PublishedVersions

MOST_PARTS = 20  # read for one request


class RecordedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Some changes of a version. `after`: where the next part continues, None at the end."""

    summary: ChangeSummary
    changes: list[PageChange]
    after: str | None


class VersionChanges(msgspec.Struct, frozen=True):
    """A version, and the first of its changes."""

    version: Version
    summary: ChangeSummary
    changes: list[PageChange]


def find_summary(published: PublishedVersions, old: str, new: str) -> ChangeSummary | None:
    """Return the counts of the recorded changes from one version to the other; None if they were not recorded."""
    summary = published.change_summary(published.find(new))
    return summary if summary and summary.parent == old else None


def find_changes(
    published: PublishedVersions, summary: ChangeSummary, *, kind: str = "", after: str = "", limit: int = PAGE
) -> RecordedChanges:
    """Return the changes after id `after`, of a kind if given."""
    version = published.find(summary.version)
    first = _first_part(published, version, summary.parts, after) if after else 0
    last = min(summary.parts, first + MOST_PARTS)
    found: list[PageChange] = []
    for number in range(first, last):
        part = published.changes(version, number)
        found += (one for one in shown_changes(published.storage, part) if one.id > after and kind in ("", one.kind))
        if len(found) > limit:
            return RecordedChanges(summary=summary, changes=found[:limit], after=found[limit - 1].id)
    is_end = last == summary.parts
    following = None if is_end else published.changes(version, last - 1)[-1].id
    return RecordedChanges(summary=summary, changes=found, after=following)


def latest_changes(published: PublishedVersions, *, versions: int, limit: int) -> list[VersionChanges]:
    """Return the last versions that recorded their changes, newest first, with at most `limit` changes in all."""
    return [*islice(_latest(published, limit), versions)]


def _latest(published: PublishedVersions, limit: int) -> Iterator[VersionChanges]:
    for version in reversed(published.versions()):
        summary = published.change_summary(version)
        if summary:
            shown = shown_changes(published.storage, published.changes(version, 0)) if summary.parts and limit else ()
            changes = [*islice(shown, limit)]
            limit -= len(changes)
            yield VersionChanges(version, summary, changes)


def _first_part(published: PublishedVersions, version: Version, parts: int, after: str) -> int:
    """Return the part in which the changes after an id begin: parts are in the order of ids."""
    return max(0, bisect_right(range(parts), after, key=lambda part: published.changes(version, part)[0].id) - 1)
