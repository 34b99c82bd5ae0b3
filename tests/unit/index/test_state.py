"""What is remembered of archives, and when it is believed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from webmill.errors import Misconfigured
from webmill.index.state import (
    FINE_SETTLED_NS,
    SETTLED_NS,
    CdxjStat,
    IndexedWarc,
    IndexState,
    PublishedIndex,
    inspect_file,
    is_current,
    is_settled,
    open_state,
)
from webmill.model import Damage


def known_of(warc: Path, cdxj: Path) -> IndexedWarc:
    return IndexedWarc(
        looks=inspect_file(warc),
        settled=True,
        options="o",
        cdxj=cdxj.name,
        cdxj_looks=CdxjStat.of(cdxj),
        cdxj_digest="d",
        captures=3,
        flaws=(Damage(1, 2, "reason", "message"),),
    )


@pytest.fixture
def warc(tmp_path: Path) -> Path:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(b"w" * 300_000)
    return path


@pytest.fixture
def cdxj(tmp_path: Path) -> Path:
    path = tmp_path / "a.cdxj"
    path.write_bytes(b"line\n")
    return path


def test_what_is_recorded_is_known_after_a_restart(tmp_path: Path, warc: Path, cdxj: Path) -> None:
    known = known_of(warc, cdxj)
    made = PublishedIndex(
        inputs="i", tools="t", outputs="o", shards=2, blocked=1, excessive=0, refused={"part": {"bad_url": 1}}
    )
    with closing(IndexState(tmp_path / "s")) as state:
        state.record("ä.warc.gz", known)
        state.record("b.warc.gz", known)
        state.forget(["b.warc.gz", "never.warc.gz"])
        state.set_published("NAME", made)
        state.set_published("OTHER", made)
        state.withdraw("OTHER")
    with closing(IndexState(tmp_path / "s")) as state:
        assert state.known() == {"ä.warc.gz": known}
        assert (state.published("NAME"), state.published("OTHER")) == (made, None)


def rewrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(150_000)  # neither the first nor the last bytes
        file.write(b"x")


def rewrite_and_restore_times(path: Path) -> None:
    before = path.stat()
    rewrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_file(path: Path) -> None:
    before, content = path.stat(), path.read_bytes()
    path.with_name("new").write_bytes(content)
    os.utime(path.with_name("new"), ns=(before.st_atime_ns, before.st_mtime_ns))
    path.with_name("new").replace(path)


CHANGES: list[Callable[[Path], None]] = [
    rewrite,
    rewrite_and_restore_times,
    replace_file,
    lambda path: os.utime(path, ns=(0, 0)),
    lambda path: path.write_bytes(path.read_bytes() + b"more"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_an_archive_ends_the_trust(
    tmp_path: Path, warc: Path, cdxj: Path, change: Callable[[Path], None]
) -> None:
    known = known_of(warc, cdxj)
    assert is_current(known, inspect_file(warc), options="o", folder=tmp_path)
    change(warc)
    assert not is_current(known, inspect_file(warc), options="o", folder=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"li"),
        lambda path: path.write_bytes(b"LINE\n"),  # as long, by another hand or another run
        replace_file,
    ],
)
def test_any_change_of_its_cdxj_ends_the_trust(
    tmp_path: Path, warc: Path, cdxj: Path, change: Callable[[Path], None]
) -> None:
    known = known_of(warc, cdxj)
    os.utime(cdxj, ns=(0, 0))  # an old one: what is written now has another time
    known = replace(known, cdxj_looks=CdxjStat.of(cdxj))
    assert is_current(known, inspect_file(warc), options="o", folder=tmp_path)
    change(cdxj)
    assert not is_current(known, inspect_file(warc), options="o", folder=tmp_path)


def test_other_options_and_files_that_had_not_rested_are_not_trusted(tmp_path: Path, warc: Path, cdxj: Path) -> None:
    known = known_of(warc, cdxj)
    assert not is_current(known, inspect_file(warc), options="p", folder=tmp_path)
    assert not is_current(replace(known, settled=False), inspect_file(warc), options="o", folder=tmp_path)


@pytest.mark.parametrize(
    ("mtime_ns", "ctime_ns", "rest"),
    [
        (1_700_000_000_123_456_789, 1_700_000_000_123_456_789, FINE_SETTLED_NS),
        (1_700_000_000_000_000_000, 1_700_000_000_123_456_789, SETTLED_NS),  # set by hand, or of a coarse clock
        (1_700_000_000_123_456_789, 1_700_000_000_120_000_000, SETTLED_NS),
    ],
)
def test_where_times_are_fine_a_file_has_rested_after_a_moment(
    warc: Path, mtime_ns: int, ctime_ns: int, rest: int
) -> None:
    looks = replace(inspect_file(warc), mtime_ns=mtime_ns, ctime_ns=ctime_ns)
    newest = max(mtime_ns, ctime_ns)
    assert not is_settled(looks, now_ns=newest + rest)
    assert is_settled(looks, now_ns=newest + rest + 1)


def test_a_file_has_rested_when_both_its_times_are_past(warc: Path) -> None:
    looks = replace(inspect_file(warc), mtime_ns=1_700_000_000_000_000_000)
    changed = max(looks.mtime_ns, looks.ctime_ns)
    assert not is_settled(looks, now_ns=changed)
    assert not is_settled(looks, now_ns=changed + SETTLED_NS)
    assert is_settled(looks, now_ns=changed + SETTLED_NS + 1)
    os.utime(warc, ns=(0, 0))  # the time of change cannot be set
    assert not is_settled(inspect_file(warc), now_ns=changed)


def test_both_ends_of_a_file_are_looked_at(warc: Path) -> None:
    before = inspect_file(warc)
    for place in (0, 299_999):
        with warc.open("r+b") as file:
            file.seek(place)
            file.write(b"!")
        assert inspect_file(warc).ends != before.ends
        before = inspect_file(warc)


def test_rows_of_another_shape_are_as_good_as_none(tmp_path: Path) -> None:
    with closing(IndexState(tmp_path / "s")) as state:
        with state._database.write() as run:
            run("INSERT INTO warc VALUES ('a', ?)", (b'{"looks": 1}',))
            run("INSERT INTO published VALUES ('n', ?)", (b"[]",))
        assert (state.known(), state.published("n")) == ({}, None)


def test_a_damaged_file_is_named_or_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"not a database at all" * 500)
    with pytest.raises(Misconfigured, match="--from-scratch"), open_state(path, anew=False):
        pass
    with open_state(path, anew=True) as state:
        assert state.known() == {}


def test_a_folder_that_cannot_be_written_is_not_taken_for_damage(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as failure, open_state(tmp_path / "nothing" / "s", anew=False):
        pass
    assert "--from-scratch" not in str(failure.value)
