"""The byte order of index lines: checked, never assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import key_of
from webmill.index.lines import Batch


def urlkey(line: bytes) -> bytes:
    """Return the urlkey *with* the space after it: lines of one key begin with it and are adjacent in byte order."""
    end = line.find(b" ") + 1
    if line[end + 14 : end + 15] == b" " or not end:  # nearly always: a timestamp follows
        return line[:end] or line
    return key_of(line) + b" "


def successor(prefix: bytes) -> bytes | None:
    """Return the smallest string above all that begin with `prefix`; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def is_sorted(batch: Batch) -> bool:
    """Whether a batch is sorted: one comparison a line in C, and the list comparison is by identity."""
    return sorted(batch) == batch


def ensure_byte_order(batches: Iterable[Batch], *, source: str, after: bytes = b"") -> Iterator[Batch]:
    """Pass the batches on; `BadInput` with the line number at the first line below the one before it (or `after`)."""
    number = 0
    for batch in batches:
        if batch[0] < after or not is_sorted(batch):
            raise _find_disorder(batch, after, number=number, source=source)
        yield batch
        number, after = number + len(batch), batch[-1]


def ensure_urlkey_order(batches: Iterable[Batch], *, source: str) -> Iterator[Batch]:
    """Pass the batches on; `BadInput` at the first line whose urlkey is below the one before it."""
    number, after = 0, b""
    for batch in batches:
        if batch[0] < after or not is_sorted(batch):
            keys = [urlkey(line) for line in batch]
            if keys[0] < urlkey(after) or not is_sorted(keys):
                raise _find_disorder(keys, urlkey(after), number=number, source=source)
        yield batch
        number, after = number + len(batch), batch[-1]


def _find_disorder(batch: Batch, after: bytes, *, number: int, source: str) -> BadInput:
    pairs = enumerate(pairwise(chain([after], batch)), start=1)
    at = next(place for place, (above, line) in pairs if line < above)
    return unsorted_error(source=source, number=number + at)


def unsorted_error(*, source: str, number: int) -> BadInput:
    message = "this line sorts before the one above it; sort the file first (`webmill cdxj sort`)"
    return BadInput(message, reason="unsorted", source=f"{source}:{number}")
