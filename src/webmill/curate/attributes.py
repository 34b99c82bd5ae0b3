"""What steps measured, beside the documents: a small Parquet file for each step and each file of documents.

    corpus/attributes/STEP-DIGEST/FILE-DIGEST.parquet     id, and a column for each number; a row for each document

The names say what was measured of what: of another text, or with other parameters, it is another file. Files are
written once and whole, and never changed; the same documents give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from webmill.curate.arrow import as_array, encode_table, import_arrow, read_table
from webmill.curate.steps import Columns, digest_of
from webmill.infra import atomic

ID = "id"
UNREADABLE = "webmill.unreadable"
_OWN = re.compile(r".*-[0-9a-f]{12}\.parquet")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class DocumentPart(msgspec.Struct, frozen=True):
    """A file of documents, and the hash of its bytes."""

    key: str
    digest: str

    @property
    def name(self) -> str:
        """Return the name of its attributes: readable, and another one for other bytes."""
        return f"{_UNSAFE.sub('-', self.key)[:80]}-{digest_of([self.key, self.digest])}.parquet"


def is_part_name(name: str) -> bool:
    """Return whether a file of this name is of our own making."""
    return _OWN.fullmatch(name) is not None


class AttributeStore:
    """The attributes of a corpus."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str, part: DocumentPart) -> Path:
        return self.folder / key / part.name

    def has(self, key: str, part: DocumentPart) -> bool:
        return self.path(key, part).is_file()

    def write(self, key: str, part: DocumentPart, columns: Mapping[str, Any], *, unreadable: int = 0) -> None:
        """Write the columns of a part, durably; arrays, or Arrow arrays. `unreadable` rows of it are in none."""
        path = self.path(key, part)
        atomic.make_folder(path.parent)
        metadata = {UNREADABLE: str(unreadable)} if unreadable else None
        atomic.write_bytes(path, encode_table(columns, metadata=metadata))

    def unreadable(self, key: str, part: DocumentPart) -> int:
        """Return how many rows of a part could not be read when it was measured."""
        metadata = import_arrow()[1].read_metadata(self.path(key, part)).metadata or {}
        return int(metadata.get(UNREADABLE.encode(), b"0"))

    def read(self, key: str, part: DocumentPart, columns: Collection[str] | None = None) -> dict[str, Any]:
        """Return columns as arrays of numbers, or Arrow arrays where they are none."""
        table = self.table(key, part, columns)
        return {name: as_array(table.column(name)) for name in table.column_names if columns is None or name in columns}

    def table(self, key: str, part: DocumentPart, columns: Collection[str] | None = None) -> Any:
        """Return columns as an Arrow table. `BadInput`: the file is damaged."""
        path = self.path(key, part)
        return read_table(path, columns, repair=f"delete {path} and run `webmill curate run` again")

    def rows(self, key: str, part: DocumentPart) -> int:
        return int(import_arrow()[1].read_metadata(self.path(key, part)).num_rows)

    def remove_others(self, kept: Collection[tuple[str, DocumentPart]]) -> int:
        """Remove attributes that nothing asks for any more; return how many files."""
        wanted = {self.path(key, part) for key, part in kept}
        others = [path for path in self.folder.glob("*/*.parquet") if path not in wanted and is_part_name(path.name)]
        for path in others:
            path.unlink(missing_ok=True)
        return len(others)

    def remove_unfinished(self) -> None:
        """Remove what a process that was killed had begun to write."""
        for folder in self.folder.glob("*/"):
            atomic.remove_stale_temps(folder)


def numbers_only(columns: Mapping[str, Any]) -> Columns:
    return {name: values for name, values in columns.items() if isinstance(values, np.ndarray)}
