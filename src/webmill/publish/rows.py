"""Rows of (key, line) in temporary files: sorted however many there are, in bounded memory."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from webmill.infra.atomic import os_errors

Row: TypeAlias = tuple[bytes, bytes]

_HEAD = struct.Struct("<II")
RUN_BYTES = 32 << 20  # held in memory before a sorted run is written


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    with os_errors(str(path)), path.open("wb") as file:
        for key, line in rows:
            file.write(_HEAD.pack(len(key), len(line)))
            file.write(key)
            file.write(line)


def read_rows(path: Path) -> Iterator[Row]:
    with os_errors(str(path)), path.open("rb") as file:
        while head := file.read(_HEAD.size):
            key, line = _HEAD.unpack(head)
            yield file.read(key), file.read(line)


class SortedRows:
    """Takes rows in any order; may be read, in the order of keys and then of lines, as often as you like."""

    def __init__(self, folder: Path, name: str, *, run_bytes: int = RUN_BYTES) -> None:
        self._folder, self._name, self._most = folder, name, run_bytes
        self._rows: list[Row] = []
        self._bytes = 0
        self._runs: list[Path] = []

    def add(self, key: bytes, line: bytes) -> None:
        self._rows.append((key, line))
        self._bytes += len(key) + len(line) + 150  # what Python takes for the two
        if self._bytes > self._most:
            self._spill()

    def __iter__(self) -> Iterator[Row]:
        self._rows.sort()
        if not self._runs:
            return iter(self._rows)
        return heapq.merge(*map(read_rows, self._runs), self._rows)

    def _spill(self) -> None:
        self._rows.sort()
        path = self._folder / f"{self._name}-{len(self._runs)}"
        write_rows(path, self._rows)
        self._runs.append(path)
        self._rows, self._bytes = [], 0
