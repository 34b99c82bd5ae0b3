"""The index of a crawl, as a server may answer from it: one whose summary is damaged gives no answers at all.

Lines are found in a summary by bisecting it. In one that is cut or overwritten that ends somewhere, so that a capture
which is here would not be found. A summary is read whole once, when it is first seen; 300,000 blocks take a second.
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
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import ZipnumBlock
from webmill.index.lines import Batch
from webmill.index.lookup.block_cache import BlockCache
from webmill.index.lookup.indexes import Generation, ZipNumIndex
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.index.zipnum.writer import SUMMARY
from webmill.infra.storage.base import Readable, Stat

log = logging.getLogger(__name__)

EVERYTHING = KeyRange(b"", b"\xff")
RECHECK_SECONDS = 5.0  # seconds until what is damaged is looked at again: its shards may have come back

T = TypeVar("T")


class ServedIndex(ZipNumIndex):
    """What cannot be read of it is `Unavailable`, and none of the client's fault. Threads may share it."""

    def __init__(self, files: Readable, *, name: str, kept: BlockCache) -> None:
        """`files`: the folder of the index, of the crawl of this name."""
        super().__init__(files, SUMMARY, kept=kept)
        self._files, self._name = files, name
        self._checking = Lock()  # of many who ask, one reads
        self._sound: Stat | None = None
        self._flaw: tuple[Stat, str, float] | None = None  # of which summary, what, and until when that is believed

    def current(self) -> Generation:
        with self._told():
            generation = super().current()
            while generation.stat != self._sound:
                flaw = self._flaw_of(generation)
                before, generation = generation, super().current()
                if flaw and generation.stat == before.stat:  # else it was replaced, and the flaw is none of this one
                    raise Unavailable(flaw)
        return generation

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        return self._telling(super().batches(wanted))

    def some_batches(self, wanted: KeyRange, whole: KeyRange, *, first: int, count: int) -> Iterator[Batch]:
        return self._telling(super().some_batches(wanted, whole, first=first, count=count))

    def some_blocks(self, wanted: KeyRange, *, first: int, count: int) -> Iterator[ZipnumBlock]:
        return self._telling(super().some_blocks(wanted, first=first, count=count))

    def count_blocks(self, wanted: KeyRange) -> int:
        with self._told():
            return super().count_blocks(wanted)

    def _flaw_of(self, generation: Generation) -> str:
        """Empty when there is none."""
        with self._checking:
            if generation.stat == self._sound:
                return ""
            if self._flaw and self._flaw[0] == generation.stat and time.monotonic() < self._flaw[2]:
                return self._flaw[1]
            try:
                self._check(generation)
            except (BadInput, NotFound, Conflict) as error:
                log.error("an index is damaged", extra={"crawl": self._name, "why": str(error)})
                self._flaw = generation.stat, self._damage(error), time.monotonic() + RECHECK_SECONDS
                return self._flaw[1]
            self._sound = generation.stat
            return ""

    def _check(self, generation: Generation) -> None:
        """Of the summary alone. A shard that is cut or missing is told where it is asked for: of a large index a part
        may be here.
        """
        shards = ShardLocations(self._files, SUMMARY, elsewhere={})
        ends = deque(generation.all_blocks(), maxlen=1)
        if not ends and shards.locations:
            raise BadInput("it is empty, and has shards", reason="bad_summary", source=SUMMARY)
        if not ends:
            return
        (last,) = ends
        size = generation.stat.size
        if self._files.read(SUMMARY, start=size - 1, length=1, etag=generation.stat.etag) != b"\n":
            raise BadInput("its last line has no end", reason="bad_summary", source=SUMMARY)
        try:
            found = shards.size(last.shard)
        except NotFound:
            return
        if last.offset + last.length < found:
            raise BadInput(f"it ends before {last.shard} does", reason="bad_summary", source=SUMMARY)

    def _telling(self, found: Iterator[T]) -> Iterator[T]:
        with self._told():
            yield from found

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (BadInput, NotFound) as error:
            raise Unavailable(self._damage(error)) from error

    def _damage(self, error: Exception) -> str:
        return f"the index of {self._name} is damaged, `webmill index` makes it anew: {error}"
