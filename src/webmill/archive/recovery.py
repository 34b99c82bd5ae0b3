"""Recover after a kill: truncate every WARC file that was left open after its last complete capture, and seal it.

The bytes cut off are saved in `rejected/archive/` with the reason. Only bytes after the last complete capture are cut:
acknowledged records keep their offsets. Damage before complete captures (a disk that lost what it had confirmed) is
left as it is and reported. A file without any capture is removed.

Files whose writer is alive are left alone: it holds their lock. Recovery may be killed and run again: the names in
`rejected/` are made from the saved bytes, and a file gets its final name only when everything else is done.
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

    `end` is its new length; 0 if nothing was left and it was removed. `cut` bytes after it were saved as `saved`.
    `flaws` are damaged bytes before complete captures. `reason` is one of `Damage`'s, or `torn_capture`.
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
    """The complete captures of a file, each ended by its metadata record, and the damage."""

    size: int
    end: int = 0
    captures: int = 0
    damage: list[Damage] = []


def recover(collection: Collection, *, segment: str | None = None, stem: str | None = None) -> list[Repair]:
    """Recover all abandoned files, or those of a segment or stem. Raise Unavailable if the disk fails: run it again."""
    repairs = []
    for path in find_open_files(collection, segment=segment, stem=stem):
        with _open_abandoned(path) as file:
            if file:
                repairs.append(_repair(collection, path, file))
    return repairs


@contextmanager
def _open_abandoned(path: Path) -> Iterator[BinaryIO | None]:
    """Yield the file, locked; None if its writer is alive, or if the file is gone by now."""
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
    found = _scan_captures(file)
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
        repair = _save_tail(collection, file, repair, start=found.end)
    with os_errors(str(path)):
        if end:
            seal_file(file.fileno(), path, end=end)
        else:
            path.unlink(missing_ok=True)  # its writer may have removed it
    return repair


def _scan_captures(file: BinaryIO) -> _IntactCaptures:
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


def _save_tail(collection: Collection, file: BinaryIO, repair: Repair, *, start: int) -> Repair:
    """Save the bytes that are cut off, and a JSON file with their offset and the reason."""
    folder = collection.rejected / FOLDER
    atomic.make_folder(folder)
    atomic.remove_stale_temps(folder)
    digest = hashlib.sha256()
    for piece in _read_pieces(file, start):
        digest.update(piece)
    name = f"{Path(repair.file).name}-{start}-{digest.hexdigest()[:16]}"
    kept = folder / f"{name}.torn"
    with atomic.writing(kept) as out:
        for piece in _read_pieces(file, start):
            out.write(piece)
    repair = msgspec.structs.replace(repair, saved=collection.key(kept))
    atomic.write_bytes(folder / f"{name}.json", msgspec.json.encode({"offset": start, **msgspec.to_builtins(repair)}))
    return repair


def _read_pieces(file: BinaryIO, start: int) -> Iterator[bytes]:
    while piece := os.pread(file.fileno(), _PIECE, start):
        yield piece
        start += len(piece)
