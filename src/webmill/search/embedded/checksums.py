"""Checksums of the files of an index, in a file beside them: there while nobody writes, absent while somebody does.

    {"files":{"meta.json":{"size":4190,"crc32":2774612183},…},"crc32":"…"}

Tantivy's files never change once they are written, but for `meta.json`. An index that an earlier webmill has made gets
its checksums by its next update.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.infra import atomic
from webmill.infra.checksums import crc32_of_file, seal_json, unseal_json
from webmill.infra.files import RESERVED

log = logging.getLogger(__name__)

FILE = "checksums.json"
META = "meta.json"  # names the files that count
AT_ONCE = 32 << 20  # bytes of an index that is verified before it is used; a larger one is while it is used
REPAIR = "run `webmill search rebuild DIR`"

_NAME = re.compile(r"[0-9a-f]{32}(\.[0-9]+)?\.[a-z]+|\.managed\.json|\.tantivy-[a-z]+\.lock", re.ASCII)


def is_index_file(name: str) -> bool:
    """Return whether a file of this name is one that tantivy or we make in the folder of an index."""
    return name in (FILE, META) or name.startswith(RESERVED) or bool(_NAME.fullmatch(name))


class IndexFileChecksum(msgspec.Struct, frozen=True):
    """The size and CRC-32 of one file."""

    size: int
    crc32: int


class IndexChecksums(msgspec.Struct, frozen=True):
    """The checksums of the files of an index, by name."""

    files: dict[str, IndexFileChecksum]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


def read_checksums(folder: Path) -> IndexChecksums | None:
    """Return the checksums of an index; None where there are none."""
    path = folder / FILE
    try:
        return msgspec.json.decode(unseal_json(path.read_bytes(), source=str(path), repair=REPAIR), type=IndexChecksums)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{error}: {REPAIR}", reason="corrupt", source=str(path)) from error


def withdraw_checksums(folder: Path) -> dict[str, IndexFileChecksum]:
    """Remove the checksums before the index is changed, durably, and return them."""
    try:
        before = read_checksums(folder)
    except BadInput:
        before = None
    (folder / FILE).unlink(missing_ok=True)
    with atomic.open_folder(folder) as opened:
        atomic.sync_folder(opened)
    return before.files if before else {}


def write_checksums(folder: Path, *, known: Mapping[str, IndexFileChecksum]) -> None:
    """Write the checksums of an index that nobody changes now. Files that are `known` are not read again.

    Without them the index works as before: a full disk is told by whoever needs it.
    """
    try:
        _write(folder, known)
    except (OSError, WebmillError) as error:
        log.warning("search index without checksums", extra={"folder": str(folder), "why": str(error)})


def _write(folder: Path, known: Mapping[str, IndexFileChecksum]) -> None:
    files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file() and is_checked(path.name)}
    found = {name: known.get(name) if name != META else None for name in files}
    checksums = {
        name: there or IndexFileChecksum(files[name].stat().st_size, crc32_of_file(files[name]))
        for name, there in found.items()
    }
    atomic.write_bytes(folder / FILE, seal_json(msgspec.json.encode(IndexChecksums(checksums))))


def is_checked(name: str) -> bool:
    return name != FILE and not name.startswith(".")


class IndexVerification:
    """Compares the files of an index with their checksums: at once, or in a thread if there is much to read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._damage: BadInput | None = None
        self._thread: threading.Thread | None = None
        checksums = read_checksums(folder)
        if checksums is None:
            return
        if checksums.size <= AT_ONCE:
            self._verify(checksums)
            self.raise_damage()
        else:
            self._thread = threading.Thread(target=self._verify_aside, args=(checksums,), daemon=True)
            self._thread.start()

    def raise_damage(self) -> None:
        """Raise the damage that was found so far."""
        if self._damage:
            raise self._damage

    def wait(self) -> None:
        """Raise the damage that there is."""
        if self._thread:
            self._thread.join()
        self.raise_damage()

    def _verify_aside(self, checksums: IndexChecksums) -> None:
        self._verify(checksums)
        if self._damage:
            log.error("search index damaged", extra={"why": str(self._damage)})

    def _verify(self, checksums: IndexChecksums) -> None:
        for name, expected in checksums.files.items():
            fault = find_fault(self._folder / name, expected)
            if fault and not self._is_replaced(checksums):
                self._damage = BadInput(
                    f"{fault}: {REPAIR}", reason="bad_search_index", source=str(self._folder / name)
                )
                return
            if fault:
                return

    def _is_replaced(self, checksums: IndexChecksums) -> bool:
        """Tell whether somebody writes, or has written: who does takes the checksums away first."""
        try:
            return read_checksums(self._folder) != checksums
        except WebmillError:
            return True


def find_fault(path: Path, expected: IndexFileChecksum) -> str:
    """Return what is wrong with a file; empty if nothing is."""
    try:
        size = path.stat().st_size
        if size != expected.size:
            return f"has {size:,} bytes instead of {expected.size:,}"
        return "" if crc32_of_file(path) == expected.crc32 else "does not have its checksum"
    except (FileNotFoundError, NotFound):
        return "is missing"
