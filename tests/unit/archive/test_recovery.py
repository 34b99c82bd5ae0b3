"""After a writer died: acknowledged records stay where they are, the rest is kept aside with its reason."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.archive.captures import NAME, capture, check_file, folder, names, read_place, sealed, writer
from webmill.archive.recovery import recover
from webmill.collection import Collection
from webmill.errors import Conflict
from webmill.formats.warc.capture import WrittenCapture

LINES = b"not a record\r\n"


def left_open(root: Path, *, count: int = 3, subset: str = "warc") -> tuple[Path, list[WrittenCapture]]:
    """The files of a writer whose process is gone: no lock, no final name."""
    out = writer(root)
    places = [out.append(capture(number, subset=subset)) for number in range(count)]  # type: ignore[arg-type]
    out.sync()
    for file in out._files():
        file.close()  # a dead process holds no lock
    return root / (places[0].capture.filename + ".open"), places


def hashes(root: Path) -> dict[str, str]:
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in root.rglob("*") if file.is_file()}


def test_a_file_left_open_is_sealed_as_it_is_when_it_is_whole(tmp_path: Path) -> None:
    path, places = left_open(tmp_path)
    size = path.stat().st_size
    [repair] = recover(Collection(tmp_path, NAME))
    assert (repair.file, repair.captures, repair.end, repair.cut, repair.saved) == (
        places[0].capture.filename,
        3,
        size,
        0,
        None,
    )
    assert not path.exists()
    assert not (tmp_path / "rejected").exists()
    assert len(check_file(tmp_path / places[0].capture.filename)) == 10
    assert recover(Collection(tmp_path, NAME)) == []


@pytest.mark.parametrize("lost", [1, 8, 100, 300, 600])
def test_a_torn_tail_is_kept_aside_with_its_reason(tmp_path: Path, lost: int) -> None:
    path, places = left_open(tmp_path)
    before = path.read_bytes()
    os.truncate(path, len(before) - lost)
    [repair] = recover(Collection(tmp_path, NAME))
    assert repair.reason in ("truncated_member", "torn_capture")
    assert repair.saved
    kept = tmp_path / repair.saved
    assert before[repair.end : repair.end + repair.cut] == kept.read_bytes()
    reported = json.loads(kept.with_suffix(".json").read_bytes())
    assert (reported["file"], reported["offset"], reported["cut"]) == (
        places[0].capture.filename,
        repair.end,
        repair.cut,
    )
    assert reported["reason"] == repair.reason
    assert (tmp_path / places[0].capture.filename).read_bytes() == before[: repair.end]
    records = check_file(tmp_path / places[0].capture.filename)
    assert (len(records), records[-1].type) == (7, "metadata")
    for place in places[:2]:
        read_place(tmp_path, place)


@pytest.mark.parametrize(
    "tail", [b"\0" * 4096, LINES, b"\r\n", b"\x1f\x8b\x08"], ids=["zeros", "text", "blank", "magic"]
)
def test_what_a_power_cut_leaves_behind_the_last_record_is_cut(tmp_path: Path, tail: bytes) -> None:
    path, places = left_open(tmp_path)
    with path.open("ab") as file:
        file.write(tail)
    [repair] = recover(Collection(tmp_path, NAME))
    assert (repair.cut, repair.captures) == (len(tail), 3)
    assert repair.reason
    assert (tmp_path / str(repair.saved)).read_bytes() == tail
    check_file(tmp_path / places[0].capture.filename)


def test_damage_in_front_of_whole_captures_stays_and_is_told(tmp_path: Path) -> None:
    """They may be acknowledged: their places must not move."""
    path, places = left_open(tmp_path)
    with path.open("r+b") as file:
        file.seek(places[1].capture.offset)
        file.write(b"\0" * places[1].capture.length)
    [repair] = recover(Collection(tmp_path, NAME))
    assert repair.cut == 0
    assert [(flaw.offset, flaw.reason) for flaw in repair.flaws] == [(places[1].capture.offset, "padding")]
    for place in (places[0], places[2]):
        read_place(tmp_path, place)


@pytest.mark.parametrize("size", [0, 5, 400])
def test_a_file_without_a_capture_is_removed_and_its_bytes_kept(tmp_path: Path, size: int) -> None:
    path, _ = left_open(tmp_path, count=1)
    os.truncate(path, size)
    [repair] = recover(Collection(tmp_path, NAME))
    assert (repair.captures, repair.end) == (0, 0)
    assert names(tmp_path) == []
    assert (repair.saved is not None) == (repair.cut > 0)


def test_the_file_of_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    with writer(tmp_path) as out:
        place = out.append(capture())
        assert recover(Collection(tmp_path, NAME)) == []
        out.sync()
    read_place(tmp_path, place)


def test_recovery_may_be_told_which_segment_and_stem(tmp_path: Path) -> None:
    collection = Collection(tmp_path, NAME)
    left_open(tmp_path)
    assert recover(collection, stem="b") == []
    assert recover(collection, segment="2") == []
    assert len(recover(collection, segment="1", stem="a")) == 1


def test_two_tails_of_one_name_are_both_kept(tmp_path: Path) -> None:
    """The name of a file that held nothing may come again."""
    for tail in (b"one", b"two"):
        path = folder(tmp_path) / f"{NAME}-20240712094214-a-00000.warc.gz.open"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tail)
        recover(Collection(tmp_path, NAME))
    kept = sorted(file.read_bytes() for file in (tmp_path / "rejected" / "archive").glob("*.torn"))
    assert kept == [b"one", b"two"]


def test_a_finished_file_is_never_replaced(tmp_path: Path) -> None:
    path, places = left_open(tmp_path)
    (tmp_path / places[0].capture.filename).write_bytes(b"put there by hand")
    with pytest.raises(Conflict, match="exists beside"):
        recover(Collection(tmp_path, NAME))
    assert (tmp_path / places[0].capture.filename).read_bytes() == b"put there by hand"
    assert path.exists()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def fill(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0" * 10)


@pytest.mark.parametrize("harm", [cut, fill])
def test_recovered_twice_nothing_changes(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path, _ = left_open(tmp_path)
    harm(path)
    collection = Collection(tmp_path, NAME)
    recover(collection)
    before = hashes(tmp_path)
    assert recover(collection) == []
    assert hashes(tmp_path) == before
    assert len(list(sealed(tmp_path))) == 1
