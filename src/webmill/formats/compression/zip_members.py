"""Read untrusted ZIP files (APPNOTE 6.3.10, with ZIP64): their directory, and one member at a time.

    [header, name, extra, data] [header, name, extra, data] …  directory  [ZIP64: end, locator]  end, comment

`zipfile` of the standard library is for trusted files: it reads a directory of any length into memory, lets members
share bytes (gigabytes in a few kilobytes), and raises a dozen kinds of exceptions. Here every fault is `BadInput`, and
memory does not depend on what the file states. Names are never used as paths: nothing is unpacked by name.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

import msgspec

from webmill.errors import BadInput

MAGIC = b"PK\x03\x04"
EMPTY = b"PK\x05\x06"  # an archive without members is only its end record
MAX_MEMBERS = 10_000
MAX_DIRECTORY = 16 << 20
MAX_INFLATED, MAX_RATIO = 16 << 20, 100  # of all members together: bytes, or a multiple of the size of the file
INPUT = 1 << 18

STORED, DEFLATED = 0, 8
_IS_ENCRYPTED = 0x2041  # weakly, strongly, or with a masked directory

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_HEADER = struct.Struct("<4s5H3L2H")
_MOST_16, _MOST_32 = 0xFFFF, 0xFFFFFFFF  # then the number is in the ZIP64 record
_COMMENT_MOST = 0xFFFF


class SeekableFile(Protocol):
    """A file that can be read at any offset."""

    def seek(self, offset: int, /) -> int: ...

    def read(self, size: int, /) -> bytes: ...


class ZipMember(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a ZIP file. `start` is the offset of its header, `limit` of what comes after it."""

    raw_name: bytes
    flags: int
    method: int
    crc: int
    stored: int
    size: int
    start: int
    limit: int

    @property
    def name(self) -> str:
        """The name to display and compare; never use it as a path."""
        return self.raw_name.decode("utf-8", "backslashreplace")

    @property
    def label(self) -> str:
        return repr(self.name[:80])


class _ZipDirectory(msgspec.Struct, frozen=True):
    members: int
    size: int
    start: int
    end: int  # where something else begins


def read_directory(file: SeekableFile, *, size: int) -> list[ZipMember]:
    """Return all members in the order of the file, checked not to share bytes. `size` is that of the file."""
    where = _find_directory(file, size)
    data = read_at(file, where.start, where.size)
    members = sorted(_entries(data, where), key=lambda member: member.start)
    if len({member.name for member in members}) < len(members):
        raise _bad("two members have the same name")
    ends = [*(member.start for member in members), where.start][1:]
    members = [msgspec.structs.replace(member, limit=end) for member, end in zip(members, ends, strict=True)]
    for member in members:
        if member.start + _HEADER.size + len(member.raw_name) + member.stored > member.limit:
            raise _bad(f"{member.label} overlaps what follows it", reason="overlap")
    total = sum(member.size for member in members)
    if total > max(MAX_INFLATED, MAX_RATIO * size):
        raise _bad(f"{size} bytes would unpack to {total}; unpack it yourself if you trust it", reason="bomb")
    return members


def open_member(file: SeekableFile, member: ZipMember) -> ZipMemberReader:
    """Open a member for reading. Raise BadInput if it is encrypted or compressed by an unknown method."""
    if member.flags & _IS_ENCRYPTED:
        raise _bad(f"{member.label} is encrypted; decrypt it first", reason="encrypted")
    if member.method not in (STORED, DEFLATED):
        message = f"{member.label} is compressed by method {member.method}; only stored and deflate are supported"
        raise _bad(message, reason="unknown_method")
    return ZipMemberReader(file, member, start=_data_of(file, member))


def read_member(file: SeekableFile, member: ZipMember, *, most: int) -> bytes:
    """Return the content of a small member."""
    if member.size > most:
        raise _bad(f"{member.label} has {member.size} bytes; the limit is {most}", reason="too_large")
    reader = open_member(file, member)
    return b"".join(iter(lambda: reader.read(INPUT), b""))


class ZipMemberReader:
    """Reads a member, and checks length and CRC-32 at its end. Others may read from the same file in between."""

    def __init__(self, file: SeekableFile, member: ZipMember, *, start: int) -> None:
        self.member = member
        self._pieces = _pieces(file, start, start + member.stored)
        if member.method == DEFLATED:
            self._pieces = _inflate(self._pieces, member)
        self._rest = memoryview(b"")
        self._left, self._crc = member.size, 0

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, and none only at the end."""
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
            self._check()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)

    def _check(self) -> None:
        self._left -= len(self._rest)
        self._crc = zlib.crc32(self._rest, self._crc)
        if not self._rest and (self._left or self._crc != self.member.crc):
            raise _bad(f"{self.member.label} does not have the length and CRC-32 that the directory states")


class ZipMemberFile:
    """A stored member as a file: an archive inside an archive."""

    def __init__(self, file: SeekableFile, member: ZipMember) -> None:
        if member.method != STORED or member.flags & _IS_ENCRYPTED:
            raise _bad(f"{member.label} is compressed or encrypted; unpack it first", reason="unknown_method")
        self._file, self._start, self.size = file, _data_of(file, member), member.size
        self._at = 0

    def seek(self, offset: int, /) -> int:
        self._at = offset
        return offset

    def read(self, size: int, /) -> bytes:
        self._file.seek(self._start + self._at)
        data = self._file.read(max(0, min(size, self.size - self._at)))
        self._at += len(data)
        return data


def read_at(file: SeekableFile, start: int, size: int) -> bytes:
    """Return exactly `size` bytes, which the caller has limited."""
    file.seek(start)
    pieces: list[bytes] = []
    while size and (piece := file.read(size)):
        pieces.append(piece)
        size -= len(piece)
    if size:
        raise _bad("the file ends too early; it is truncated, or was changed while it was read")
    return b"".join(pieces)


# --- the directory ----------------------------------------------------------------------------------------------------


def _find_directory(file: SeekableFile, size: int) -> _ZipDirectory:
    tail_size = min(size, _LOCATOR.size + _END.size + _COMMENT_MOST)
    tail = read_at(file, size - tail_size, tail_size)
    at = len(tail)
    while (at := tail.rfind(EMPTY, 0, at)) >= 0:
        # Only one that is followed by exactly its comment: these four bytes are common in data.
        if at + _END.size <= len(tail) and at + _END.size + _END.unpack_from(tail, at)[-1] == len(tail):
            break
    else:
        raise _bad("no end record found; the file is truncated, or not a ZIP file")
    _, disk, disk_of_directory, here, members, length, start, _ = _END.unpack_from(tail, at)
    end = size - tail_size + at
    found = _ZipDirectory(members, length, start, end)
    if at >= _LOCATOR.size and tail.startswith(b"PK\x06\x07", at - _LOCATOR.size):
        found, here = _find_directory64(file, tail[at - _LOCATOR.size : at], found)
    if disk not in (0, _MOST_16) or disk_of_directory not in (0, _MOST_16) or here != found.members:
        raise _bad("the file is one part of several; join them first")
    if found.members > MAX_MEMBERS or found.size > MAX_DIRECTORY:
        message = f"{found.members} members in a directory of {found.size} bytes; the limit is {MAX_MEMBERS}"
        raise _bad(f"{message}; unpack the file, and add what is in it", reason="too_large")
    if found.start + found.size > found.end:
        raise _bad("the directory is not where the file states; the file is truncated, or has bytes before it")
    return found


def _find_directory64(file: SeekableFile, locator: bytes, classic: _ZipDirectory) -> tuple[_ZipDirectory, int]:
    """Return the directory by the ZIP64 record; numbers that the classic end record also has must be equal."""
    _, _, at, _ = _LOCATOR.unpack(locator)
    if at + _END64.size > classic.end:
        raise _bad("the ZIP64 end record is not where the file states")
    sign, *_, here, members, length, start = _END64.unpack(read_at(file, at, _END64.size))
    if sign != b"PK\x06\x06":
        raise _bad("the ZIP64 end record is not where the file states")
    for wide, narrow, most in (
        (members, classic.members, _MOST_16),
        (length, classic.size, _MOST_32),
        (start, classic.start, _MOST_32),
    ):
        if narrow not in (wide, most):
            raise _bad("its two ends contradict each other")
    return _ZipDirectory(members, length, start, at), here


def _entries(data: bytes, where: _ZipDirectory) -> Iterator[ZipMember]:
    at = 0
    for _ in range(where.members):
        if not data.startswith(b"PK\x01\x02", at) or at + _ENTRY.size > len(data):
            raise _bad("the directory has fewer members than the file says")
        fields = _ENTRY.unpack_from(data, at)
        _, _, _, flags, method, _, _, crc, stored, size, named, extra, comment, _, _, _, start = fields
        at += _ENTRY.size
        name, extras = data[at : at + named], data[at + named : at + named + extra]
        at += named + extra + comment
        if at > len(data):
            raise _bad("the directory ends in the middle of a member")
        size, stored, start = _widened(extras, size, stored, start)
        if method == STORED and stored != size:
            raise _bad(f"{name[:80]!r} is stored uncompressed, but its two lengths differ")
        yield ZipMember(
            raw_name=name, flags=flags, method=method, crc=crc, stored=stored, size=size, start=start, limit=0
        )
    if at != len(data):
        raise _bad("the directory has more members than the file states")


def _widened(extras: bytes, *numbers: int) -> list[int]:
    """Return the numbers, those that did not fit replaced by the values of the ZIP64 extra field, in order."""
    wide = iter(())
    at = 0
    while at + 4 <= len(extras):
        kind, length = struct.unpack_from("<2H", extras, at)
        if kind == 1:
            value = extras[at + 4 : at + 4 + length]
            wide = (number for (number,) in struct.iter_unpack("<Q", value[: len(value) // 8 * 8]))
            break
        at += 4 + length
    return [next(wide, number) if number == _MOST_32 else number for number in numbers]


# --- a member ---------------------------------------------------------------------------------------------------------


def _data_of(file: SeekableFile, member: ZipMember) -> int:
    """Return the offset of the data, after checking that the header of the member agrees with the directory."""
    sign, _, flags, method, *_, named, extra = _HEADER.unpack(read_at(file, member.start, _HEADER.size))
    start: int = member.start + _HEADER.size + named + extra
    if sign != MAGIC or method != member.method or (flags ^ member.flags) & _IS_ENCRYPTED:
        raise _bad(f"{member.label} is not where the directory states")
    if named != len(member.raw_name) or read_at(file, member.start + _HEADER.size, named) != member.raw_name:
        raise _bad(f"{member.label} has another name in its own header")
    if start + member.stored > member.limit:
        raise _bad(f"{member.label} overlaps what follows it", reason="overlap")
    return start


def _pieces(file: SeekableFile, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        piece = read_at(file, start, min(INPUT, end - start))
        yield piece
        start += len(piece)


def _inflate(pieces: Iterator[bytes], member: ZipMember) -> Iterator[bytes]:
    """Yield the inflated data in small pieces, at most as much as the member states."""
    decompressor, made = zlib.decompressobj(-zlib.MAX_WBITS), 0
    for piece in chain(pieces, (b"",)):  # empty: then the decompressor returns what it still holds
        if decompressor.unused_data or (decompressor.eof and piece):
            raise _bad(f"{member.label}: its deflate stream ends before its data does")
        rest = piece
        while not decompressor.eof:
            try:
                out = decompressor.decompress(rest, INPUT)
            except zlib.error as error:
                raise _bad(f"{member.label}: {error}") from None
            rest = decompressor.unconsumed_tail
            made += len(out)
            if made > member.size:
                raise _bad(f"{member.label} has more than the stated {member.size} bytes", reason="bomb")
            if out:
                yield out
            elif not rest:
                break
    if not decompressor.eof:
        raise _bad(f"{member.label}: its data ends before its deflate stream does")


def _bad(message: str, *, reason: str = "bad_zip") -> BadInput:
    return BadInput(message, reason=reason)
