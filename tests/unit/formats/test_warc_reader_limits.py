"""Hostile sizes, read in a child process that may not have more memory than the reader promises to need."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import deflate
import pytest

from tests.unit.formats.framed import gz, record

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS and RLIMIT_CPU are kept by Linux only")

# Two copies of the largest block (64 MiB), and Python itself.
MEMORY = 256 << 20
TOO_LITTLE = 120 << 20
CHILD = """
import resource, sys
from webmill.formats.warc.reader import read_records
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, ({cpu}, {cpu}))
class Stream:
    def __init__(self, file): self.read = file.read
with open(sys.argv[1], "rb") as file:
    source = file if sys.argv[2] == "file" else Stream(file)
    for item in read_records(source):
        if hasattr(item, "reason"):
            print("damage", item.offset, item.end, item.reason)
        else:
            print("record", item.offset, item.length, len(item.content), item.cut)
"""


def read_in_child(path: Path, *, source: str = "file", memory: int = MEMORY, cpu: int = 60) -> list[str]:
    code = CHILD.format(memory=memory, cpu=cpu)
    done = subprocess.run([sys.executable, "-c", code, str(path), source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def append(path: Path, data: bytes) -> int:
    """How long the file is then."""
    with path.open("ab") as file:
        file.write(data)
    return path.stat().st_size


def bomb(head: bytes, mebibytes: int) -> bytes:
    """A member of `head`, that many MiB of zeros, and two empty lines; the zeros are compressed once, not each time."""
    compressor = zlib.compressobj(9, wbits=-15)
    flush = zlib.Z_FULL_FLUSH
    start = compressor.compress(head) + compressor.flush(flush)
    zeros = compressor.compress(bytes(1 << 20)) + compressor.flush(flush)
    end = compressor.compress(b"\r\n\r\n") + compressor.flush()
    crc = zlib.crc32(head)
    for _ in range(mebibytes):
        crc = deflate.crc32(bytes(1 << 20), crc)
    trailer = zlib.crc32(b"\r\n\r\n", crc), len(head) + (mebibytes << 20) + 4
    wrapped = b"\x1f\x8b\x08" + bytes(7) + start + zeros * mebibytes + end
    return wrapped + b"".join(number.to_bytes(4, "little") for number in trailer)


def head_of(length: int) -> bytes:
    return record(1, b"", length=length)[:-4]


AFTER = record(2, b"after")


def test_a_block_of_500_mib_in_a_member_of_500_kib_is_cut_and_proven(tmp_path: Path) -> None:
    path = tmp_path / "bomb.warc.gz"
    end = append(path, bomb(head_of(500 << 20), 500))
    assert end < 600_000
    after = append(path, gz(AFTER))
    assert read_in_child(path) == [f"record 0 {end} {64 << 20} True", f"record {end} {after - end} 5 False"]


def test_the_limit_on_the_child_does_bite(tmp_path: Path) -> None:
    """The control: with room for less than one block the same file is too much."""
    path = tmp_path / "bomb.warc.gz"
    append(path, bomb(head_of(70 << 20), 70))
    with pytest.raises(AssertionError, match="MemoryError"):
        read_in_child(path, memory=TOO_LITTLE)


def test_a_bomb_that_is_no_record_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    end = append(path, bomb(b"<html>", 500))
    after = append(path, gz(AFTER))
    assert read_in_child(path) == [f"damage 0 {end} not_warc", f"record {end} {after - end} 5 False"]


def test_a_torn_bomb_gives_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bomb.warc.gz"
    size = append(path, bomb(head_of(200 << 20), 200)[:-3])
    assert read_in_child(path) == [f"damage 0 {size} truncated_member"]


@pytest.mark.parametrize("source", ["file", "stream"])
def test_a_length_of_a_petabyte_allocates_nothing(tmp_path: Path, source: str) -> None:
    path = tmp_path / "huge.warc"
    with path.open("wb") as file:
        file.write(head_of(10**15))
        file.writelines([bytes(1 << 20)] * 200 + [b"\n"])
        start = file.tell()
        file.write(AFTER)
    assert read_in_child(path, source=source) == [
        f"damage 0 {start} bad_length",
        f"record {start} {len(AFTER)} 5 False",
    ]


def test_a_petabyte_claimed_inside_a_member_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "huge.warc.gz"
    end = append(path, gz(record(1, b"x" * 1000, length=10**15)))
    append(path, gz(AFTER))
    assert read_in_child(path)[0] == f"damage 0 {end} truncated_record"
    assert len(read_in_child(path)) == 2


@pytest.mark.parametrize("extra", [b"X: " + b"a" * (5 << 20) + b"\r\n", b"X: y\r\n" * 1_000_000], ids=["line", "lines"])
@pytest.mark.parametrize("pack", [bytes, gz], ids=["plain", "gzip"])
def test_an_endless_header_is_too_large(tmp_path: Path, extra: bytes, pack: type) -> None:
    path = tmp_path / "header.warc"
    bad = pack(record(1, b"", extra=extra))
    path.write_bytes(bad + pack(AFTER))
    damage, after = read_in_child(path)
    assert damage == f"damage 0 {len(bad)} too_large"
    assert after.startswith(f"record {len(bad)} ")


# Stored blocks of 65,535 bytes that always end where another begins: each start inflates to the end of the file.
CHAIN = b"\x1f\x8b\x08" + bytes(7) + b"\x00\xff\xff\x00\x00" + b"WARC/1.0\r\n".ljust(43, b"x")


@pytest.mark.parametrize(
    ("start", "reason", "size"),
    [
        (b"WARC/1.0\r\nA: b\r\n", "bad_header", 1 << 20),
        (b"WARC/1.0\r\nContent-Length: 99999999999\r\n\r\n", "bad_length", 1 << 20),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00", "bad_gzip", 1 << 20),
        (CHAIN, "truncated_member", 8 << 20),
        (b"\x28\xb5\x2f\xfd\x00\x58\x01\x00", "bad_zstd", 1 << 18),
    ],
    ids=["headers", "lengths", "members", "chain", "frames"],
)
def test_false_starts_do_not_make_the_reader_go_over_the_file_again(
    tmp_path: Path, start: bytes, reason: str, size: int
) -> None:
    """Each looks like a record or a member, and fails. The child has seconds; going over the file each time takes
    minutes."""
    path = tmp_path / "false"
    path.write_bytes(start * (size // len(start)))
    lines = read_in_child(path, cpu=20)
    assert {line.split()[0] for line in lines} == {"damage"}
    assert lines[0].split()[3] == reason
