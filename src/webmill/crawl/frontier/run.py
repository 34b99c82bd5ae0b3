"""A sorted run: up to four billion 16-byte hashes in one file that is written once and never changed.

    header     magic, number of hashes, number of filter words
    hashes     sorted
    starts     for each bucket of 32 filter words: the number of its first hash; one more for the end (uint32)
    filter     64-bit words; a hash sets four bits in the word that its first 32 bits choose (a blocked Bloom filter)

The first bits of a hash choose its word, and so its bucket: words, buckets and hashes have one order. That lets a run
be written in one pass, slice by slice, whatever its size, and a hash be found with one read. The number of words is a
power of two, for a shift is what Python does fastest; runs of an earlier webmill had any number.
Numbers are in the byte order of the machine, since the filter is used where it lies (mmap).
docs/reference/frontier.md has the format in full.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from math import log2
from pathlib import Path
from typing import Protocol

from webmill.errors import BadInput
from webmill.infra.atomic import as_webmill_error, drafting, open_folder, os_errors
from webmill.infra.positions import read_at, write_at

HASH = 16
HEADER = struct.Struct("=8sQQ8x")
MAGIC = b"wmrun\x00\x00\x01"
BUCKET = 32  # words
HASHES_PER_WORD = 4  # 16 bits for each hash: about 0.6 % of the quick answers are a wrong "maybe"
SLICE = 16_384  # hashes in memory while a run is written

heads = struct.Struct(">II")  # of a hash: what chooses its word, what chooses its bits
_all_heads = struct.Struct(">II8x")
# Two bits for each value of twelve: a mask of four bits is two of these.
PAIRS = [1 << (value & 63) | 1 << (value >> 6) for value in range(4096)]


Steps = Generator[int, None, None]


def described(hashes: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """For filters: the first 32 bits of each, and the mask of its bits."""
    both = list(_all_heads.iter_unpack(b"".join(hashes)))
    return [head for head, _ in both], [PAIRS[rest & 4095] | PAIRS[rest >> 12 & 4095] for _, rest in both]


class Source(Protocol):
    """Sorted hashes, to be read in ranges of their first 32 bits."""

    count: int

    def between(self, low: int, high: int) -> list[bytes]: ...


class Table:
    """The hashes that came last, in memory, as a source."""

    def __init__(self, hashes: set[bytes]) -> None:
        self.count = len(hashes)
        self._sorted = sorted(hashes)

    def between(self, low: int, high: int) -> list[bytes]:
        return self._sorted[self._first(low) : self._first(high)]

    def _first(self, head: int) -> int:
        return bisect_left(self._sorted, head << 96, key=_number)


def _number(hash_: bytes) -> int:
    return int.from_bytes(hash_)


class Run:
    """Open for reading, where it lies (mmap); slices for a merge are read. No byte of it is kept on the heap."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with os_errors(str(path)):
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.count, self.word_count = self._read_header()
            starts, filter_ = offsets(self.count, self.word_count)
            with os_errors(str(path)):
                self._map = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
        except BaseException:
            os.close(self._fd)
            raise
        self._shift = shift_of(self.word_count)
        view = memoryview(self._map)
        self._starts = view[starts : starts + 4 * (self.word_count // BUCKET + 1)].cast("I")
        self.words = view[filter_:].cast("Q")

    def _read_header(self) -> tuple[int, int]:
        head = read_at(self._fd, HEADER.size, 0)
        magic, count, words = HEADER.unpack(head) if len(head) == HEADER.size else (b"", 0, 0)
        if magic != MAGIC or os.fstat(self._fd).st_size != size_of(count, words):
            raise BadInput("not a run, or cut short", reason="corrupt", source=str(self.path))
        return count, words

    def maybe(self, heads: Sequence[int], masks: Sequence[int]) -> list[int]:
        """By the filter: the places of those that it may hold. Most questions end here, so it is all one expression."""
        words, shift, count = self.words, self._shift, self.word_count
        both = enumerate(zip(heads, masks, strict=True))
        if shift is None:
            return [at for at, (head, mask) in both if words[head * count >> 32] & mask == mask]
        return [at for at, (head, mask) in both if words[head >> shift] & mask == mask]

    def holds(self, hash_: bytes, head: int) -> bool:
        """Exactly. It is searched for where it lies: a call to read would cost ten times as much."""
        bucket = (head * self.word_count >> 32) // BUCKET
        start, end = (HEADER.size + HASH * first for first in self._starts[bucket : bucket + 2])
        at = self._map.find(hash_, start, end)
        while at > 0 and (at - start) % HASH:  # across two hashes
            at = self._map.find(hash_, at + 1, end)
        return at >= 0

    def between(self, low: int, high: int) -> list[bytes]:
        return split(self._read(self._first(low), self._first(high)))

    def __iter__(self) -> Iterator[bytes]:
        for first in range(0, self.count, SLICE):
            yield from split(self._read(first, min(first + SLICE, self.count)))

    def _first(self, head: int) -> int:
        """The number of the first hash that is not below."""
        bucket = (head * self.word_count >> 32) // BUCKET
        if bucket == self.word_count // BUCKET:
            return self.count
        block, bound = self._bucket(bucket), head.to_bytes(4)
        below = sum(block[at : at + 4] < bound for at in range(0, len(block), HASH))
        return self._starts[bucket] + below

    def _bucket(self, bucket: int) -> bytes:
        return self._read(self._starts[bucket], self._starts[bucket + 1])

    def _read(self, first: int, last: int) -> bytes:
        try:
            block = read_at(self._fd, (last - first) * HASH, HEADER.size + first * HASH)
        except OSError as error:
            raise as_webmill_error(error, str(self.path)) from error
        if len(block) != (last - first) * HASH:
            raise BadInput("cut short", reason="corrupt", source=str(self.path))
        return block

    def close(self) -> None:
        self._starts.release()
        self.words.release()
        self._map.close()
        os.close(self._fd)


def split(block: bytes) -> list[bytes]:
    return [block[at : at + HASH] for at in range(0, len(block), HASH)]


def offsets(count: int, words: int) -> tuple[int, int]:
    """Of the starts and of the filter."""
    starts = HEADER.size + count * HASH
    return starts, starts + -(-4 * (words // BUCKET + 1) // 8) * 8


def size_of(count: int, words: int) -> int:
    return offsets(count, words)[1] + words * 8


def words_for(count: int, hashes_per_word: float) -> int:
    """Of the filter of so many hashes: the power of two that is nearest."""
    return BUCKET << max(0, round(log2(max(1, count) / (hashes_per_word * BUCKET))))


def write_run(path: Path, sources: Sequence[Source], *, hashes_per_word: float = HASHES_PER_WORD) -> Steps:
    """Merge sources that have no hash in common into a run, durable when the iterator ends.

    Each step writes a slice and yields how many hashes it had: the caller says how fast it goes. An iterator that is
    not driven to its end leaves nothing.
    """
    count = sum(source.count for source in sources)
    words = words_for(count, hashes_per_word)
    buckets = words // BUCKET
    at_once = max(1, SLICE * buckets // max(count, 1))
    starts, filter_ = offsets(count, words)
    written = 0
    with open_folder(path.parent) as folder, drafting(folder, what=str(path)) as draft:
        with os_errors(str(path)):
            os.ftruncate(draft.fd, size_of(count, words))
            write_at(draft.fd, HEADER.pack(MAGIC, count, words), 0)
        for bucket in range(0, buckets, at_once):
            last = min(bucket + at_once, buckets)
            low, high = (-(-(edge * BUCKET << 32) // words) for edge in (bucket, last))
            block = b"".join(sorted(hash_ for source in sources for hash_ in source.between(low, high)))
            firsts, bits = describe(block, words, bucket, last)
            with os_errors(str(path)):
                write_at(draft.fd, block, HEADER.size + written * HASH)
                write_at(draft.fd, array("I", [written + first for first in firsts]).tobytes(), starts + 4 * bucket)
                write_at(draft.fd, bits, filter_ + 8 * BUCKET * bucket)
            written += len(block) // HASH
            yield len(block) // HASH
        draft.sync()
        draft.replace(path.name)


def describe(block: bytes, words: int, bucket: int, last: int) -> tuple[list[int], bytes]:
    """Of a slice: the number of the first hash of each bucket and of the end, and the words of the filter."""
    base, shift = bucket * BUCKET, shift_of(words)
    assert shift is not None
    filter_ = array("Q", bytes(8 * BUCKET * (last - bucket)))
    both = list(_all_heads.iter_unpack(block))
    for head, rest in both:
        filter_[(head >> shift) - base] |= PAIRS[rest & 4095] | PAIRS[rest >> 12 & 4095]
    edges = range(base, last * BUCKET + 1, BUCKET)
    firsts = [bisect_left(both, (edge << shift,)) for edge in edges]
    return firsts, filter_.tobytes()


def shift_of(words: int) -> int | None:
    """By which the first 32 bits of a hash are shifted to choose its word; None where that cannot be."""
    return 33 - words.bit_length() if words & (words - 1) == 0 else None
