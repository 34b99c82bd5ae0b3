"""What changed from one version to the next, by the main text of its documents: what feeds, alerts and pages tell.

    for change in read_changes(storage, version):           # of one version, in the order of ids
    for change in list_changes(storage, since="00000007-3fa9c1d2"):  # of all later versions, oldest first

Promises. The changes of a version are computed once, before its commit, and are files of the version, sealed by its
manifest: a version that is live has them, whole; they never change; a publication that was killed has neither. They are
about the version and its parent, the one that was live before. `PageChange.key` (version and document id) names a
change for ever: who delivers changes can deliver each once. Computing them reads what differs between the two versions
and nothing else, so the cost goes by the number of changes, not by the size of the collection.

    aux/changes.json              counts, and how many parts there are
    aux/changes/000000.json …     parts: JSON arrays of at most `PART` changes, one on each line, in the order of ids

`added`, `removed`: the page came into the version, or left it. `changed`: its title or main text did, by more than
noise and by the threshold (`text_change.py`). `moved`: it left the version, and its text is at another address now;
the change is told once, under the old address. What changed only in noise, in less than the threshold, or in what is
not text (language, description) is counted as `unimportant` and not listed; a document whose text cannot be read is
listed without excerpts, and counted as `unreadable`. The first version has no changes: nothing was before it. A
version that an earlier webmill published has no such files (`read_summary` returns None), and gc removes the changes
of a version with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from webmill.errors import NotFound
from webmill.forgotten import Forgotten, forgotten_in
from webmill.infra.storage.base import Readable, Storage
from webmill.publish import history
from webmill.publish.keys import check_version
from webmill.publish.manifest import read_entry, read_file, read_manifest
from webmill.publish.types import Version, decode

ChangeKind: TypeAlias = Literal["added", "changed", "removed", "moved"]
CHANGE_KINDS: tuple[ChangeKind, ...] = ("added", "changed", "removed", "moved")

SUMMARY, PARTS = "aux/changes.json", "aux/changes/"
PART = 1000  # changes in a part


class PageChange(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One change of a document. `old` and `new` are hashes of its content: blobs, while the versions are kept.

    `at` is when the capture was made that shows it; of a page that is gone, when the version was published. `share` of
    the words of both texts changed, 0 to 1. `added` and `removed` are short excerpts, several lines of text at most.
    """

    kind: ChangeKind
    version: str
    id: str
    url: str
    at: datetime
    title: str = ""
    old: str | None = None
    new: str | None = None
    moved_to: str | None = None  # URL
    moved_to_id: str | None = None  # the document there, if the version has it
    share: float = 1.0
    added: str = ""
    removed: str = ""

    @property
    def key(self) -> str:
        """Return the name of this change, which no other one has: of all versions and for ever."""
        return f"{self.version}/{self.id}"


class ChangeSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many changes a version has; `parent` is what it was compared with, None of the first version."""

    version: str
    parent: str | None
    at: datetime  # when it was published
    added: int = 0
    changed: int = 0
    removed: int = 0
    moved: int = 0
    unimportant: int = 0
    unreadable: int = 0
    parts: int = 0

    @property
    def total(self) -> int:
        return self.added + self.changed + self.removed + self.moved


def part_key(number: int) -> str:
    return f"{PARTS}{number:06d}.json"


def read_summary(storage: Readable, version: Version) -> ChangeSummary | None:
    """Return the counts of a version's changes; None if an earlier webmill published it."""
    try:
        return decode(read_file(storage, version, SUMMARY), ChangeSummary, source=SUMMARY)
    except NotFound:
        return None


def read_changes(storage: Readable, version: Version) -> Iterator[PageChange]:
    """Yield the changes of a version in the order of ids, with one part in memory at a time; none of a page that was
    taken down since."""
    return shown_changes(storage, read_all_changes(storage, version))


def read_all_changes(storage: Readable, version: Version) -> Iterator[PageChange]:
    """Yield what was recorded, whatever became of the pages."""
    for entry in read_manifest(storage, version).files:  # sorted by key
        if entry.key.startswith(PARTS):
            yield from decode(read_entry(storage, version, entry), list[PageChange], source=entry.key)


def shown_changes(storage: Readable, changes: Iterable[PageChange]) -> Iterator[PageChange]:
    forgotten = forgotten_in(storage)
    return (one for one in changes if not is_forgotten(forgotten, one)) if forgotten else iter(changes)


def is_forgotten(forgotten: Forgotten, change: PageChange) -> bool:
    return any(map(forgotten.covers, (change.url, change.moved_to or ""))) or forgotten.covers_key(change.id)


def list_changes(storage: Storage, *, since: str | None = None) -> Iterator[PageChange]:
    """Yield the changes of all versions after `since`, oldest version first; of all that are kept without it.

    `since` is the name of a version, which may be gone by now. Reads only.
    """
    for version in versions_since(storage, since):
        yield from read_changes(storage, version)


def versions_since(storage: Storage, since: str | None = None) -> list[Version]:
    """Return the versions that were published after `since`, oldest first. Their names begin with their order."""
    after = int(check_version(since).partition("-")[0]) if since else 0
    last = history.read_last_record(storage)
    every = history.versions_at(storage, last) if last else []
    return [version for version in every if version.sequence > after]
