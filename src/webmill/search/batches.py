"""Orders to a server, some at a time: bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def batches(lines: Iterable[bytes], *, most: int, most_bytes: int) -> Iterator[list[bytes]]:
    """One that is larger than all may be goes alone."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == most or size + len(line) > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch
