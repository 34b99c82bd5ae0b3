"""A sorted run: up to four billion 16-byte hashes in one file that is written once and never changed.

    header     magic, number of hashes, number of filter words, checksum of what follows
    hashes     sorted
    starts     for each bucket of 32 filter words: the number of its first hash; one more for the end (uint32)
    filter     64-bit words; a hash sets four bits in the word that its first 32 bits choose (a blocked Bloom filter)

The first bits of a hash choose its word, and so its bucket: words, buckets and hashes have one order. That lets a run
be written in one pass, slice by slice, whatever its size, and hashes be found by looking into one bucket each. Many are
asked for at a time (`hashes`). The number of words is a power of two, so that filters of equal
size can be laid over one another; runs of an earlier webmill had any number, and no checksum.
Numbers are in the byte order of the machine, since the filter is used where it lies (mmap).
docs/reference/frontier.md has the format in full.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Generator, Iterator, Sequence
from math import log2
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from webmill.crawl.frontier.hashes import (
    HALVES,
    HASH_SIZE,
    Hashes,
    HashQuery,
    Indexes,
    Numbers,
    filter_masks,
    hash_heads,
    join_hashes,
    sort_hashes,
    word_indexes,
)
from webmill.errors import BadInput
from webmill.infra.atomic import drafting, open_folder
from webmill.infra.files import as_webmill_error, os_errors, read_at, write_at

HEADER = struct.Struct("=8sQQI4x")
MAGIC, MAGIC_BEFORE = b"wmrun\x00\x00\x02", b"wmrun\x00\x00\x01"
BUCKET = 32  # words
HASHES_PER_WORD = 4  # 16 bits for each hash: about 0.6 % of the quick answers are a wrong "maybe"
SLICE = 16_384  # hashes in memory while a run is written

WriteSteps = Generator[int, None, None]


class HashSource(Protocol):
    """Sorted hashes, to be read in ranges of their first 32 bits."""

    count: int

    def between(self, low: int, high: int) -> Hashes: ...


class MemoryRun:
    """The hashes that came last, in memory, as a source."""

    def __init__(self, hashes: set[bytes]) -> None:
        self.count = len(hashes)
        self._sorted = sort_hashes(join_hashes(hashes))
        self._heads = hash_heads(self._sorted)

    def between(self, low: int, high: int) -> Hashes:
        first, last = np.searchsorted(self._heads, [low, high])
        return self._sorted[first:last]


class HashRun:
    """Open for reading, where it lies (mmap); slices for a merge are read. No byte of it is kept on the heap."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with os_errors(str(path)):
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.count, self.word_count, self._checksum = self._read_header()
            starts, filter_ = offsets(self.count, self.word_count)
            with os_errors(str(path)):
                mapped = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)  # as long as there is a view of it
        except BaseException:
            os.close(self._fd)
            raise
        self._hashes = np.frombuffer(mapped, HALVES, self.count, HEADER.size)
        self._starts = np.frombuffer(mapped, np.uint32, self.word_count // BUCKET + 1, starts)
        self.words = np.frombuffer(mapped, np.uint64, self.word_count, filter_)

    def _read_header(self) -> tuple[int, int, int | None]:
        head = read_at(self._fd, HEADER.size, 0)
        magic, count, words, checksum = HEADER.unpack(head) if len(head) == HEADER.size else (b"", 0, 0, 0)
        if magic not in (MAGIC, MAGIC_BEFORE) or os.fstat(self._fd).st_size != size_of(count, words):
            raise self._damaged("not a run, or cut short")
        return count, words, checksum if magic == MAGIC else None

    def verify(self) -> None:
        """Read every byte, and compare it with the checksum; a run of an earlier webmill has none."""
        found = RunChecksum(self.count, self.word_count)
        found.add(self._hashes, self._starts, self.words)
        if self._checksum not in (None, found.value):
            raise self._damaged("does not have its checksum")

    def holds(self, hashes: HashQuery) -> NDArray[np.bool_]:
        """Return for each hash whether it is here, exactly. All are searched for at once, each in its bucket."""
        if not self.count or not len(hashes.high):
            return np.zeros(len(hashes.high), np.bool_)
        bucket = word_indexes(hashes.high, self.word_count) // BUCKET
        # A damaged file must not lead out of it.
        first, last = (np.minimum(self._starts[bucket + end], self.count).astype(np.intp) for end in (0, 1))
        while (is_open := first < last).any():
            middle = (first + last) // 2
            high, low = self._halves(middle)
            is_below = (high < hashes.high) | (high == hashes.high) & (low < hashes.low)
            first = np.where(is_open & is_below, middle + 1, first)
            last = np.where(is_open & ~is_below, middle, last)
        high, low = self._halves(first)
        is_there: NDArray[np.bool_] = (high == hashes.high) & (low == hashes.low)
        return is_there

    def _halves(self, places: Indexes) -> tuple[Numbers, Numbers]:
        """Return both halves of the hashes there; behind the end there is the last hash again."""
        rows = self._hashes[np.minimum(places, self.count - 1)]
        return rows["high"].astype(np.uint64), rows["low"].astype(np.uint64)

    def between(self, low: int, high: int) -> Hashes:
        hashes = self._read(self._first(low), self._first(high))
        heads = hash_heads(hashes)
        if len(heads) and not low <= heads.min() <= heads.max() < high:
            raise self._damaged("a hash is out of its place")
        return hashes

    def __iter__(self) -> Iterator[bytes]:
        for first in range(0, self.count, SLICE):
            block = self._read(first, min(first + SLICE, self.count)).tobytes()
            yield from (block[at : at + HASH_SIZE] for at in range(0, len(block), HASH_SIZE))

    def _first(self, head: int) -> int:
        """Return the number of the first hash that is not below."""
        bucket = (head * self.word_count >> 32) // BUCKET
        if bucket == self.word_count // BUCKET:
            return self.count
        start, end = (int(first) for first in self._starts[bucket : bucket + 2])
        return start + int(np.searchsorted(hash_heads(self._read(start, end)), head))

    def _read(self, first: int, last: int) -> Hashes:
        if not first <= last <= self.count:
            raise self._damaged("the start of a bucket is damaged")
        try:
            block = read_at(self._fd, (last - first) * HASH_SIZE, HEADER.size + first * HASH_SIZE)
        except OSError as error:
            raise as_webmill_error(error, str(self.path)) from error
        if len(block) != (last - first) * HASH_SIZE:
            raise self._damaged("cut short")
        return np.frombuffer(block, HALVES)

    def _damaged(self, what: str) -> BadInput:
        message = f"{what}; `webmill frontier restore` brings back what was backed up"
        return BadInput(message, reason="corrupt", source=str(self.path))

    def close(self) -> None:
        del self._hashes, self._starts, self.words
        os.close(self._fd)


class RunChecksum:
    """The checksum of a run, of slices that come in their order: a CRC-32 of each of its parts, and one of these."""

    def __init__(self, count: int, words: int) -> None:
        self._numbers, self._parts = (count, words), [0, 0, 0]

    def add(self, *parts: NDArray[Any]) -> None:
        """Add hashes, starts and words."""
        before = zip(parts, self._parts, strict=True)
        self._parts = [crc32(np.ascontiguousarray(part).view(np.uint8).data, found) for part, found in before]

    @property
    def value(self) -> int:
        return crc32(struct.pack("=QQ3I", *self._numbers, *self._parts))


def offsets(count: int, words: int) -> tuple[int, int]:
    """Return the offsets of the starts and of the filter."""
    starts = HEADER.size + count * HASH_SIZE
    return starts, starts + -(-4 * (words // BUCKET + 1) // 8) * 8


def size_of(count: int, words: int) -> int:
    return offsets(count, words)[1] + words * 8


def filter_words(count: int, hashes_per_word: float) -> int:
    """Return how many words the filter of so many hashes has: the nearest power of two."""
    return BUCKET << max(0, round(log2(max(1, count) / (hashes_per_word * BUCKET))))


def write_run(path: Path, sources: Sequence[HashSource], *, hashes_per_word: float = HASHES_PER_WORD) -> WriteSteps:
    """Merge sources that have no hash in common into a run, durable when the iterator ends.

    Each step writes a slice and yields how many hashes it had: the caller says how fast it goes. An iterator that is
    not driven to its end leaves nothing.
    """
    count = sum(source.count for source in sources)
    words = filter_words(count, hashes_per_word)
    buckets = words // BUCKET
    at_once = max(1, SLICE * buckets // max(count, 1))
    starts, filter_ = offsets(count, words)
    written, checksum = 0, RunChecksum(count, words)
    with open_folder(path.parent) as folder, drafting(folder, what=str(path)) as draft:
        with os_errors(str(path)):
            os.ftruncate(draft.fd, size_of(count, words))
        for bucket in range(0, buckets, at_once):
            last = min(bucket + at_once, buckets)
            low, high = (-(-(edge * BUCKET << 32) // words) for edge in (bucket, last))
            block = sort_hashes(join_hashes(source.between(low, high).tobytes() for source in sources))
            places, bits = describe(block, words, bucket, last)
            firsts = (places + written).astype(np.uint32)
            checksum.add(block, firsts[: None if last == buckets else -1], bits)  # the end of one begins the next
            with os_errors(str(path)):
                write_at(draft.fd, block.tobytes(), HEADER.size + written * HASH_SIZE)
                write_at(draft.fd, firsts.tobytes(), starts + 4 * bucket)
                write_at(draft.fd, bits.tobytes(), filter_ + 8 * BUCKET * bucket)
            written += len(block)
            yield len(block)
        with os_errors(str(path)):
            write_at(draft.fd, HEADER.pack(MAGIC, count, words, checksum.value), 0)
        draft.sync()
        draft.replace(path.name)


def describe(block: Hashes, words: int, bucket: int, last: int) -> tuple[Indexes, Numbers]:
    """Return, of a slice, the number of the first hash of each bucket and of the end, and the words of the filter."""
    high = block["high"].astype(np.uint64)
    places = word_indexes(high, words)
    filter_ = np.zeros(BUCKET * (last - bucket), np.uint64)
    np.bitwise_or.at(filter_, places - bucket * BUCKET, filter_masks(high))
    edges = np.arange(bucket, last + 1) * BUCKET
    return np.searchsorted(places, edges), filter_
