"""The progress of an import, which a shard stores in the same step as the rows; and the file of rejected rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.frontier.base import Frontier
from webmill.errors import Misconfigured
from webmill.infra import atomic
from webmill.infra.files import os_errors

Key = tuple[str | float, ...]  # of a row, in its table's order; text as the Latin-1 of its bytes, to sort as they do


class ImportCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows had which outcome. `known`: the URL was there before, or in an earlier row."""

    imported: int = 0
    known: int = 0
    excluded: int = 0  # of domains that this crawl leaves alone
    rejected: Mapping[str, int] = {}  # by reason

    @property
    def rows(self) -> int:
        return self.imported + self.known + self.excluded + sum(self.rejected.values())


def sum_counts(counts: Iterable[ImportCounts]) -> ImportCounts:
    counts = list(counts)
    reasons = sorted({reason for one in counts for reason in one.rejected})
    return ImportCounts(
        imported=sum(one.imported for one in counts),
        known=sum(one.known for one in counts),
        excluded=sum(one.excluded for one in counts),
        rejected={reason: sum(one.rejected.get(reason, 0) for one in counts) for reason in reasons},
    )


class ImportProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one shard in one table.

    The outcome of the last rows is only known after the step that stores them: `pending` is their number, `before` how
    many URLs the shard knew until then. The difference to what it knows afterwards is the number of new ones.
    """

    key: Key = ()
    same: int = 0  # how many rows with this key are done
    counts: ImportCounts = ImportCounts()
    pending: int = 0
    before: int = 0
    rejects: int = 0  # length of the file of rejected rows
    is_done: bool = False

    def settled(self, known: int, *, excluded: int = 0) -> ImportProgress:
        """Return the progress with the last rows counted. Those that a crawl found since a kill count as new."""
        imported = min(max(known - self.before, 0), self.pending - excluded)
        late = ImportCounts(imported=imported, known=self.pending - excluded - imported, excluded=excluded)
        return msgspec.structs.replace(self, counts=sum_counts([self.counts, late]), pending=0)


def read_import_progress(frontier: Frontier, name: str) -> ImportProgress:
    note = frontier.notes().get(name)
    if note is None:
        return ImportProgress()
    try:
        return msgspec.json.decode(note, type=ImportProgress).settled(known_urls(frontier))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"cannot read the progress of the import: {error}; import with --from-scratch") from error


def encode_progress(mark: ImportProgress) -> str:
    return msgspec.json.encode(mark).decode()


def known_urls(frontier: Frontier) -> int:
    stats = frontier.stats()
    return stats.waiting + stats.in_hand + stats.visited


class RejectedRows:
    """The file of rejected rows with their reasons, as JSON lines. It is truncated to the stored length."""

    def __init__(self, path: Path, *, size: int) -> None:
        self.path, self.size = path, size
        if path.exists():
            with os_errors(str(path)), path.open("r+b") as file:
                file.truncate(size)
                atomic.sync(file.fileno())

    def append(self, rows: Iterable[tuple[Mapping[str, Any], str]]) -> None:
        """Append rows durably."""
        lines = b"".join(msgspec.json.encode({**row, "reason": reason}) + b"\n" for row, reason in rows)
        atomic.make_folder(self.path.parent)
        with os_errors(str(self.path)), self.path.open("ab") as file:
            file.write(lines)
            file.flush()
            atomic.sync(file.fileno())
        with atomic.open_folder(self.path.parent) as folder:
            atomic.sync_folder(folder)
        self.size += len(lines)


def to_latin1_key(values: Sequence[Any]) -> Key:
    return tuple(
        value.encode("utf-8", "surrogateescape").decode("latin-1") if isinstance(value, str) else value
        for value in values
    )


def printable_row(row: Sequence[Any]) -> list[Any]:
    """Return the row with bytes that are not UTF-8 escaped."""
    return [
        value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        if isinstance(value, str)
        else value
        for value in row
    ]


def from_latin1_key(key: Key) -> list[str | float]:
    """Return the key for PostgreSQL; empty, so from the beginning, where its text is not UTF-8."""
    try:
        return [part.encode("latin-1").decode() if isinstance(part, str) else part for part in key]
    except UnicodeDecodeError:
        return []
