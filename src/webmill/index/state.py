"""How each WARC of a collection looked when its CDXJ was made, so that only what changed is done again.

A CDXJ is trusted while the WARC has the same size, times, inode and the same first and last bytes, was indexed with the
same options by the same version, and had rested for a moment before that (else a change within one tick of the clock
could hide). The change time cannot be set by `touch` or `rsync -t`: no modification goes unseen. A WARC that was
merely copied is indexed again; that costs time, never truth.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from webmill.infra.sqlite import Database, Schema

FILE_NAME = "state.sqlite"
ENDS = 64 << 10
SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system in use ticks every two seconds

SCHEMA = Schema(
    tag=int.from_bytes(b"wmIx"),
    steps=(
        """
        CREATE TABLE warc (path TEXT PRIMARY KEY, known BLOB NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE published (name TEXT PRIMARY KEY, inputs TEXT NOT NULL) STRICT, WITHOUT ROWID;
        """,
    ),
)


class Looks(msgspec.Struct, frozen=True):
    """How a file looks from outside, and at both ends."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    ends: str


class Flaw(msgspec.Struct, frozen=True):
    """Bytes of a WARC that could not be indexed, and why."""

    offset: int
    end: int
    reason: str
    message: str


class Known(msgspec.Struct, frozen=True):
    looks: Looks
    options: str  # digest of everything else that the CDXJ depends on
    settled: bool
    cdxj: str
    cdxj_size: int
    captures: int
    flaws: tuple[Flaw, ...] = ()


class State:
    def __init__(self, path: Path) -> None:
        self._database = Database(path, schema=SCHEMA)

    def known(self) -> dict[str, Known]:
        rows = self._database.read("SELECT path, known FROM warc")
        return {path: msgspec.json.decode(known, type=Known) for path, known in rows}

    def record(self, path: str, known: Known) -> None:
        """Durable on return: the CDXJ it speaks of must be so already."""
        with self._database.write() as run:
            run("INSERT OR REPLACE INTO warc VALUES (?, ?)", (path, msgspec.json.encode(known)))

    def forget(self, paths: Iterable[str]) -> None:
        with self._database.write() as run:
            for path in paths:
                run("DELETE FROM warc WHERE path = ?", (path,))

    def published(self, name: str) -> str | None:
        """From which inputs the thing of that name was made last."""
        rows = self._database.read("SELECT inputs FROM published WHERE name = ?", (name,))
        return rows[0][0] if rows else None

    def set_published(self, name: str, inputs: str) -> None:
        with self._database.write() as run:
            run("INSERT OR REPLACE INTO published VALUES (?, ?)", (name, inputs))

    def close(self) -> None:
        self._database.close()


def look_at(path: Path) -> Looks:
    with path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        digest = hashlib.sha256(os.pread(file.fileno(), ENDS, 0))
        digest.update(os.pread(file.fileno(), ENDS, max(0, status.st_size - ENDS)))
    return Looks(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, digest.hexdigest())


def is_settled(looks: Looks, *, now_ns: int) -> bool:
    """Whether a later change is bound to show in the times."""
    return max(looks.mtime_ns, looks.ctime_ns) + SETTLED_NS < now_ns


def is_current(known: Known, looks: Looks, *, options: str, folder: Path) -> bool:
    """Whether the CDXJ in `folder` can stand for the WARC that looks so now."""
    if known.looks != looks or known.options != options or not known.settled:
        return False
    cdxj = folder / known.cdxj
    return cdxj.is_file() and cdxj.stat().st_size == known.cdxj_size
