"""After a kill: every WARC file that was left open is cut to its whole captures and sealed.

What is cut off is kept in `rejected/archive/` with its reason. Only bytes behind the last whole capture are cut:
acknowledged records keep their places. Damage in front of whole captures (a disk that lost what it had confirmed) stays
where it is, and is reported. A file without any capture is removed.

Files whose writer lives are left alone: it holds their lock. Killed anywhere and run again it does the same: names in
`rejected/` come from the bytes kept there, and a file has its final name only when all else is done.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.archive.segment import OPEN_SUFFIX, find_open_files
from webmill.archive.segment_file import is_file_at, lock_segment, seal_file
from webmill.collection import Collection
from webmill.formats.warc.reader import read_records
from webmill.infra import atomic
from webmill.infra.files import as_webmill_error, os_errors
from webmill.model import Damage

FOLDER = "archive"  # in rejected/
_PIECE = 1 << 20


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to one file.

    `end` is its length now; 0 when nothing was left and it is removed. `cut` bytes behind it were kept as `saved`.
    `flaws` are damaged bytes in front of whole captures. `reason` is one of `Damage`'s, or `torn_capture`.
    """

    file: str
    captures: int
    end: int
    cut: int = 0
    reason: str | None = None
    message: str | None = None
    saved: str | None = None
    flaws: tuple[Damage, ...] = ()


class _IntactCaptures(msgspec.Struct):
    """What is whole in a file: captures, each ended by its metadata record."""

    size: int
    end: int = 0
    captures: int = 0
    damage: list[Damage] = []


def recover(collection: Collection, *, segment: str | None = None, stem: str | None = None) -> list[Repair]:
    """`Unavailable` when the disk does not let it: repair that, and run it again."""
    repairs = []
    for path in find_open_files(collection, segment=segment, stem=stem):
        with _abandoned(path) as file:
            if file:
                repairs.append(_repair(collection, path, file))
    return repairs


@contextmanager
def _abandoned(path: Path) -> Iterator[BinaryIO | None]:
    """The file, locked; None when its writer lives, or when it is gone meanwhile."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise as_webmill_error(error, str(path)) from error
    with os.fdopen(fd, "rb") as file:
        yield file if lock_segment(fd, what=str(path)) and is_file_at(fd, path) else None


def _repair(collection: Collection, path: Path, file: BinaryIO) -> Repair:
    found = _look_through(file)
    key = collection.key(path).removesuffix(OPEN_SUFFIX)
    end = found.end if found.captures else 0
    torn = [damage for damage in found.damage if damage.end > found.end]
    repair = Repair(
        file=key,
        captures=found.captures,
        end=end,
        cut=found.size - found.end,
        reason=_reason(found, torn),
        message=torn[0].message if torn else None,
        flaws=tuple(damage for damage in found.damage if damage.end <= found.end),
    )
    if repair.cut:
        repair = _keep_tail(collection, file, repair, start=found.end)
    with os_errors(str(path)):
        if end:
            seal_file(file.fileno(), path, end=end)
        else:
            path.unlink(missing_ok=True)  # its maker may have thought better of it
    return repair


def _look_through(file: BinaryIO) -> _IntactCaptures:
    found = _IntactCaptures(size=os.fstat(file.fileno()).st_size)
    for item in read_records(file):
        if isinstance(item, Damage):
            found.damage.append(item)
        elif item.type in ("warcinfo", "metadata"):
            found.end = item.offset + item.length
            found.captures += item.type == "metadata"
    return found


def _reason(found: _IntactCaptures, torn: list[Damage]) -> str | None:
    if found.size == found.end:
        return None
    return torn[0].reason if torn else "torn_capture"


def _keep_tail(collection: Collection, file: BinaryIO, repair: Repair, *, start: int) -> Repair:
    """The bytes, and beside them where they were and why they were cut."""
    folder = collection.rejected / FOLDER
    atomic.make_folder(folder)
    atomic.remove_stale_temps(folder)
    known = hashlib.sha256()
    for piece in _pieces(file, start):
        known.update(piece)
    name = f"{Path(repair.file).name}-{start}-{known.hexdigest()[:16]}"
    kept = folder / f"{name}.torn"
    with atomic.writing(kept) as out:
        for piece in _pieces(file, start):
            out.write(piece)
    repair = msgspec.structs.replace(repair, saved=collection.key(kept))
    atomic.write_bytes(folder / f"{name}.json", msgspec.json.encode({"offset": start, **msgspec.to_builtins(repair)}))
    return repair


def _pieces(file: BinaryIO, start: int) -> Iterator[bytes]:
    while piece := os.pread(file.fileno(), _PIECE, start):
        yield piece
        start += len(piece)
