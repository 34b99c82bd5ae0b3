"""The index of a crawl for serving: one with a damaged summary gives no answers instead of wrong ones.

Lines are found by bisecting the summary. In a truncated or overwritten summary that would miss captures which exist. So
a summary is checked as a whole once, when it is first seen; 300,000 blocks take a second.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from webmill.errors import BadInput, Conflict, NotFound, Unavailable
from webmill.forgotten import ForgottenFiles
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import ZipnumBlock
from webmill.index.lines import Batch
from webmill.index.lookup.block_cache import BlockCache
from webmill.index.lookup.indexes import Generation, ZipNumIndex
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.index.zipnum.writer import SUMMARY
from webmill.infra.storage.base import Readable, Stat

log = logging.getLogger(__name__)

RECHECK_SECONDS = 5.0  # until a damaged index is checked again: its shards may be back

T = TypeVar("T")


class ServedIndex(ZipNumIndex):
    """An index whose read errors are `Unavailable`: not the client's fault. Thread-safe."""

    def __init__(
        self, files: Readable, *, name: str, kept: BlockCache, forgotten: ForgottenFiles | None = None
    ) -> None:
        """`files`: the index folder of the crawl `name`. `forgotten`: lines of it are not there, also while the index
        still has them."""
        super().__init__(files, SUMMARY, cache=kept)
        self._files, self._name, self._forgotten = files, name, forgotten
        self._checking = Lock()  # one thread checks at a time
        self._sound: Stat | None = None
        self._damage: tuple[Stat, str, float] | None = None  # summary, message, and when to check again

    def current(self) -> Generation:
        with self._as_unavailable():
            generation = super().current()
            while generation.stat != self._sound:
                damage = self._find_damage(generation)
                before, generation = generation, super().current()
                if damage and generation.stat == before.stat:  # otherwise it was replaced meanwhile
                    raise Unavailable(damage)
        return generation

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        return self._shown(self._guard(super().batches(wanted)))

    def batches_in_blocks(self, wanted: KeyRange, whole: KeyRange, *, first: int, count: int) -> Iterator[Batch]:
        return self._shown(self._guard(super().batches_in_blocks(wanted, whole, first=first, count=count)))

    def _shown(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        forgotten = self._forgotten.current() if self._forgotten else None
        if not forgotten:
            yield from batches
            return
        for batch in batches:
            kept = [line for line in batch if not forgotten.covers_key(line.partition(b" ")[0].decode("latin-1"))]
            if kept:
                yield kept

    def slice_blocks(self, wanted: KeyRange, *, first: int, count: int) -> Iterator[ZipnumBlock]:
        return self._guard(super().slice_blocks(wanted, first=first, count=count))

    def count_blocks(self, wanted: KeyRange) -> int:
        with self._as_unavailable():
            return super().count_blocks(wanted)

    def _find_damage(self, generation: Generation) -> str:
        """Return what is damaged; empty if nothing is."""
        with self._checking:
            if generation.stat == self._sound:
                return ""
            if self._damage and self._damage[0] == generation.stat and time.monotonic() < self._damage[2]:
                return self._damage[1]
            try:
                self._check(generation)
            except (BadInput, NotFound, Conflict) as error:
                log.error("index is damaged", extra={"crawl": self._name, "why": str(error)})
                self._damage = generation.stat, self._damage_message(error), time.monotonic() + RECHECK_SECONDS
                return self._damage[1]
            self._sound = generation.stat
            return ""

    def _check(self, generation: Generation) -> None:
        """Check the summary alone. A truncated or missing shard is reported when it is read: a large index may be here
        in part.
        """
        shards = ShardLocations(self._files, SUMMARY, elsewhere={})
        ends = deque(generation.all_blocks(), maxlen=1)
        if not ends and shards.locations:
            raise BadInput("the summary is empty although there are shards", reason="bad_summary", source=SUMMARY)
        if not ends:
            return
        (last,) = ends
        size = generation.stat.size
        if self._files.read(SUMMARY, start=size - 1, length=1, etag=generation.stat.etag) != b"\n":
            raise BadInput("the last line of the summary is incomplete", reason="bad_summary", source=SUMMARY)
        try:
            found = shards.size(last.shard)
        except NotFound:
            return
        if last.offset + last.length < found:
            raise BadInput(f"the summary ends before {last.shard} does", reason="bad_summary", source=SUMMARY)

    def _guard(self, found: Iterator[T]) -> Iterator[T]:
        with self._as_unavailable():
            yield from found

    @contextmanager
    def _as_unavailable(self) -> Iterator[None]:
        try:
            yield
        except (BadInput, NotFound) as error:
            raise Unavailable(self._damage_message(error)) from error

    def _damage_message(self, error: Exception) -> str:
        return f"the index of {self._name} is damaged; rebuild it with `webmill index`: {error}"
