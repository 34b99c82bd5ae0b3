"""A filter of known URLs in Redis: a quick, sure no. Its "maybe" is decided by the exact set (`FilteredSeenUrls`).

Either the server's own Bloom filter (`BF.*`), or bitmaps: words of 64 bits as in a run's filter (`sorted_hash_run`), in
segments of which each is four times the one before, so that a small crawl has a small filter.
Hashes are put in with the update that adds their URLs: whatever Redis forgets, it forgets both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Protocol

import numpy as np

from webmill.crawl.frontier.hashes import join_hashes, make_query, word_indexes
from webmill.crawl.frontier.redis.server import Command, RedisServer
from webmill.crawl.frontier.seen_urls import MERGE_FAN_IN, SeenUrls
from webmill.crawl.frontier.sorted_hash_run import HASHES_PER_WORD
from webmill.infra import sqlite

FIRST_SEGMENT = 1 << 17  # hashes in the first segment
GROWTH = 4
MAX_SEGMENT = FIRST_SEGMENT * GROWTH**5  # of 268 MB; Redis has no strings above 512 MB
ERROR = "0.001"
AT_ONCE = 1000
PLACED = struct.Struct("<IQ")  # place and word

SCHEMA = sqlite.Schema(
    tag=int.from_bytes(b"WMfs"),
    steps=(
        """
        CREATE TABLE run (number INTEGER PRIMARY KEY, level INTEGER NOT NULL);
        CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        """,
    ),
)


class UrlFilter(Protocol):
    count: int  # of the hashes in it

    def make(self) -> None:
        """Make the filter anew, with nothing in it."""
        ...

    def maybe(self, hashes: Sequence[bytes]) -> list[bool]:
        """Return for each whether it may be there. False: it was never put in."""
        ...

    def put(self, hashes: Sequence[bytes]) -> list[Command]:
        """Return the commands that put hashes in. `maybe` was asked for them just before."""
        ...


class BloomFilter:
    """RedisBloom's, or one with the same commands."""

    def __init__(self, server: RedisServer, prefix: str, *, count: int) -> None:
        self._server, self._key, self.count = server, f"{prefix}seen:bloom", count

    def make(self) -> None:
        self.count = 0
        self._server.ask("DEL", self._key)
        self._server.ask("BF.RESERVE", self._key, ERROR, FIRST_SEGMENT, "EXPANSION", GROWTH)

    def maybe(self, hashes: Sequence[bytes]) -> list[bool]:
        answers = self._server.run("maybe", keys=[self._key], args=[b"".join(hashes)])
        return [answer == 0x31 for answer in answers]

    def put(self, hashes: Sequence[bytes]) -> list[Command]:
        return [("BF.MADD", self._key, *some) for some in split_hashes(hashes)]


class BitmapFilter:
    def __init__(self, server: RedisServer, prefix: str, *, count: int, hashes_per_word: int = HASHES_PER_WORD) -> None:
        self._server, self._prefix, self._hashes_per_word = server, f"{prefix}seen:bits:", hashes_per_word
        self.count = count
        self._read: dict[tuple[int, int], int] = {}  # words by segment and place, as `maybe` has found them

    def make(self) -> None:
        self._server.ask("DEL", *(self._prefix + str(segment) for segment in range(segment_of_hash(self.count) + 1)))
        self.count = 0

    def maybe(self, hashes: Sequence[bytes]) -> list[bool]:
        self._read.clear()
        these = make_query(join_hashes(hashes))
        answers = np.zeros(len(hashes), np.bool_)
        for segment in range(segment_of_hash(self.count) + 1 if hashes else 0):
            places = word_indexes(these.high, self._words(segment))
            blob = self._server.run("words", keys=[self._prefix + str(segment)], args=[places.astype("<u4").tobytes()])
            words = np.frombuffer(blob, "<u8")
            self._read.update(zip(zip(repeat(segment), places.tolist()), words.tolist(), strict=False))
            answers |= words & these.mask == these.mask
        return answers.tolist()

    def put(self, hashes: Sequence[bytes]) -> list[Command]:
        changed: dict[int, dict[int, int]] = {}  # words by segment and place
        these = make_query(join_hashes(hashes))
        for number, (high, mask) in enumerate(zip(these.high.tolist(), these.mask.tolist(), strict=True), self.count):
            segment = segment_of_hash(number)
            words, place = changed.setdefault(segment, {}), (high >> 32) * self._words(segment) >> 32
            before = words.get(place) or self._read.get((segment, place), 0)  # not read: of a segment that begins now
            words[place] = before | mask
        return [
            ("WORDS", self._prefix + str(segment), b"".join(PLACED.pack(*entry) for entry in words.items()))
            for segment, words in changed.items()
        ]

    def _words(self, segment: int) -> int:
        size: int = min(MAX_SEGMENT, FIRST_SEGMENT * GROWTH**segment)
        return size // self._hashes_per_word


def segment_of_hash(count: int) -> int:
    """Return the segment of the hash with this number."""
    segment, size = 0, FIRST_SEGMENT
    while count >= size:
        count -= size
        segment, size = segment + 1, min(MAX_SEGMENT, size * GROWTH)
    return segment


def split_hashes(hashes: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (hashes[at : at + AT_ONCE] for at in range(0, len(hashes), AT_ONCE))


class FilteredSeenUrls(SeenUrls):
    """The exact set, on the owner's disk; asked only where the filter says maybe."""

    def __init__(
        self, folder: Path, database: sqlite.Database, filter_: UrlFilter, *,
        fan: int = MERGE_FAN_IN, hashes_per_word: int = HASHES_PER_WORD,
    ) -> None:  # fmt: skip
        super().__init__(folder, database, fan=fan, hashes_per_word=hashes_per_word)
        self._filter = filter_

    def unknown(self, hashes: Sequence[bytes]) -> list[bool]:
        answers = [not maybe for maybe in self._filter.maybe(hashes)]
        doubtful = [at for at, is_new in enumerate(answers) if not is_new]
        exact = self.unknown_exactly([hashes[at] for at in doubtful])
        for at, is_new in zip(doubtful, exact, strict=True):
            answers[at] = is_new
        return answers

    def clear(self) -> None:
        with self._database.write() as run:
            run("DELETE FROM run")
        for number in list(self._runs):
            self._drop(number)
        self._newest.clear()

    def unknown_exactly(self, hashes: Sequence[bytes]) -> list[bool]:
        """Return for each whether it is new, by the exact set alone."""
        return super().unknown(hashes)
