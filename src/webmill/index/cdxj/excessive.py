"""Urlkeys with too many captures: find them, or remove captures of them.

In sorted input the captures of a urlkey are adjacent, so nothing is counted globally, and no group is ever held: at
most about `limit` lines are. A run of more than `limit` lines covers two neighbouring multiples of half its length,
so only those lines are compared. Unsorted input is `BadInput` with its line number (the order within one urlkey does
not matter).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal

from webmill.index.cdxj.prefixes import Prefixes
from webmill.index.lines import Batch, FilterCounts, read_lines
from webmill.index.order import ensure_urlkey_order, successor, urlkey

_REVISIT = re.compile(rb'"mime"\s*:\s*"warc/revisit"')

# The key of an excessive run and lines of it (a run may come in several segments), or None and lines of other keys.
_Segment = tuple[bytes | None, Batch]


@dataclass(frozen=True, slots=True)
class ExcessiveUrlkey:
    urlkey: bytes
    count: int

    def __bytes__(self) -> bytes:
        return b"%b %d" % (self.urlkey, self.count)


@dataclass(frozen=True, slots=True)
class ExcessPolicy:
    """Which captures of an excessive urlkey are kept.

    With `drop_revisits_first` its revisits are dropped; if no more than the limit are left, these are kept. Otherwise
    `count` are kept, the first or the last ones.
    """

    count: int = 0
    side: Literal["first", "last"] = "first"
    drop_revisits_first: bool = False


def find_excessive(batches: Iterable[Batch], *, limit: int, source: str = "input") -> list[ExcessiveUrlkey]:
    """Return the urlkeys with more than `limit` captures, most first, then by key."""
    runs = groupby(_segments(ensure_urlkey_order(batches, source=source), limit), key=itemgetter(0))
    found = [
        ExcessiveUrlkey(key.rstrip(b" \n"), sum(len(lines) for _, lines in run)) for key, run in runs if key is not None
    ]
    return sorted(found, key=lambda excess: (-excess.count, excess.urlkey))


def load_excessive(path: Path) -> list[bytes]:
    """Return the urlkeys of a list of `SURT COUNT` or `SURT`; blank lines and `#` comments are skipped."""
    texts = (line.strip() for line in read_lines(path))
    return [text.split()[0] for text in texts if text and not text.startswith(b"#")]


def remove_urlkeys(batches: Iterable[Batch], urlkeys: Iterable[bytes], *, tally: FilterCounts) -> Iterator[Batch]:
    """Yield all lines but those of the given urlkeys; sorted input is faster."""
    prefixes = Prefixes(key + b" " for key in urlkeys)
    for batch in batches:
        kept, removed = prefixes.partition(batch)
        tally.kept += len(kept)
        tally.removed += len(removed)
        if kept:
            yield kept


def drop_excessive(
    batches: Iterable[Batch],
    *,
    limit: int,
    tally: FilterCounts,
    keep: ExcessPolicy | None = None,
    source: str = "input",
) -> Iterator[Batch]:
    """Yield all lines of urlkeys with at most `limit` captures, and of the others what `keep` allows (or none)."""
    keep = keep or ExcessPolicy()
    runs = groupby(_segments(ensure_urlkey_order(batches, source=source), limit), key=itemgetter(0))
    for key, run in runs:
        segments = (lines for _, lines in run)
        if key is None:
            for lines in segments:
                tally.kept += len(lines)
                yield lines
            continue
        survivors, total = _survivors(segments, limit=limit, keep=keep)
        tally.kept += len(survivors)
        tally.removed += total - len(survivors)
        if survivors:
            yield survivors


def _survivors(segments: Iterable[Batch], *, limit: int, keep: ExcessPolicy) -> tuple[Batch, int]:
    """Return the lines kept of one excessive run, and its length. Holds about `limit` + `keep.count` lines."""
    total = candidates = 0
    first: Batch = []
    last: deque[bytes] = deque(maxlen=keep.count)
    room = max(limit, keep.count) if keep.drop_revisits_first else keep.count
    for lines in segments:
        total += len(lines)
        if keep.drop_revisits_first:
            lines = [line for line in lines if not _REVISIT.search(line)]
        candidates += len(lines)
        first += lines[: max(0, room - len(first))]
        last.extend(lines)
    if keep.drop_revisits_first and candidates <= limit:
        return first, total
    return (first[: keep.count] if keep.side == "first" else list(last)), total


def _segments(batches: Iterable[Batch], limit: int) -> Iterator[_Segment]:
    held: Batch = []
    open_key: bytes | None = None  # of an excessive run that may go on in the next batch
    for batch in batches:
        if open_key is not None:
            end = _end_of_run(batch, open_key)
            if end:
                yield open_key, batch[:end]
            batch = batch[end:]
            if not batch:
                continue
            open_key = None
        held += batch
        last = urlkey(held[-1])
        start = bisect_left(held, last)
        yield from _closed_runs(held[:start], limit)
        held = held[start:]
        if len(held) > limit:
            yield last, held
            held, open_key = [], last
    yield from _closed_runs(held, limit)


def _closed_runs(lines: Batch, limit: int) -> Iterator[_Segment]:
    """Yield segments of lines that begin and end at a change of urlkey."""
    step = max(1, (limit + 1) // 2)
    reach = step if limit else 0  # with a limit of 0 every run is excessive, also one that touches a single multiple
    done = at = 0
    while at + reach < len(lines):
        key = urlkey(lines[at])
        if not lines[at + reach].startswith(key):
            at += step
            continue
        start, end = bisect_left(lines, key, done), _end_of_run(lines, key)
        if end - start > limit:
            if start > done:
                yield None, lines[done:start]
            yield from _split_run(key, lines[start:end], limit)
            done = end
        at = end
    if done < len(lines):
        yield None, lines[done:]


def _split_run(key: bytes, lines: Batch, limit: int) -> Iterator[_Segment]:
    """Yield one segment; several where keys go on behind a space: `a b` begins as `a ` does, and is another key."""
    if all(urlkey(line) == key for line in lines):
        yield key, lines
        return
    for one, run in groupby(lines, key=urlkey):
        found = [*run]
        yield (one if len(found) > limit else None), found


def _end_of_run(lines: Batch, key: bytes) -> int:
    above = successor(key)
    return len(lines) if above is None else bisect_left(lines, above)
