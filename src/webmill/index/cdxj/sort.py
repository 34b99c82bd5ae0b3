"""Sort lines in bounded memory: sorted runs in one temporary file, then one merge.

What fits into `memory` never touches the disk. The file has no name: nothing of it is left, however the sort ends.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import BinaryIO, Self

from webmill.errors import Misconfigured
from webmill.index.cdxj.merge import FileRange, MergeRange, merge_range
from webmill.index.lines import Batch, write_batches

MEMORY = 256 << 20
OBJECT_BYTES = 64  # overhead of a bytes object in a list, rounded up
SLICE = 1024


def sort_lines(batches: Iterable[Batch], *, memory: int = MEMORY, folder: Path | None = None) -> Iterator[Batch]:
    """Yield all lines in byte order, with repeats. Sorted runs go to `folder`, or the system's temporary folder."""
    with SortedRuns(folder or Path(gettempdir())) as runs:
        held: Batch = []
        size = 0
        for batch in batches:
            held += batch
            size += sum(map(len, batch)) + OBJECT_BYTES * len(batch)
            if size > memory:
                runs.add(held)
                held, size = [], 0
        if not runs.ranges:
            yield from _sorted_slices(held)
            return
        if held:
            runs.add(held)
            held = []
        yield from merge_range(MergeRange(pieces=tuple(runs.ranges)))


class SortedRuns:
    """Sorted runs, one after the other in a file without a name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self.ranges: list[FileRange] = []

    def add(self, lines: Batch) -> None:
        try:
            if self._file is None:
                self._file = TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            assert self._file is not None
            start = self.ranges[-1].end or 0 if self.ranges else 0
            write_batches(_sorted_slices(lines), self._file)
            place = Path(f"/dev/fd/{self._file.fileno()}")  # opened by the merge for each block
            self.ranges.append(FileRange(place, start, self._file.tell()))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                message = f"no space left to sort in {self._folder}: free some, or name another folder"
                raise Misconfigured(message) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


def _sorted_slices(lines: Batch) -> Iterator[Batch]:
    lines.sort()
    return (lines[start : start + SLICE] for start in range(0, len(lines), SLICE))
