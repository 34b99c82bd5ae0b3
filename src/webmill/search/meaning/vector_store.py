"""The vectors of all documents that were embedded with one model, by their content: mapped files to search, and to
append to.

    DIR/meaning/MODEL/000001.vectors …    rows (`vector_file`); a file is only ever appended to, by one writer
    DIR/meaning/MODEL/store.json          {"format":1,"dimensions":256,"id":"…","crc32":"…"}
    DIR/meaning/MODEL/checksums.json      of these files, while nobody writes

A document's vectors are durable before an index has the document. So whatever an index has can be found here; what no
index has any more is not found by it, and `retain` drops it. Killed at any moment, the next writer keeps every document
that is whole, and embeds none of them again.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.infra import atomic, lock
from webmill.infra.checksums import seal_json, unseal_json
from webmill.infra.files import os_errors
from webmill.search.embedded.checksums import (
    REPAIR,
    IndexVerification,
    find_fault,
    withdraw_checksums,
    write_checksums,
)
from webmill.search.meaning import passages
from webmill.search.meaning.model import Vectors
from webmill.search.meaning.passages import Passage
from webmill.search.meaning.vector_file import encode_rows, map_rows, sound_documents

log = logging.getLogger(__name__)

STORE = "store.json"
END = ".vectors"
FILE_BYTES = 64 << 20  # of a file, after which another is begun
MOST_FILES = 16  # smaller ones, before they are joined
MOST_DIMENSIONS = 16_384
LONGEST_STORE = 4096  # bytes of store.json


class StoreNote(msgspec.Struct, frozen=True):
    """What a store is: `id` is of this very folder, so that an index notices when it was deleted and made anew."""

    dimensions: int
    id: str
    format: int = passages.FORMAT


def read_note(folder: Path) -> StoreNote | None:
    path = folder / STORE
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_STORE)
        note = msgspec.json.decode(unseal_json(data, source=str(path), repair=REPAIR), type=StoreNote)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{error}: {REPAIR}", reason="corrupt", source=str(path)) from error
    if not 0 < note.dimensions <= MOST_DIMENSIONS:
        raise BadInput(f"{note.dimensions} dimensions: {REPAIR}", reason="corrupt", source=str(path))
    return note


def vector_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"[0-9]*{END}") if path.name[: -len(END)].isdigit())


class VectorReader:
    """The rows of a store as they were when it was opened."""

    def __init__(self, folder: Path) -> None:
        note = read_note(folder)
        if note is None or note.format != passages.FORMAT:
            raise NotFound(f"nothing was embedded in {folder} yet")
        self.note = note
        self._verification = IndexVerification(folder)
        with os_errors(str(folder)):
            self.files = [map_rows(path, note.dimensions) for path in vector_files(folder)]

    def verify(self) -> None:
        """Compare every byte with its checksum; `BadInput` names the file."""
        self._verification.wait()

    def raise_damage(self) -> None:
        """Raise the damage that was found so far."""
        self._verification.raise_damage()

    def keys(self) -> set[bytes]:
        """Return the keys of all documents."""
        return {key for rows in self.files for key in rows["key"][rows["number"] == 0].tolist()}


class VectorWriter:
    """Appends documents to a store, which it makes where there is none. One process at a time."""

    def __init__(self, folder: Path, *, dimensions: int) -> None:
        self._folder, self._dimensions = folder, dimensions
        self._file: BinaryIO | None = None
        self._resources = ExitStack()
        atomic.make_folder(folder)
        self._resources.enter_context(lock.exclusive(folder, "meaning", doing="embedding documents"))
        try:
            self._checksums = withdraw_checksums(folder)
            atomic.remove_stale_temps(folder)
            self.note = self._open_note()
            self._known = self._recover()
        except BaseException:
            self._resources.close()
            raise

    def _open_note(self) -> StoreNote:
        try:
            note = read_note(self._folder)
        except BadInput as error:
            log.warning("vectors made anew", extra={"why": str(error)})
            note = None
        if note and (note.dimensions, note.format) == (self._dimensions, passages.FORMAT):
            return note
        for path in vector_files(self._folder):
            path.unlink()
        note = StoreNote(self._dimensions, secrets.token_hex(8))
        atomic.write_bytes(self._folder / STORE, seal_json(msgspec.json.encode(note)))
        return note

    def _recover(self) -> set[bytes]:
        """Return the keys of what is there. A file that is not as its checksum says is written again without what is
        torn or damaged in it."""
        known = set[bytes]()
        for path in vector_files(self._folder):
            expected = self._checksums.get(path.name)
            rows = map_rows(path, self._dimensions)
            if expected and not find_fault(path, expected):
                known.update(rows["key"].tolist())
                continue
            found = [*sound_documents(rows)]
            whole = sum(len(data) for _, data in found)
            if whole != path.stat().st_size:
                log.warning("vectors cut", extra={"file": str(path), "bytes": path.stat().st_size - whole})
                self._checksums.pop(path.name, None)
                atomic.write_bytes(path, b"".join(data for _, data in found))
            known |= {key for key, _ in found}
        return known

    def has(self, key: bytes) -> bool:
        return key in self._known

    def append(self, documents: Iterable[tuple[bytes, Sequence[Passage], Vectors]]) -> None:
        """Add documents. They are there if this process is killed, and after `sync` if the machine is."""
        with os_errors(str(self._folder)):
            for key, found, vectors in documents:
                self._open_file().write(encode_rows(key, found, vectors))
                self._known.add(key)
            if self._file:
                self._file.flush()
                if self._file.tell() >= FILE_BYTES:
                    self._close_file()

    def sync(self) -> None:
        if self._file:
            with os_errors(str(self._folder)):
                os.fsync(self._file.fileno())

    def _open_file(self) -> BinaryIO:
        if self._file is None:
            self._file = self._next_path().open("xb")
            with atomic.open_folder(self._folder) as folder:
                atomic.sync_folder(folder)
        return self._file

    def _next_path(self) -> Path:
        last = [int(path.name[: -len(END)]) for path in vector_files(self._folder)][-1:]
        return self._folder / f"{(last or [0])[0] + 1:06}{END}"

    def retain(self, wanted: Callable[[bytes], bool]) -> int:
        """Drop the documents that are not wanted; return how many there were."""
        self._close_file()
        dropped = {key for key in self._known if not wanted(key)}
        for path in vector_files(self._folder) if dropped else ():
            found = self._documents([path])
            if any(key in dropped for key, _ in found):
                self._replace([path], (data for key, data in found if key not in dropped))
        self._known -= dropped
        return len(dropped)

    def _documents(self, files: Iterable[Path]) -> list[tuple[bytes, bytes]]:
        return [each for path in files for each in sound_documents(map_rows(path, self._dimensions))]

    def _replace(self, files: Sequence[Path], documents: Iterator[bytes]) -> None:
        """Write documents into the first of some files, and remove the others. Killed between, both have them."""
        with atomic.writing(files[0]) as file:
            for data in documents:
                file.write(data)
        for path in files[1:]:
            path.unlink()
        for path in files:
            self._checksums.pop(path.name, None)

    def _join_files(self) -> None:
        """Join the small files of many updates, so that their number stays bounded."""
        small = [path for path in vector_files(self._folder) if path.stat().st_size < FILE_BYTES // MOST_FILES]
        if len(small) > MOST_FILES:
            self._replace(small, iter(dict(self._documents(small)).values()))

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file:
            with file, os_errors(str(self._folder)):
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        with self._resources:
            self._close_file()
            self._join_files()
            write_checksums(self._folder, known=self._checksums)
