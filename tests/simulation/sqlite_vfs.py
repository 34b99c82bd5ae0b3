"""SQLite on a simulated disk: its syncs are steps of the process that owns the connection, and so are its sleeps.

It lies below the layer of the product that keeps checksums. What SQLite does to folders happens below us, by its rules:
the folder of a new log or journal is synced with its first sync, and a deletion may be followed by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from tests.simulation import seams

BASE = apsw.vfs_names()[0]
_BESIDE = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class SimulatedFile(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int]) -> None:
        self._owner = seams.current
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._path = Path(path) if path else None
        self._syncs_folder = bool(flags[0] & _BESIDE and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__(BASE, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._refuse_dead()
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._refuse_dead()
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._refuse_dead()
        owner, path = self._owner, self._path
        if owner and path and owner.machine.disk.holds(str(path)):
            owner.step(f"sqlite sync {path.name}")
            owner.machine.disk.sync_file(path)
            if self._syncs_folder:
                owner.machine.disk.sync_folder(path.parent)
                self._syncs_folder = False

    def _refuse_dead(self) -> None:
        """Change nothing for a process that was killed, though SQLite may try on its way out."""
        if self._owner and self._owner.is_killed:
            raise apsw.IOError("killed")


class SimulatedVfs(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("simulated", BASE, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> SimulatedFile:  # noqa: N802
        return SimulatedFile(name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:  # noqa: N802
        me = seams.current
        if me and me.is_killed:
            raise apsw.IOError("killed")
        super().xDelete(name, sync_folder)
        if me and sync_folder and me.machine.disk.holds(name):
            me.machine.disk.sync_folder(Path(name).parent)

    def xSleep(self, microseconds: int) -> int:  # noqa: N802
        if seams.current is None:
            return super().xSleep(microseconds)
        seams.current.sleep(microseconds / 1e6)
        return microseconds


_vfs: list[SimulatedVfs] = []


def install() -> None:
    """Become the file system of SQLite, before the product loads its own layer upon it."""
    if not _vfs:
        _vfs.append(SimulatedVfs())
