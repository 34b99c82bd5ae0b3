"""Index lines in batches: how every CDXJ tool reads and writes.

A batch is a list of raw lines, each ending in its newline. Tools take and yield batches, not lines: a list of some
hundred lines goes through `readlines`, `sort` and `join` in C, and that is most of what these tools do.

What a line is
* `\\n` ends a line. `\\r\\n` is read as `\\n`; a lone `\\r` is an ordinary byte. A missing last newline is added.
* A line of more than `MAX_LINE` bytes is `BadInput`, with its number: nothing of unbounded size is ever held.
* Gzip is recognised by its first two bytes, all members are read, NUL padding between and after them is skipped.
* Order is the byte order of lines with their newline. That is the order of `LC_ALL=C sort`, save where one whole line
  is the beginning of another that goes on with a byte below `\\n` (NUL to TAB), which no CDXJ writer emits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Protocol

from isal import isal_zlib
from isal.igzip_lib import IsalError

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound

Batch = list[bytes]

BLOCK = 128 << 10  # measured: 64 to 256 KiB are alike, smaller and larger blocks are slower (they leave the cache)
MAX_LINE = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"


class ByteReader(Protocol):
    def read(self, size: int, /) -> bytes | None: ...


@dataclass(slots=True)
class FilterCounts:
    """How many lines a filter kept and removed; complete once its batches are exhausted."""

    kept: int = 0
    removed: int = 0

    @property
    def total(self) -> int:
        return self.kept + self.removed

    @property
    def removed_share(self) -> float:
        return self.removed / self.total if self.total else 0.0


def read_batches(
    source: Path | ByteReader, *, name: str | None = None, block: int | None = None, max_line: int = MAX_LINE
) -> Iterator[Batch]:
    """Yield the lines of a file, or of an open stream called `name` in errors; plain or gzip.

    `block` bytes are read at once, but never more than a line may have: `split_lines` relies on it.
    """
    size = min(block or BLOCK, max_line)
    blocks = file_blocks(source, size=size) if isinstance(source, Path) else stream_blocks(source, size=size)
    label = name or (str(source) if isinstance(source, Path) else "input")
    return split_lines(inflate(blocks, source=label), source=label, max_line=max_line)


def read_lines(source: Path | ByteReader, *, name: str | None = None) -> Iterator[bytes]:
    """Yield the lines one by one: for short inputs."""
    return chain.from_iterable(read_batches(source, name=name))


def in_batches(lines: Iterable[bytes], *, size: int = 512) -> Iterator[Batch]:
    """Group single lines into batches; a missing newline is added."""
    source = iter(lines)
    while batch := list(islice(source, size)):
        yield [line if line.endswith(b"\n") else line + b"\n" for line in batch]


def write_batches(batches: Iterable[Batch], out: BinaryIO) -> int:
    """Write all batches and return the number of lines."""
    count = 0
    for batch in batches:
        rest = memoryview(b"".join(batch))
        while rest:  # an unbuffered file or a pipe may take less than it is given
            rest = rest[out.write(rest) :]
        count += len(batch)
    return count


def stream_blocks(stream: ByteReader, *, size: int = BLOCK) -> Iterator[bytes]:
    while block := stream.read(size):
        yield block


def file_blocks(path: Path, *, start: int = 0, end: int | None = None, size: int = BLOCK) -> Iterator[bytes]:
    """Yield the blocks of a file. A regular file is closed between two blocks: a merge may have more inputs than may be
    open. Opening it again costs less than a hundredth of reading and merging a block.
    """
    with open_input(path) as file:
        first = os.fstat(file.fileno())
        if not stat.S_ISREG(first.st_mode):
            yield from stream_blocks(file, size=size)  # a pipe cannot be opened twice
            return
    while end is None or start < end:
        with open_input(path) as file:
            now = os.fstat(file.fileno())
            if (now.st_dev, now.st_ino) != (first.st_dev, first.st_ino):
                raise Conflict(f"{path} was replaced while it was being read: start again")
            block = os.pread(file.fileno(), size if end is None else min(size, end - start), start)
        if not block:
            return
        yield block
        start += len(block)


def open_input(path: Path) -> BinaryIO:
    try:
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise NotFound(f"no file {path}") from None
    except OSError as error:
        raise Misconfigured(f"cannot read {path}: {error.strerror}") from error


def inflate(blocks: Iterator[bytes], *, source: str, size: int = BLOCK) -> Iterator[bytes]:
    """Decompress gzip members into pieces of at most `size`; pass anything else on as it is."""
    head = next(blocks, b"")
    while len(head) < len(GZIP_MAGIC) and (more := next(blocks, b"")):
        head += more
    data = chain([head] if head else [], blocks)
    return _inflate_members(data, source=source, size=size) if head.startswith(GZIP_MAGIC) else data


def _inflate_members(blocks: Iterable[bytes], *, source: str, size: int) -> Iterator[bytes]:
    inside, inflater, position = False, isal_zlib.decompressobj(31), 0
    for block in blocks:
        position += len(block)
        while block:
            if not inside:
                block = block.lstrip(b"\0")
                if not block:
                    break
                if not block.startswith(GZIP_MAGIC[:1]):
                    message = "data that is not gzip follows a gzip member"
                    raise BadInput(message, reason="bad_gzip", source=source, offset=position)
                inside, inflater = True, isal_zlib.decompressobj(31)
            try:
                piece = inflater.decompress(block, size)
                while piece:
                    yield piece
                    # Output may be buffered in the inflater although all input is consumed.
                    more = len(piece) == size and not inflater.eof
                    piece = inflater.decompress(inflater.unconsumed_tail, size) if more else b""
            except IsalError as error:  # type: ignore[misc]  # its stub says it is an instance
                message = f"broken gzip data: {error}"
                raise BadInput(message, reason="bad_gzip", source=source, offset=position) from None
            inside = not inflater.eof
            block = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
    if inside:
        raise BadInput("the gzip data ends inside a member", reason="truncated", source=source, offset=position)


def split_lines(blocks: Iterable[bytes], *, source: str, max_line: int = MAX_LINE) -> Iterator[Batch]:
    """Split blocks, each no longer than `max_line`, into batches. BytesIO.readlines is four times as fast as split."""
    tail, number = b"", 0
    for block in blocks:
        data = tail + block if tail else block
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        batch = BytesIO(data).readlines()
        tail = b"" if batch[-1].endswith(b"\n") else batch.pop()
        # Blocks are no longer than a line may be, so only the first and the unfinished line can be too long.
        if batch and len(batch[0]) > max_line:
            raise line_too_long_error(source=source, number=number + 1, limit=max_line)
        number += len(batch)
        if len(tail) > max_line:
            raise line_too_long_error(source=source, number=number + 1, limit=max_line)
        if batch:
            yield batch
    if tail:
        yield [tail + b"\n"]


def line_too_long_error(*, source: str, number: int, limit: int) -> BadInput:
    return BadInput(f"a line of more than {limit} bytes", reason="line_too_long", source=f"{source}:{number}")
