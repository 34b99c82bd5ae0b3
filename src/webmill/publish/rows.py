"""Rows of (key, line) in temporary files: sorted however many there are, in bounded memory."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from webmill.infra.files import os_errors

Row: TypeAlias = tuple[bytes, bytes]

_HEAD = struct.Struct("<II")
RUN_BYTES = 32 << 20  # held in memory before a sorted run is written
MOST_RUNS = 64  # then they become one: all are open at once when they are read, and a process may open 1024 or 256


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
    """Takes rows in any order; can be read any number of times, sorted by key and then by line."""

    def __init__(self, folder: Path, name: str, *, run_bytes: int = RUN_BYTES) -> None:
        self._folder, self._name, self._most = folder, name, run_bytes
        self._rows: list[Row] = []
        self._bytes = 0
        self._levels: list[list[Path]] = []  # runs; those of each level are made of `MOST_RUNS` of the one before
        self._written = 0

    def add(self, key: bytes, line: bytes) -> None:
        self._rows.append((key, line))
        self._bytes += len(key) + len(line) + 150  # what Python takes for the two
        if self._bytes > self._most:
            self._rows.sort()
            self._write(self._rows, level=0)
            self._rows, self._bytes = [], 0

    def __iter__(self) -> Iterator[Row]:
        self._rows.sort()
        if not self._levels:
            return iter(self._rows)
        return heapq.merge(*(read_rows(run) for runs in self._levels for run in runs), self._rows)

    def _write(self, rows: Iterable[Row], *, level: int) -> None:
        path = self._folder / f"{self._name}-{self._written}"
        self._written += 1
        write_rows(path, rows)
        if level == len(self._levels):
            self._levels.append([])
        runs = self._levels[level]
        runs.append(path)
        if len(runs) < MOST_RUNS:
            return
        self._write(heapq.merge(*map(read_rows, runs)), level=level + 1)
        with os_errors(str(path)):
            while runs:
                runs.pop().unlink()
