"""The bulk of a frontier: URLs that wait, in one queue of lines for each domain and priority.

A queue is an endless row of bytes, written at its end and read at its beginning; both positions are kept elsewhere and
only grow. It lies in files of `size` bytes, `domains/HH/HASH.PRIORITY.NUMBER` (the hash is the domain's: what a host is
called never becomes a path). A file that was read to its end is removed. Compaction replaces the first file by one
with a hole where lines were read, so that no position changes.

A line is its own length, so any text may stand in it:

    crc32 of the rest (uint32) · length of the URL (uint32) · depth (24 bits) and hops (8 bits) · URL   little-endian

Lines go to their files many at a time: a page's links are to twenty domains, and opening a file costs more than all
else. Those that are read before never get there. Bytes behind the end of a queue mean nothing: a step that failed may
have left some. Nothing here is durable before `sync`; until then the journal has it, too.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from webmill.crawl.frontier.base import MOST_DEPTH
from webmill.errors import BadInput
from webmill.infra import atomic
from webmill.infra.files import as_webmill_error, os_errors, read_at, write_at

log = logging.getLogger(__name__)

HEAD = struct.Struct("<III")
_CRC, _HEAD_REST = struct.Struct("<I"), struct.Struct("<II")
_NAME = re.compile(r"([0-9a-f]{32})\.(-1|[0-9])\.([0-9]+)")
FILE_SIZE = 1 << 20
READ_SIZE = 1 << 12
MIN_HOLE = 1 << 16  # consumed bytes that make it worth while to write a file anew
MAX_OPEN_FILES = 128
MAX_UNWRITTEN = 8 << 20  # bytes of lines that are not in their files yet
MAX_UNWRITTEN_QUEUES = 1 << 15  # of which there are such


class QueuedLine(NamedTuple):
    """A line of a queue: where it begins and ends there, and what stands in it."""

    start: int
    end: int
    url: str
    depth: int
    hops: int


def encode_line(url: bytes, depth: int, hops: int = 0) -> bytes:
    rest = _HEAD_REST.pack(len(url), depth | hops << 24) + url
    return _CRC.pack(crc32(rest)) + rest


def decode_lines(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield the end, URL, and depth with hops of each whole line; what is behind the last whole one is left. BadInput
    for a damaged one."""
    at = 0
    while at + HEAD.size <= len(data):
        check, length, depth = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        if end > len(data):
            return
        if crc32(data[at + 4 : end]) != check:
            raise BadInput("a line is damaged", reason="corrupt", offset=at)
        yield end, data[at + HEAD.size : end], depth
        at = end


class UrlQueue:
    """One queue: its files are known by a stem and a number."""

    __slots__ = ("stem",)

    def __init__(self, domain: bytes, priority: int) -> None:
        name = domain.hex()
        self.stem = f"{name[:2]}/{name}.{priority}"

    def file(self, number: int) -> str:
        return f"{self.stem}.{number}"


@lru_cache(maxsize=1 << 14)  # each is asked for twice in a step
def hash_domain(domain: str) -> bytes:
    return blake2b(domain.encode(), digest_size=16).digest()


class UrlQueueFiles:
    def __init__(
        self, folder: Path, *, size: int = FILE_SIZE, max_open: int = MAX_OPEN_FILES, waiting: int = MAX_UNWRITTEN
    ) -> None:
        atomic.make_folder(folder)
        self._folder, self._root, self._size, self._max_open = folder, f"{folder}/", size, max_open
        self._max_unwritten = waiting
        self._open: OrderedDict[str, int] = OrderedDict()
        self._touched: set[str] | None = None if _syncfs else set()
        self._unwritten: dict[
            str, tuple[UrlQueue, int, bytearray]
        ] = {}  # by stem: lines that are not in their file yet
        self._unwritten_bytes = 0

    def write(self, queue: UrlQueue, at: int, data: bytes) -> None:
        if not data:
            return
        _, start, lines = self._unwritten.get(queue.stem) or (queue, at, bytearray())
        if not start <= at <= start + len(lines):
            self._write_out(queue)
            start, lines = at, bytearray()
        self._unwritten_bytes -= len(lines)
        lines[at - start : at - start + len(data)] = data
        self._unwritten_bytes += len(lines)
        self._unwritten[queue.stem] = (queue, start, lines)
        if self._unwritten_bytes > self._max_unwritten or len(self._unwritten) > MAX_UNWRITTEN_QUEUES:
            self.flush()

    def flush(self) -> None:
        """Write all lines to their files; they are not yet durable."""
        for stem in sorted(self._unwritten):
            self._write_out(self._unwritten[stem][0])

    def _write_out(self, queue: UrlQueue) -> None:
        if queue.stem in self._unwritten:
            _, start, lines = self._unwritten[queue.stem]
            self._write_files(queue, start, bytes(lines))
            self._drop_unwritten(queue, len(lines))

    def _drop_unwritten(self, queue: UrlQueue, count: int) -> None:
        """Drop the first `count` bytes that are not written yet."""
        _, start, lines = self._unwritten.pop(queue.stem)
        del lines[:count]
        self._unwritten_bytes -= count
        if lines:
            self._unwritten[queue.stem] = (queue, start + count, lines)

    def _write_files(self, queue: UrlQueue, at: int, data: bytes) -> None:
        while data:
            number, offset = divmod(at, self._size)
            part = data[: self._size - offset]
            name = queue.file(number)
            if self._touched is not None:
                self._touched.add(name)
            try:
                write_at(self._descriptor(name), part, offset)
            except OSError as error:
                raise as_webmill_error(error, self._root + name) from error
            data, at = data[len(part) :], at + len(part)

    def read(self, queue: UrlQueue, start: int, end: int, *, count: int) -> list[QueuedLine]:
        """Return up to `count` lines."""
        found: list[QueuedLine] = []
        want = READ_SIZE
        while start < end and len(found) < count:
            data = self.bytes_of(queue, start, min(end, start + want))
            before = len(found)
            try:
                for stop, url, both in decode_lines(data):
                    place = found[-1].end if len(found) > before else start
                    found.append(QueuedLine(place, start + stop, url.decode(), both & MOST_DEPTH, both >> 24))
                    if len(found) == count:
                        return found
            except (BadInput, UnicodeDecodeError) as error:
                raise self._damaged(queue, found[-1].end if len(found) > before else start) from error
            if len(found) == before:  # not one whole line
                if start + want >= end:
                    raise self._damaged(queue, start)
                want *= 4
            else:
                start = found[-1].end
        return found

    def _damaged(self, queue: UrlQueue, at: int) -> BadInput:
        number, offset = divmod(at, self._size)
        message = "a line of the frontier is damaged or gone; exclude its domain to go on without it"
        return BadInput(message, reason="corrupt", source=self._root + queue.file(number), offset=offset)

    def bytes_of(self, queue: UrlQueue, start: int, end: int) -> bytes:
        _, first, lines = self._unwritten.get(queue.stem) or (queue, end, bytearray())
        split = min(max(start, first), end)  # from here on it is not in its file yet
        data = self._read_files(queue, start, split) + lines[split - first : end - first]
        if len(data) < end - start:
            raise self._damaged(queue, start + len(data))
        return data

    def _read_files(self, queue: UrlQueue, start: int, end: int) -> bytes:
        parts = []
        while start < end:
            number, offset = divmod(start, self._size)
            size = min(end - start, self._size - offset)
            try:
                part = read_at(self._descriptor(queue.file(number)), size, offset)
            except OSError as error:
                raise as_webmill_error(error, self._root + queue.file(number)) from error
            if len(part) < size:
                raise self._damaged(queue, start + len(part))
            parts.append(part)
            start += size
        return b"".join(parts)

    def reach(self, queue: UrlQueue, start: int) -> int:
        """Return up to which position the files have the queue from `start` on."""
        self._write_out(queue)
        while True:
            number, offset = divmod(start, self._size)
            try:
                size = Path(self._root + queue.file(number)).stat().st_size
            except FileNotFoundError:
                return start
            if size < self._size:
                return max(start, number * self._size + size)
            start += self._size - offset

    def drop(self, queue: UrlQueue, *, was: int, read: int, end: int) -> None:
        """Remove files that were read to their end since the position `was`. That it was read must be durable."""
        if queue.stem in self._unwritten:
            _, start, lines = self._unwritten[queue.stem]
            if start < read:
                self._drop_unwritten(queue, min(read - start, len(lines)))
        for number in range(was // self._size, read // self._size + (read == end)):
            self._remove(queue.file(number))

    def _remove(self, name: str) -> None:
        self._close(name)
        if self._touched:
            self._touched.discard(name)
        try:
            Path(self._root + name).unlink()
        except FileNotFoundError:
            pass
        except OSError as error:  # costs space only; compaction comes again
            log.warning("frontier_file_left", extra={"path": name, "why": str(error)})

    def compact(self, queue: UrlQueue, *, read: int, end: int) -> int:
        """Give back what the consumed part of the queue's first file takes; how many bytes that were."""
        number, offset = divmod(read, self._size)
        path = Path(self._root + queue.file(number))
        if read == end or offset < MIN_HOLE:
            return 0
        self._write_out(queue)
        data = self.bytes_of(queue, read, min(end, (number + 1) * self._size))
        with os_errors(str(path)):
            before = path.stat().st_blocks
            with atomic.writing(path) as file:
                file.seek(offset)
                file.write(data)
            self._close(queue.file(number))
            return max(0, before - path.stat().st_blocks) * 512

    def files(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield the domain hash, the priority and the number of all files."""
        self.flush()
        for folder in sorted(self._folder.glob("[0-9a-f][0-9a-f]")):
            atomic.remove_stale_temps(folder)
            for path in sorted(folder.iterdir()):
                if name := _NAME.fullmatch(path.name):
                    yield bytes.fromhex(name[1]), int(name[2]), int(name[3])

    def remove(self, queue: UrlQueue, number: int) -> None:
        self._remove(queue.file(number))

    def file_numbers(self, *, read: int, end: int) -> range:
        """Return the numbers of the files that a queue needs."""
        return range(read // self._size, -(-end // self._size)) if read < end else range(0)

    def sync(self) -> None:
        """Make all that was written durable. After an error it must be written again: the kernel may have let it go."""
        self.flush()
        with os_errors(str(self._folder)):
            if self._touched is None:
                sync_tree(self._folder)
                return
            for name in sorted(self._touched):
                atomic.sync(self._descriptor(name))
            for folder in {name[:2] for name in self._touched} | {"."}:
                with atomic.open_folder(self._folder / folder) as fd:
                    atomic.sync_folder(fd)
            self._touched.clear()

    def _descriptor(self, name: str) -> int:
        fd = self._open.get(name)
        if fd is not None:
            self._open.move_to_end(name)
            return fd
        while len(self._open) >= self._max_open:
            os.close(self._open.popitem(last=False)[1])
        fd = self._open[name] = open_file(self._root + name)
        return fd

    def _close(self, name: str) -> None:
        if (fd := self._open.pop(name, None)) is not None:
            os.close(fd)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


def open_file(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        Path(path).parent.mkdir(exist_ok=True)
        return os.open(path, flags, 0o666)


# Thousands of files are synced in one call where there is one: fsync for each would take minutes.
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None


def sync_tree(folder: Path) -> None:
    """Make all files and folders below durable."""
    if _syncfs is None:
        for path in [folder, *folder.rglob("*")]:
            with open_descriptor(path) as fd:
                atomic.sync(fd)
        return
    with atomic.open_folder(folder) as fd:
        if _syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


@contextmanager
def open_descriptor(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
