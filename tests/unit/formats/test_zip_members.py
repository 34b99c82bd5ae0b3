"""ZIP files, right and wrong; `zipfile` writes the right ones, and has the same opinion of what is in them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from webmill.errors import BadInput
from webmill.formats.compression import zip_members
from webmill.formats.compression.zip_members import ZipMemberFile, open_member, read_directory, read_member

MOST = 64 << 20


def packed(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        file.comment = comment
        for name, data in entries:
            file.writestr(name, data)
    return out.getvalue()


def local(name: bytes, *, size: int, crc: int = 0, extra: bytes = b"") -> bytes:
    fields = (b"PK\3\4", 45, 0, 0, 0, 0, crc, size, size, len(name), len(extra))
    return struct.pack("<4s5H3L2H", *fields) + name + extra


def listed(name: bytes, *, size: int, crc: int = 0, start: int = 0, extra: bytes = b"") -> bytes:
    fields = (b"PK\1\2", 45, 45, 0, 0, 0, 0, crc, size, size, len(name), len(extra), 0, 0, 0, 0, start)
    return struct.pack("<4s6H3L5H2L", *fields) + name + extra


def end(members: int, size: int, start: int) -> bytes:
    return struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, members, members, size, start, 0)


def unpacked(data: bytes) -> dict[str, bytes]:
    file = io.BytesIO(data)
    return {member.name: read_member(file, member, most=MOST) for member in read_directory(file, size=len(data))}


@settings(deadline=None, max_examples=examples(100))
@given(
    st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\0/\\"), min_size=1), st.binary()),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    st.binary(max_size=100),
)
def test_what_zipfile_packs_is_found(entries: dict[str, bytes], method: int, comment: bytes) -> None:
    data = packed(*entries.items(), method=method, comment=comment)
    assert unpacked(data) == entries


def test_a_member_of_many_pieces_is_read_through_small_and_large_reads() -> None:
    body = bytes(range(256)) * 10_000
    data = packed(("a", body), method=zipfile.ZIP_DEFLATED)
    file = io.BytesIO(data)
    (member,) = read_directory(file, size=len(data))
    for size in (7919, 1 << 20):
        reader = open_member(file, member)
        assert b"".join(iter(lambda reader=reader, size=size: reader.read(size), b"")) == body
        assert reader.read(size) == b""


def test_members_written_to_a_pipe_have_their_lengths_behind_them() -> None:
    """As programs do that pack while they download: the directory has the numbers."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            self.data += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as file, file.open("a", "w", force_zip64=True) as entry:
        entry.write(b"words")
    assert unpacked(pipe.data) == {"a": b"words"}


def test_numbers_that_need_64_bits_are_read_from_their_places(tmp_path: Path) -> None:
    """Beyond 4 GiB of nothing, which no disk has to store."""
    most, big, words = 0xFFFFFFFF, 5 << 30, zlib.crc32(b"words")
    first = local(b"big", size=most, extra=struct.pack("<2H2Q", 1, 16, big, big))
    at = len(first) + big
    last = local(b"small", size=5, crc=words) + b"words"
    directory = listed(b"big", size=most, extra=struct.pack("<2H2Q", 1, 16, big, big))
    unknown = struct.pack("<2HL", 0x9999, 4, 7)
    directory += listed(b"small", size=5, crc=words, start=most, extra=unknown + struct.pack("<2HQ", 1, 8, at))
    start = at + len(last)
    ends = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, len(directory), start)
    ends += struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory), 1) + end(2, len(directory), most)
    with (tmp_path / "big.zip").open("w+b") as file:
        file.write(first)
        file.seek(at)
        file.write(last + directory + ends)
        size = file.tell()
        with zipfile.ZipFile(file) as judge:
            assert [(info.file_size, info.header_offset) for info in judge.infolist()] == [(big, 0), (5, at)]
        members = read_directory(file, size=size)
        assert [(member.name, member.size, member.start) for member in members] == [("big", big, 0), ("small", 5, at)]
        assert read_member(file, members[1], most=10) == b"words"
        assert open_member(file, members[0]).read(10) == bytes(10)


def test_a_zip_stored_in_a_zip_is_a_file_of_its_own() -> None:
    inner = packed(("a", b"words" * 100))
    data = packed(("first", b"x"), ("inner", inner))
    file = io.BytesIO(data)
    part = ZipMemberFile(file, read_directory(file, size=len(data))[1])
    (member,) = read_directory(part, size=part.size)
    assert read_member(part, member, most=MOST) == b"words" * 100
    squeezed = packed(("inner", inner), method=zipfile.ZIP_DEFLATED)
    with pytest.raises(BadInput, match="unpack it first"):
        ZipMemberFile(io.BytesIO(squeezed), read_directory(io.BytesIO(squeezed), size=len(squeezed))[0])


# --- wrong ones -------------------------------------------------------------------------------------------------------

TWO = packed(("a", b"first" * 20), ("b", b"second" * 20))
SQUEEZED = packed(("a", b"first" * 2000), method=zipfile.ZIP_DEFLATED)
DIRECTORY = TWO.index(b"PK\1\2")


def patched(data: bytes, at: int, form: str, *values: int) -> bytes:
    return data[:at] + struct.pack(form, *values) + data[at + struct.calcsize(form) :]


def entry(data: bytes, number: int) -> int:
    """Where the directory speaks of this member."""
    at = -1
    for _ in range(number + 1):
        at = data.index(b"PK\1\2", at + 1)
    return at


def bomb_of_one_stream() -> bytes:
    """Many members, all of whose data is the same: https://www.bamsoftware.com/hacks/zipbomb/"""
    kernel = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = kernel.compress(bytes(1 << 20)) + kernel.flush()
    header = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, 0, len(data), 1 << 20, 1, 0) + b"a"
    entries = b"".join(
        struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, len(data), 1 << 20, 5, 0, 0, 0, 0, 0, 0)
        + b"%05d" % number
        for number in range(1000)
    )
    start = len(header) + len(data)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1000, 1000, len(entries), start, 0)
    return header + data + entries + end


def behind_the_stream() -> bytes:
    """The end of the member's data is taken for stream, which ends earlier."""
    squeezed = zlib.compress(b"words", wbits=-15)
    data = packed(("a", squeezed + b"more"))
    made = patched(patched(data, 8, "<H", 8), entry(data, 0) + 10, "<H", 8)
    return patched(made, entry(data, 0) + 24, "<L", 5)


WRONG: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "no end record found"),
    "garbage": (lambda: bytes(range(256)) * 500, "no end record found"),
    "cut off": (lambda: TWO[:-1], "no end record found"),
    "nothing but ends": (lambda: b"PK\5\6" * 50_000, "no end record found"),
    "something before it": (lambda: b"#!/bin/sh\n" + TWO, "a directory|fewer members|not where"),
    "something behind it": (lambda: TWO + b"x", "no end record found"),
    "a directory beyond the end": (lambda: patched(TWO, len(TWO) - 6, "<L", 1 << 30), "not where"),
    "a directory of another place": (lambda: patched(TWO, len(TWO) - 6, "<L", 3), "fewer members"),
    "fewer members than are there": (lambda: patched(TWO, len(TWO) - 14, "<2H", 1, 1), "more members"),
    "more members than are there": (lambda: patched(TWO, len(TWO) - 14, "<2H", 9, 9), "fewer members"),
    "a part of several": (lambda: patched(TWO, len(TWO) - 18, "<H", 3), "one part of several"),
    "ten thousand and one": (lambda: packed(*((str(number), b"") for number in range(10_001))), "10001 members"),
    "a name twice": (
        lambda: TWO.replace(b"b", b"a", 1)[:DIRECTORY] + TWO[DIRECTORY:].replace(b"b", b"a"),
        "the same name",
    ),
    "a length that reaches into the next": (lambda: patched(TWO, entry(TWO, 0) + 20, "<2L", 150, 150), "overlaps"),
    "two at one place": (lambda: patched(TWO, entry(TWO, 1) + 42, "<L", 0), "overlaps"),
    "a place beyond the end": (lambda: patched(TWO, entry(TWO, 1) + 42, "<L", 1 << 30), "overlaps"),
    "lengths that differ": (lambda: patched(TWO, entry(TWO, 0) + 24, "<L", 99), "lengths differ"),
    "a bomb that shares": (bomb_of_one_stream, "overlaps"),
    "a bomb that is honest": (lambda: packed(("a", bytes(17 << 20)), method=zipfile.ZIP_DEFLATED), "would unpack to"),
    "a name beyond the directory": (lambda: patched(TWO, entry(TWO, 1) + 28, "<H", 60_000), "middle of a member"),
}
WRONG_MEMBERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "encrypted": (lambda: patched(TWO, entry(TWO, 0) + 8, "<H", 1), "is encrypted"),
    "strange": (lambda: patched(SQUEEZED, entry(SQUEEZED, 0) + 10, "<H", 14), "by method 14"),
    "another name": (lambda: TWO.replace(b"afirst", b"cfirst"), "another name"),
    "another method": (lambda: patched(TWO, 8, "<H", 8), "not where the directory states"),
    "an own header that is none": (lambda: b"xx" + TWO[2:], "not where the directory states"),
    "a long extra field": (lambda: patched(TWO, 28, "<H", 40), "overlaps"),
    "other bytes": (lambda: TWO.replace(b"firstfirst", b"firstFirst"), "CRC-32"),
    "another checksum": (lambda: patched(TWO, entry(TWO, 0) + 16, "<L", 7), "CRC-32"),
    "more than it says": (
        lambda: patched(SQUEEZED, entry(SQUEEZED, 0) + 24, "<L", 100),
        "more than the stated 100 bytes",
    ),
    "less than it says": (lambda: patched(SQUEEZED, entry(SQUEEZED, 0) + 24, "<L", 20_000), "length and CRC-32"),
    "a stream that is cut": (lambda: patched(SQUEEZED, entry(SQUEEZED, 0) + 20, "<L", 20), "ends before its deflate"),
    "a stream that is none": (lambda: SQUEEZED[:31] + b"\xff" * 10 + SQUEEZED[41:], "invalid"),
    "data behind the stream": (behind_the_stream, "ends before its data"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_wrong_is_refused_as_a_whole(name: str) -> None:
    make, printed = WRONG[name]
    with pytest.raises(BadInput, match=printed):
        unpacked(make())


@pytest.mark.parametrize("name", WRONG_MEMBERS)
def test_a_member_that_is_wrong_is_refused(name: str) -> None:
    make, printed = WRONG_MEMBERS[name]
    data = make()
    members = read_directory(io.BytesIO(data), size=len(data))
    with pytest.raises(BadInput, match=printed):
        read_member(io.BytesIO(data), members[0], most=MOST)


def test_a_member_too_large_to_hold_is_refused_before_it_is_read() -> None:
    members = read_directory(io.BytesIO(TWO), size=len(TWO))
    with pytest.raises(BadInput, match="the limit is 10"):
        read_member(io.BytesIO(TWO), members[0], most=10)


def test_a_directory_too_large_to_hold_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.zip").open("w+b") as file:
        file.seek(2 << 30)
        file.write(end(1, 1 << 30, 0))
        with pytest.raises(BadInput, match="unpack the file"):
            read_directory(file, size=file.tell())


@settings(deadline=None, max_examples=examples(200))
@given(st.integers(0, len(SQUEEZED) - 1), st.integers(0, 255), st.sampled_from([TWO, SQUEEZED]))
def test_a_byte_that_is_changed_gives_the_same_members_or_an_error(at: int, value: int, data: bytes) -> None:
    """Never another content under the same name: its checksum is in the directory."""
    right = unpacked(data)
    try:
        found = unpacked(data[:at] + bytes([value]) + data[at + 1 :])
    except BadInput:
        return
    assert sorted(found.values()) == sorted(right.values())


@pytest.mark.parametrize("data", [TWO, SQUEEZED], ids=["stored", "deflate"])
def test_cut_anywhere_it_is_refused(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(BadInput):
            unpacked(data[:end])


def test_the_limits_are_what_the_documentation_says() -> None:
    assert (zip_members.MAX_MEMBERS, zip_members.MAX_RATIO) == (10_000, 100)
