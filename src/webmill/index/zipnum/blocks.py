"""Compresses lines into blocks, which do not depend on batches and threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.zipnum import encode_block
from webmill.index.lines import Batch

BLOCK_BYTES = 16 << 20  # readers refuse blocks of more than 64 MiB; 3000 ordinary lines are 1 MiB


class PackedBlock(msgspec.Struct, frozen=True):
    """A compressed block, with its first and last line."""

    data: bytes
    lines: int
    first: bytes
    last: bytes


def compress_blocks(batches: Iterable[Batch], *, lines: int, threads: int) -> Iterator[PackedBlock]:
    """Yield blocks in order, compressed ahead by a few threads (the compressor releases the GIL)."""
    if lines < 1:
        raise BadInput(f"a block needs at least one line, not {lines}", reason="bad_option")
    if threads < 2:
        yield from map(_pack, _cut_blocks(batches, lines=lines))
        return
    ahead: deque[Future[PackedBlock]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="zipnum") as pool:
        try:
            for block in _cut_blocks(batches, lines=lines):
                ahead.append(pool.submit(_pack, block))
                if len(ahead) > 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def _pack(block: Batch) -> PackedBlock:
    return PackedBlock(encode_block(block), len(block), block[0], block[-1])


def _cut_blocks(batches: Iterable[Batch], *, lines: int) -> Iterator[Batch]:
    """Yield blocks of `lines` lines, or of fewer that reach BLOCK_BYTES, whatever the batches are."""
    held: Batch = []
    size = 0
    for batch in batches:
        held += batch
        size += sum(map(len, batch))
        if len(held) < lines and size <= BLOCK_BYTES:
            continue
        start = 0
        while (end := _end_of_block(held, start, lines)) is not None:
            yield held[start:end]
            start = end
        del held[:start]
        size = sum(map(len, held))
    if held:
        yield held


def _end_of_block(held: Batch, start: int, lines: int) -> int | None:
    """Return where the block ends; None while more lines may belong to it."""
    block = held[start : start + lines]
    if sum(map(len, block)) > BLOCK_BYTES:
        sizes = accumulate(map(len, block))
        return start + next(place for place, size in enumerate(sizes, start=1) if size > BLOCK_BYTES)
    return start + lines if len(block) == lines else None
