"""`webmill index` inflates the heads of large records alone, and sees it all the same when bytes have changed."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.pipeline.index_samples import NAME, at_rest, index, lines_of, put, rejects
from tests.unit.cli.command import webmill
from webmill.formats.compression.member_checksum import CHECKSUMMED, add_checksum
from webmill.formats.warc.writer import encode_record
from webmill.index.state import FILE_NAME, IndexState
from webmill.model import Headers

HEX = random.Random(3).randbytes(3000).hex().encode()


def foreign(number: int) -> bytes:
    """A large record as others write it. It is stored as it is, so that a flipped bit is another letter."""
    content = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + HEX
    fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", f"<urn:uuid:{number:08}>"),
        ("WARC-Date", "2024-07-12T10:00:03Z"),
        ("WARC-Target-URI", f"http://site.example/{number}"),
        ("WARC-Payload-Digest", "sha1:NEVERRIGHT"),
        ("Content-Length", str(len(content))),
    ]
    return gzip.compress(encode_record(Headers(fields), content), 0, mtime=0)


FOREIGN = [foreign(number) for number in range(3)]
BEGIN, END = len(FOREIGN[0]), len(FOREIGN[0]) + len(FOREIGN[1])  # of the second record


def change_type(data: bytes, *, begin: int = BEGIN) -> bytes:
    """Flip a bit in the type of the second record, or of that at `begin`."""
    at = data.index(b"text/html", begin)
    return data[:at] + b"u" + data[at + 1 :]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "c").mkdir()
    return tmp_path / "c"


def mimes(root: Path) -> list[bytes]:
    return sorted({line.partition(b'"mime": "')[2].partition(b'"')[0] for line in lines_of(root)})


def test_a_bit_that_flipped_in_somebody_elses_archive_since_it_was_indexed_is_named(root: Path) -> None:
    file = put(root, "a.warc.gz", b"".join(FOREIGN))
    index(root, clock=at_rest)
    assert (mimes(root), rejects(root)) == ([b"text/html"], [])
    put(root, "a.warc.gz", change_type(file.read_bytes()))
    index(root, clock=at_rest)
    (reject,) = rejects(root)
    assert (reject["file"], reject["reason"], reject["offset"], reject["end"]) == ("a.warc.gz", "bad_crc", BEGIN, END)
    ended = webmill("index", root, "--name", NAME, "--from-scratch")
    assert ended.code == 3, "a run from scratch knows the bytes, too"
    put(root, "a.warc.gz", b"".join(FOREIGN))
    index(root, clock=at_rest)
    assert (mimes(root), rejects(root)) == ([b"text/html"], []), "restored from a copy it is as before"


def test_what_was_damaged_before_it_was_first_seen_is_not_named(root: Path) -> None:
    """The bound that the documentation states; `webmill warc check` and `doctor --read-data` name it."""
    put(root, "a.warc.gz", change_type(b"".join(FOREIGN)))
    index(root, clock=at_rest)
    assert (mimes(root), rejects(root)) == ([b"text/html", b"uext/html"], [])
    assert webmill("warc", "check", root / "a.warc.gz").code == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + foreign(9),  # it was being written
        lambda _: b"".join(map(foreign, range(20, 25))),  # another one of the same name
        lambda _: foreign(30),  # a shorter one
    ],
    ids=["grown", "replaced", "shorter"],
)
def test_an_archive_that_was_changed_and_is_whole_is_taken_as_it_is(
    root: Path, change: Callable[[bytes], bytes]
) -> None:
    file = put(root, "a.warc.gz", b"".join(FOREIGN))
    index(root, clock=at_rest)
    put(root, "a.warc.gz", change(file.read_bytes()))
    index(root, clock=at_rest)
    assert rejects(root) == []
    put(root, "a.warc.gz", change_type(file.read_bytes(), begin=0))
    index(root, clock=at_rest)
    assert [reject["reason"] for reject in rejects(root)] == ["bad_crc"], "its bytes were remembered anew"


def test_an_archive_of_a_segment_that_was_cut_between_two_records_is_named(root: Path) -> None:
    path = f"crawl-data/{NAME}/segments/1/warc/a.warc.gz"
    put(root, path, b"".join(FOREIGN))
    index(root, clock=at_rest)
    put(root, path, b"".join(FOREIGN[:2]))
    index(root, clock=at_rest)
    (reject,) = rejects(root)
    assert (reject["file"], reject["reason"], reject["offset"]) == (path, "cut", END)
    assert len(lines_of(root)) == 2
    put(root, path, b"".join(FOREIGN))
    index(root, clock=at_rest)
    assert rejects(root) == []


def test_a_member_with_a_checksum_is_named_at_first_sight_and_has_no_line(root: Path) -> None:
    members = list(map(add_checksum, FOREIGN))
    assert len(members[1]) > CHECKSUMMED
    data = b"".join(members)
    put(root, "a.warc.gz", change_type(data))
    index(root, clock=at_rest)
    (reject,) = rejects(root)
    assert (reject["reason"], reject["offset"]) == ("bad_crc", len(members[0]))
    assert [line.rpartition(b"site.example/")[2][:1] for line in lines_of(root)] == [b"0", b"2"]


def test_what_is_added_is_known_before_it_is_indexed(root: Path, tmp_path: Path) -> None:
    source = put(tmp_path, "stranger.warc.gz", b"".join(FOREIGN))
    assert webmill("add", root, source, "--name", NAME).code == 3, "its digests are wrong"
    (added,) = root.rglob("stranger.warc.gz")
    added.write_bytes(change_type(added.read_bytes()))
    index(root, clock=at_rest)
    assert [reject["reason"] for reject in rejects(root)] == ["bad_crc"]


def test_a_state_of_before_gets_its_checksums_when_archives_are_indexed_again(root: Path) -> None:
    file = put(root, "a.warc.gz", b"".join(FOREIGN))
    index(root, clock=at_rest)
    with closing(IndexState(root / "cdxj" / FILE_NAME)) as state, state._database.write() as run:
        run("DROP TABLE checksum")
        run(f"PRAGMA user_version = {int(run('PRAGMA user_version')[0][0] or 0) - 1}")
    index(root, clock=at_rest)
    with closing(IndexState(root / "cdxj" / FILE_NAME)) as state:
        assert state.checksums() == {}, "it is not read again for that"
    put(root, "a.warc.gz", file.read_bytes() + foreign(9))
    index(root, clock=at_rest)
    with closing(IndexState(root / "cdxj" / FILE_NAME)) as state:
        assert list(state.checksums()) == ["a.warc.gz"]
    assert rejects(root) == []
