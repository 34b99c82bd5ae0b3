"""A disk that keeps what was synced, and of all else what the seed chooses.

Files are real ones in a folder in memory. At each sync the content of the file, or the names in the folder, become
durable. When the power is cut, another folder is made of what the disk has then: of a name that was changed since its
folder was synced the old or the new; of a file that was written since it was synced the old, the new, or sectors of
both in any mixture, cut at any length. No order between them is kept that was not enforced by a sync.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

SECTOR = 512


class Content(NamedTuple):
    data: bytes
    modified: int  # nanoseconds


EMPTY = Content(b"", 0)


class Durable(msgspec.Struct):
    """What is certain to be there after a power cut, by inode."""

    files: dict[int, Content] = {}
    folders: dict[int, dict[str, int]] = {}
    are_folders: set[int] = set()


class Disk:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.root.mkdir(parents=True)
        self._prefix = str(root)
        self._durable = Durable()
        self.sync_folder(root)

    def holds(self, path: str) -> bool:
        return path.startswith(self._prefix)

    def synced(self, fd: int) -> None:
        """Note that an open file or folder was synced."""
        path = Path(f"/proc/self/fd/{fd}").resolve()
        status = os.fstat(fd)
        if path.is_dir():
            self.sync_folder(path)
        else:
            data = os.pread(fd, status.st_size, 0)
            self._durable.files[status.st_ino] = Content(data, status.st_mtime_ns)

    def sync_file(self, path: Path) -> None:
        status = path.stat()
        self._durable.files[status.st_ino] = Content(path.read_bytes(), status.st_mtime_ns)

    def sync_folder(self, path: Path) -> None:
        entries = list(os.scandir(path))
        self._durable.folders[path.stat().st_ino] = {entry.name: entry.inode() for entry in entries}
        self._durable.are_folders.update(entry.inode() for entry in entries if entry.is_dir())

    def sync_all(self) -> None:
        for folder, _, names in os.walk(self.root):
            self.sync_folder(Path(folder))
            for name in names:
                self.sync_file(Path(folder, name))

    def after_power_cut(self, root: Path, rng: Random) -> Disk:
        """Return the disk as it is found afterwards, in a folder of its own; all that is there is durable."""
        after = Disk(root)
        self._survive(self.root.stat().st_ino, self.root, root, rng)
        after.sync_all()
        return after

    def _survive(self, inode: int, folder: Path | None, target: Path, rng: Random) -> None:
        sure = self._durable.folders.get(inode, {})
        now = {entry.name: entry.inode() for entry in os.scandir(folder)} if folder else {}
        for name in sorted(sure.keys() | now.keys()):
            old, new = sure.get(name), now.get(name)
            chosen = old if old == new or rng.random() < 0.5 else new
            if chosen is not None:
                path = folder / name if folder and chosen == new else None
                self._survive_entry(chosen, path, target / name, rng)

    def _survive_entry(self, inode: int, path: Path | None, target: Path, rng: Random) -> None:
        if inode in self._durable.are_folders or (path and path.is_dir()):
            target.mkdir()
            self._survive(inode, path, target, rng)
            return
        old = self._durable.files.get(inode, EMPTY)
        new = Content(path.read_bytes(), path.stat().st_mtime_ns) if path else old
        target.write_bytes(old.data if old.data == new.data else mixture(old.data, new.data, rng))
        os.utime(target, ns=(new.modified or old.modified,) * 2)


def mixture(old: bytes, new: bytes, rng: Random) -> bytes:
    """Return what is left of a file whose last changes were not synced."""
    kind = rng.randrange(4)
    if kind == 0:
        return old
    if kind == 1:
        return new
    size = rng.choice((len(old), len(new), rng.randint(min(len(old), len(new)), max(len(old), len(new)))))
    parts = []
    for at in range(0, size, SECTOR):
        source = new if rng.random() < 0.5 else old
        parts.append(source[at : at + SECTOR].ljust(SECTOR, b"\0"))
    return b"".join(parts)[:size]
