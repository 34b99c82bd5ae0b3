"""Merge sorted CDXJ files: k-way, on raw lines, in one pass over any number of files, or range by range in processes.

Each round takes, from the inputs that overlap, everything up to the smallest last line at hand, and lets `list.sort`
merge it: timsort finds the runs and merges them in C. With blocks that stay in the cache this needs half the time of
`heapq.merge` on lines, and about that of `LC_ALL=C sort -m` (benchmarks/cdxj_tools.py). Equal lines are equal bytes,
so ties need no rule.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

from webmill.errors import BadInput
from webmill.formats.cdx.columns import parse_header
from webmill.index.columns import as_cdxj
from webmill.index.lines import BLOCK, GZIP_MAGIC, MAX_LINE, Batch, file_blocks, inflate, open_input, split_lines
from webmill.index.lookup.sorted_file import line_at, line_start, lower_bound
from webmill.index.order import ensure_byte_order, unsorted_error, urlkey

# Blocks of all inputs together stay within this, so that ten thousand inputs need no more memory than a hundred.
HELD = 64 << 20
SMALLEST_BLOCK = 4 << 10
SAMPLES_PER_PART = 64
MAX_HEADER = 256  # bytes of a file that may be the header of a CDX file


@dataclass(frozen=True, slots=True)
class FileRange:
    """A byte range of one file; `end` None is the end of the file."""

    path: Path
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class MergeRange:
    """All lines from `low` up to, not including, `high`. Ranges are merged independently, one after the other."""

    pieces: tuple[FileRange, ...]
    low: bytes = b""
    high: bytes | None = None


def merge(paths: Iterable[Path], *, block: int | None = None) -> Iterator[Batch]:
    """Yield all lines of sorted files in order, with repeats. `block`: bytes to read of a file at once."""
    return merge_range(MergeRange(pieces=tuple(FileRange(Path(path)) for path in paths)), block=block)


def merge_range(part: MergeRange, *, block: int | None = None) -> Iterator[Batch]:
    block = min(block or max(SMALLEST_BLOCK, min(BLOCK, HELD // max(1, len(part.pieces)))), MAX_LINE)
    return merge_batches([_lines_of(piece, part, block=block) for piece in part.pieces])


def drop_repeats(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Drop repeats of equal lines, which are adjacent in sorted input."""
    last = b""
    for batch in batches:
        fresh = list(dict.fromkeys(batch))
        if fresh[0] == last:
            del fresh[0]
        if fresh:
            last = fresh[-1]
            yield fresh


def merge_batches(inputs: Sequence[Iterator[Batch]]) -> Iterator[Batch]:
    """Merge sorted inputs. The heap holds the first buffered line of each input, with its number."""
    held = [next(source, []) for source in inputs]
    heap = [(batch[0], number) for number, batch in enumerate(held) if batch]
    heapify(heap)
    while heap:
        if len(heap) == 1:
            number = heap[0][1]
            yield held[number]
            yield from inputs[number]
            return
        yield _next_round(inputs, held, heap)


def _next_round(inputs: Sequence[Iterator[Batch]], held: list[Batch], heap: list[tuple[bytes, int]]) -> Batch:
    """Return the next lines. Only inputs whose first line is not above the limit take part: disjoint files are free."""
    limit = held[heap[0][1]][-1]
    participants = []
    while heap and heap[0][0] <= limit:
        number = heappop(heap)[1]
        participants.append(number)
        limit = min(limit, held[number][-1])
    merged: Batch = []
    for number in participants:
        batch = held[number]
        cut = bisect_right(batch, limit)
        merged += batch[:cut]
        batch = held[number] = batch[cut:] or next(inputs[number], [])
        if batch:
            heappush(heap, (batch[0], number))
    merged.sort()
    return merged


def _lines_of(piece: FileRange, part: MergeRange, *, block: int) -> Iterator[Batch]:
    """Yield the lines of a file range, checked to be sorted and inside `part`: together that proves the file sorted."""
    source = str(piece.path)
    blocks = file_blocks(piece.path, start=piece.start, end=piece.end, size=block)
    whole = inflate(blocks, source=source, size=block) if piece.start == 0 else blocks
    number = 0
    try:
        for batch in ensure_byte_order(as_cdxj(split_lines(whole, source=source)), source=source, after=part.low):
            if part.high is not None and batch[-1] >= part.high:
                raise unsorted_error(source=source, number=number + 1 + bisect_left(batch, part.high))
            yield batch
            number += len(batch)
    except BadInput as error:
        raise _with_line_of_file(error, piece) from None


def _with_line_of_file(error: BadInput, piece: FileRange) -> BadInput:
    """Return the error with the line number of the whole file; only an error pays for counting lines."""
    name, _, number = (error.source or "").rpartition(":")
    if not piece.start or name != str(piece.path):
        return error
    before = sum(block.count(b"\n") for block in file_blocks(piece.path, end=piece.start))
    return BadInput(error.message, reason=error.reason, source=f"{name}:{int(number) + before}", offset=error.offset)


def plan_ranges(paths: Iterable[Path], *, parts: int) -> list[MergeRange]:
    """Return at most `parts` ranges of about equal size, cut only between urlkeys, so that counts per urlkey are right.

    Gzip files, pipes, files with a header and the like cannot be cut: with one among the inputs the plan is a single
    range.
    """
    files = [Path(path) for path in paths]
    whole = MergeRange(pieces=tuple(FileRange(path) for path in files))
    if parts < 2 or not all(_can_be_cut(path) for path in files):
        return [whole]
    total = sum(path.stat().st_size for path in files)
    step = max(1, total // (parts * SAMPLES_PER_PART))
    samples = sorted(key for path in files for key in _sample(path, step=step))
    cuts = sorted({samples[len(samples) * part // parts] for part in range(1, parts)}) if samples else []
    if not cuts:
        return [whole]
    offsets = [[0, *_find_all(path, cuts), path.stat().st_size] for path in files]
    bounds = pairwise([b"", *cuts, None])
    return [
        MergeRange(
            pieces=tuple(
                FileRange(path, at[number], at[number + 1])
                for path, at in zip(files, offsets, strict=True)
                if at[number] < at[number + 1]
            ),
            low=low or b"",
            high=high,
        )
        for number, (low, high) in enumerate(bounds)
    ]


def _can_be_cut(path: Path) -> bool:
    with open_input(path) as file:
        start = file.read(MAX_HEADER)
        return path.is_file() and not start.startswith(GZIP_MAGIC) and not parse_header(start.partition(b"\n")[0])


def _sample(path: Path, *, step: int) -> Iterator[bytes]:
    with open_input(path) as file:
        size = path.stat().st_size
        if not size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            for position in range(step // 2, size, step):
                start = line_start(view, position)
                if start < size:
                    yield urlkey(line_at(view, start, max_line=MAX_LINE))


def _find_all(path: Path, cuts: Sequence[bytes]) -> list[int]:
    """Return the offset of the first line not below each cut (in an unsorted file any: `merge_range` will notice)."""
    size = path.stat().st_size
    if not size:
        return [0] * len(cuts)
    offsets, low = [], 0
    with open_input(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        for cut in cuts:
            low = lower_bound(view, cut, low=low, max_line=MAX_LINE)
            offsets.append(low)
    return offsets
