"""Group entries into requests that are bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(entries: Iterable[T], size_of: Callable[[T], int], *, count: int, size: int) -> Iterator[list[T]]:
    """Yield batches of at most `count` entries and `size` bytes; an entry that is larger goes alone."""
    batch: list[T] = []
    total = 0
    for entry in entries:
        if batch and (len(batch) == count or total + size_of(entry) > size):
            yield batch
            batch, total = [], 0
        batch.append(entry)
        total += size_of(entry)
    if batch:
        yield batch
