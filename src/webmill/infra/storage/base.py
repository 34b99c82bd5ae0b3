"""Bytes under keys: what every storage promises, and `tests/contracts/test_storage.py` checks for each backend.

Keys. Relative, `/` between segments, checked by `check_key` before a backend sees them. A key is never the folder of
another (`a` and `a/b`): a disk cannot hold both.

Values. Whole or absent: no reader ever sees part of a write. A value has an etag; another value under the same key,
even one of the same bytes, may have another etag, and an etag never comes back with other bytes.

Errors. `NotFound`, `Conflict` (a condition failed), `BadInput` (`bad_key`, `bad_path`, `bad_range`, `too_large`),
`Unavailable` (may pass; a write that ends so may or may not have happened), `Misconfigured` (access refused, a store
that cannot keep its promises).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from msgspec import Struct

from webmill.errors import BadInput
from webmill.infra.files import RESERVED, os_errors

READ_LIMIT = 256 << 20  # bytes that `read` returns at most
CHUNK = 1 << 20


class Stat(Struct, frozen=True, kw_only=True):
    key: str
    size: int
    etag: str  # opaque; empty when an HTTP server gives none
    modified: datetime | None = None  # in UTC, as the store saw it; None where it did not say


class StorageOptions(Struct, frozen=True, kw_only=True):
    """What an address does not say: our contact, sent to servers, and their seconds for one answer; and the endings of
    names that may be links, in a folder of this machine."""

    contact: str = ""
    timeout: float = 60.0
    links: tuple[str, ...] = ()


class Absent(Struct, frozen=True):
    """Write only when nothing is there."""


class Matches(Struct, frozen=True):
    """Write only when the value there has this etag."""

    etag: str


Condition: TypeAlias = Absent | Matches
Data: TypeAlias = bytes | Path | BinaryIO


class Readable(Protocol):
    """The reading half, which HTTP has too."""

    def stat(self, key: str) -> Stat:
        """Return size and etag of a value, or raise `NotFound`. Every call, of anyone, sees what `write` returned."""
        ...

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        """Return exactly these bytes of one value, or raise an error.

        A range that does not lie within the value is `bad_range`, never a shorter answer; `start` may be its end when
        nothing more is asked. `etag`: `Conflict` when the value is another by now. More than `READ_LIMIT` bytes
        are `too_large`: use `open`.
        """
        ...

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        """Return a stream of what `read` would return, in bounded memory; the caller closes it.

        All bytes are of one value, even if it is replaced meanwhile: a backend that cannot go on with the old one
        raises `Conflict`. The stream ends after the last byte asked for; an end before it is `Unavailable`.
        """
        ...


class Storage(Readable, Protocol):
    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        """Store a value, durably on return. `Conflict` when the condition fails; then nothing is changed.

        Of many writers with the same condition exactly one succeeds, between threads, processes and (S3) machines.
        What is there when `Absent` fails is durable too: to store once, write so and take the `Conflict` as done.
        A file object is read from where it stands to its end. Conditions are for small values: a backend may
        refuse `too_large`.
        """
        ...

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        """Yield every key that begins with `prefix` and sorts behind `start_after`, in the byte order of UTF-8.

        A key written or deleted meanwhile may be there or not; all others are there once. Takes memory for one folder.
        """
        ...

    def delete(self, key: str) -> None:
        """Delete a value, durably on return; no error when there is none."""
        ...


def check_key(key: str) -> str:
    """Return the key. BadInput when some backend would read it as another key, or as a way out of its root."""
    if not key:
        raise BadInput("an empty key", reason="bad_key")
    if len(key) > 1024 or len(key.encode(errors="surrogatepass")) > 1024:  # the limit of S3
        raise BadInput(f"a key of more than 1024 bytes: {key[:80]!r}…", reason="bad_key")
    for segment in key.split("/"):
        problem = _problem(segment)
        if problem:
            raise BadInput(f"{problem}: {key!r}", reason="bad_key")
    return key


def _problem(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return "an empty, '.' or '..' segment"
    if segment.startswith(RESERVED):
        return "a name reserved for temporary files"
    if not segment.isprintable() or "\\" in segment:  # no control characters, line ends, lone surrogates
        return "a backslash or an unprintable character"
    if len(segment.encode()) > 255:  # the limit of file systems
        return "a segment of more than 255 bytes"
    return None


def check_prefix(prefix: str) -> tuple[str, str]:
    """Return the folder of a prefix and the beginning of a name in it: `a/b/c` is (`a/b`, `c`)."""
    folder, slash, name = prefix.rpartition("/")
    if slash:
        check_key(folder)
    if not name.isprintable() or "\\" in name:
        raise BadInput(f"a backslash or an unprintable character: {prefix!r}", reason="bad_key")
    return folder, name


def check_range(start: int, length: int | None) -> None:
    if not 0 <= start < 1 << 62 or not 0 <= (length or 0) < 1 << 62:  # beyond that, other languages overflow
        raise BadInput(f"start {start}, length {length}", reason="bad_range")


def end_of_range(start: int, length: int | None, *, stat: Stat) -> int:
    """Return where the range ends in a value of this size; BadInput when it is not within."""
    check_range(start, length)
    end = stat.size if length is None else start + length
    if start > stat.size or end > stat.size:
        message = f"bytes {start} to {end} of a value of {stat.size}"
        raise BadInput(message, reason="bad_range", source=stat.key, offset=start)
    return end


def check_read(key: str, length: int) -> None:
    if length > READ_LIMIT:
        message = f"{length} bytes are too many to read into memory ({READ_LIMIT} at most): open it as a stream"
        raise BadInput(message, reason="too_large", source=key)


class RawStream(io.RawIOBase):
    """The raw half of what `open` returns: a subclass gives the next bytes, at most as many as asked for."""

    def _next(self, most: int) -> bytes:
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # any buffer; no name for that before 3.12
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._next(CHUNK), b""))


def buffer_stream(raw: RawStream) -> BinaryIO:
    return io.BufferedReader(raw, CHUNK)


def open_data(data: Data) -> AbstractContextManager[BinaryIO]:
    """Return the data as a stream. One that the caller passed stays open."""
    if isinstance(data, Path):
        with os_errors(str(data)):
            return data.open("rb")
    return io.BytesIO(data) if isinstance(data, bytes) else nullcontext(data)


def chunks_of(source: BinaryIO, size: int = CHUNK, *, most: int | None = None) -> Iterator[bytes]:
    """Yield chunks of exactly this size but for the last, however little a socket or pipe gives at a time."""
    left = most
    while data := _read_up_to(source, size if left is None else min(size, left)):
        left = left if left is None else left - len(data)
        yield data


def _read_up_to(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if not data or len(data) == size:
        return data
    parts = [data]
    while (size := size - len(data)) and (data := source.read(size)):
        parts.append(data)
    return b"".join(parts)
