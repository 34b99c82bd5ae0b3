"""Sort lines in bounded memory: sorted runs in temporary files, then one merge.

What fits into `memory` never touches the disk. The temporary folder is removed when the generator ends, however it
ends.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from webmill.errors import Misconfigured
from webmill.index.cdxj.merge import merge
from webmill.index.lines import Batch, write_batches

MEMORY = 256 << 20
OBJECT_BYTES = 64  # overhead of a bytes object in a list, rounded up
SLICE = 1024


def sort_lines(batches: Iterable[Batch], *, memory: int = MEMORY, folder: Path | None = None) -> Iterator[Batch]:
    """Yield all lines in byte order, with repeats. Sorted runs go to `folder`, or the system's temporary folder."""
    with TemporaryDirectory(prefix="webmill-sort-", dir=folder) as temporary:
        runs: list[Path] = []
        held: Batch = []
        size = 0
        for batch in batches:
            held += batch
            size += sum(map(len, batch)) + OBJECT_BYTES * len(batch)
            if size > memory:
                runs.append(_write_run(held, Path(temporary) / f"{len(runs):06d}"))
                held, size = [], 0
        if not runs:
            yield from _sorted_slices(held)
            return
        if held:
            runs.append(_write_run(held, Path(temporary) / f"{len(runs):06d}"))
            held = []
        yield from merge(runs)


def _sorted_slices(lines: Batch) -> Iterator[Batch]:
    lines.sort()
    return (lines[start : start + SLICE] for start in range(0, len(lines), SLICE))


def _write_run(lines: Batch, path: Path) -> Path:
    try:
        with path.open("wb", buffering=0) as run:
            write_batches(_sorted_slices(lines), run)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Misconfigured(
                f"no space left to sort in {path.parent.parent}: free some, or name another folder"
            ) from error
        raise
    return path
