"""Lookup in an index that is damaged, hostile, or replaced while it is read."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import capture, flat, write
from tests.unit.index.zipnum_samples import EVERYTHING, build, make_lines, opened, read
from webmill.errors import BadInput, Conflict, NotFound, WebmillError
from webmill.formats.cdx.query import key_range
from webmill.index.lookup.indexes import FlatIndex, ZipNumIndex, flatten
from webmill.infra.storage.base import Stat
from webmill.infra.storage.local import LocalStorage

LINES = make_lines(2000)

# --- damage (I12) ---------------------------------------------------------------------------------------------------


def edit_summary(folder: Path, change: Callable[[list[list[bytes]]], None]) -> None:
    table = [line.split(b"\t") for line in (folder / "cluster.idx").read_bytes().splitlines()]
    change(table)
    (folder / "cluster.idx").write_bytes(b"".join(b"\t".join(row) + b"\n" for row in table))
    (folder / "cluster.idx.crc32").unlink(missing_ok=True)  # as of an index that others have made


def set_cell(row: int, column: int, value: bytes) -> Callable[[Path], None]:
    return lambda folder: edit_summary(folder, lambda table: table[row].__setitem__(column, value))


def flip(folder: Path) -> None:
    data = bytearray((folder / "cdx-00000.gz").read_bytes())
    data[len(data) // 2] ^= 16
    (folder / "cdx-00000.gz").write_bytes(data)


def cut(folder: Path) -> None:
    data = (folder / "cdx-00000.gz").read_bytes()
    (folder / "cdx-00000.gz").write_bytes(data[:-1])


def bomb(folder: Path) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(100)) + squeeze.flush()
    (folder / "cdx-00000.gz").write_bytes(data)
    edit_summary(folder, lambda table: table.__setitem__(slice(None), [[*table[0][:3], b"%d" % len(data), b"1"]]))


DAMAGE: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "a flipped bit": (flip, BadInput, "cdx-00000.gz at byte"),
    "a shard cut short": (cut, BadInput, "cdx-00000.gz at byte .*bad_range"),
    "no shard": (lambda folder: (folder / "cdx-00000.gz").unlink(), NotFound, "cdx-00000.gz"),
    "a folder in its place": (
        lambda folder: ((folder / "cdx-00000.gz").unlink(), (folder / "cdx-00000.gz").mkdir())[1],
        NotFound,
        "cdx-00000.gz",
    ),
    "an offset one too far": (set_cell(3, 2, b"1"), BadInput, "cdx-00000.gz at byte 1"),
    "a length one too short": (set_cell(3, 3, b"40"), BadInput, "cdx-00000.gz"),
    "an offset behind the end": (set_cell(3, 2, b"999999999"), BadInput, "bad_range"),
    "a length of 10^17": (set_cell(3, 3, b"1" + b"0" * 17), BadInput, "block_too_large"),
    "a length of 10^20": (set_cell(3, 3, b"1" + b"0" * 20), BadInput, "cluster.idx: line 4"),
    "an offset of -5": (set_cell(3, 2, b"-5"), BadInput, "cluster.idx: line 4"),
    "another block's place": (
        lambda folder: edit_summary(folder, lambda table: table[5].__setitem__(slice(2, 4), table[2][2:4])),
        BadInput,
        "wrong_block",
    ),
    "two summary lines swapped": (
        lambda folder: edit_summary(folder, lambda table: table.insert(7, table.pop(6))),
        BadInput,
        "cluster.idx: line 8.*unsorted",
    ),
    "a bomb": (bomb, BadInput, "block_too_large"),
    "a summary of rubbish": (lambda f: write(f / "cluster.idx", [b"rubbish\n"]) and None, BadInput, "cluster.idx"),
    "rubbish locations": (lambda f: write(f / "cluster.loc", [b"rubbish\n"]) and None, BadInput, "cluster.loc: line 1"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_i12_damage_is_an_error_that_names_it_never_fewer_lines(tmp_path: Path, name: str) -> None:
    damage, kind, message = DAMAGE[name]
    build(tmp_path, LINES, block=100)
    damage(tmp_path)
    for attempt in (lambda: read(opened(tmp_path)), lambda: flat(flatten(opened(tmp_path)))):
        with pytest.raises(kind, match=message):
            attempt()


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_changed_byte_of_a_shard_is_noticed_or_harmless(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder, LINES[:60])
        shard = bytearray((folder / "cdx-00000.gz").read_bytes())
        shard[data.draw(st.integers(0, len(shard) - 1))] ^= data.draw(st.integers(1, 255))
        (folder / "cdx-00000.gz").write_bytes(shard)
        try:
            assert read(opened(folder)) == LINES[:60]
        except BadInput:
            pass


# --- I06: names from an index are strangers' ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["../secret.gz", "/{root}/secret.gz", "a/../../secret.gz", "link.gz", "linked/secret.gz"]
)
@pytest.mark.parametrize("file", ["cluster.loc", "cluster.idx"])
def test_i06_no_name_leads_out_of_the_folder(tmp_path: Path, path: str, file: str) -> None:
    folder = tmp_path / "index"
    build(folder, LINES)
    (folder / "cdx-00000.gz").rename(tmp_path / "secret.gz")
    (folder / "link.gz").symlink_to(tmp_path / "secret.gz")
    (folder / "linked").symlink_to(tmp_path)
    path = path.format(root=str(tmp_path).strip("/"))
    if file == "cluster.loc":
        (folder / file).write_text(f"cdx-00000.gz\t{path}\n")
    else:
        (folder / "cluster.loc").unlink()
        edit_summary(folder, lambda table: [row.__setitem__(1, path.encode()) for row in table] and None)
    with pytest.raises(NotFound, match="was not found"):
        read(opened(folder))


def test_a_declared_place_is_read_and_a_url_elsewhere_is_not(tmp_path: Path) -> None:
    build(tmp_path / "index", LINES)
    (tmp_path / "shards").mkdir()
    (tmp_path / "index" / "cdx-00000.gz").rename(tmp_path / "shards" / "cdx-00000.gz")
    (tmp_path / "index" / "cluster.loc").write_text("cdx-00000.gz\thttps://example.com/x/cdx-00000.gz\n")
    storage = LocalStorage(tmp_path / "index")
    with pytest.raises(NotFound, match="outside of all declared locations"):
        read(ZipNumIndex(storage))
    places = {"https://example.com/x/": LocalStorage(tmp_path / "shards")}
    assert read(ZipNumIndex(storage, elsewhere=places)) == LINES
    wide = LocalStorage(tmp_path)
    (tmp_path / "index" / "cluster.loc").write_text("cdx-00000.gz\t../shards/cdx-00000.gz\n")
    assert read(ZipNumIndex(wide, "index/cluster.idx")) == LINES


# --- replaced while it is read (I11, I14) ---------------------------------------------------------------------------


def generation(number: int) -> list[bytes]:
    """Lines that all carry the number, a different count for each."""
    return [capture(f"com,a{line:05d})/", generation=str(number)) for line in range(200 + number)]


def test_an_open_query_goes_on_with_the_shards_of_the_index_it_began_with(tmp_path: Path) -> None:
    build(tmp_path, generation(0), shard_size=300)
    index = opened(tmp_path)
    lines = index.lines(EVERYTHING)
    begun = [next(lines)]
    build(tmp_path, generation(1), shard_size=300)
    assert begun + list(lines) == generation(0)
    assert read(index) == generation(1)


REBUILD = """
import sys
from pathlib import Path
from tests.unit.index.test_lookup_faults import build, generation
for number in range(1, int(sys.argv[2])):
    build(Path(sys.argv[1]), generation(number), shard_size=300)
"""


def test_i11_a_reader_during_rebuilds_sees_whole_generations_only(tmp_path: Path) -> None:
    build(tmp_path, generation(0), shard_size=300)
    index = opened(tmp_path)
    seen: list[int] = []
    with subprocess.Popen(
        [sys.executable, "-c", REBUILD, str(tmp_path), "40"], cwd=Path(__file__).parents[3]
    ) as writer:
        while writer.poll() is None or not seen:
            try:
                lines = read(index, key_range("com", "domain")) if len(seen) % 2 else read(index)
            except Conflict:  # two rebuilds while we read: whoever is that slow is told, and asks again
                continue
            numbers = {int(json.loads(line.split(b" ", 2)[2])["generation"]) for line in lines}
            assert len(numbers) == 1
            assert lines == generation(numbers.pop())
            seen.append(len(lines) - 200)
        assert writer.returncode == 0
    assert read(index) == generation(39)
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


class ReplacedOnce(LocalStorage):
    """Of a file that another takes the place of just after it was looked at."""

    replaced = False

    def stat(self, key: str) -> Stat:
        seen = super().stat(key)
        if not self.replaced:
            self.replaced = True
            self.write(key, b"".join(generation(1)))
        return seen


def test_a_flat_file_that_was_replaced_before_the_first_line_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path / "f", generation(0))
    assert read(FlatIndex(ReplacedOnce(tmp_path), "f")) == generation(1)


def test_i14_a_flat_file_cut_while_it_is_read_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = write(tmp_path / "f", generation(40_000))
    lines = FlatIndex(LocalStorage(tmp_path), "f").lines(EVERYTHING)
    next(lines)
    path.write_bytes(b"")
    with pytest.raises(WebmillError, match="f"):
        list(lines)
