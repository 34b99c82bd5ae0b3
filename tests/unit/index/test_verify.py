"""Verify: a sound index has no findings; every kind of damage has its own."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.index.samples import capture
from tests.unit.index.zipnum_samples import build, make_lines
from webmill.formats.cdx.zipnum import encode_block
from webmill.index.zipnum.verify import IndexFinding, VerifyCounts, verify
from webmill.index.zipnum.writer import write_index

LINES = make_lines(1000)
Table = list[list[bytes]]


def errors(folder: Path) -> set[str]:
    return {finding.kind for finding in verify(folder) if finding.severity == "error"}


def test_a_sound_index_has_no_findings_and_is_counted(tmp_path: Path) -> None:
    shards = build(tmp_path, LINES, block=20, shard_size=2000)
    checked = VerifyCounts()
    assert list(verify(tmp_path, checked=checked)) == []
    assert list(verify(tmp_path / "cluster.idx")) == []
    assert checked == VerifyCounts(
        shards=len(shards), blocks=50, lines=1000, bytes=sum(path.stat().st_size for path in tmp_path.glob("*.gz"))
    )


def test_an_empty_index_is_sound(tmp_path: Path) -> None:
    write_index([], tmp_path)
    assert list(verify(tmp_path)) == []


def test_shards_of_the_index_before_are_noted(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=20)
    build(tmp_path, LINES[:900], block=20)
    assert list(verify(tmp_path)) == [IndexFinding("unused_shard", "cdx-00000.gz", "not named in the summary", "note")]


def test_one_key_over_many_blocks_is_no_disorder(tmp_path: Path) -> None:
    build(tmp_path, [capture("com,a)/", number=str(n)) for n in range(10, 90)])
    assert list(verify(tmp_path)) == []


def table_of(folder: Path) -> Table:
    return [line.split(b"\t") for line in (folder / "cluster.idx").read_bytes().splitlines()]


def write_table(folder: Path, table: Table) -> None:
    (folder / "cluster.idx").write_bytes(b"".join(b"\t".join(row) + b"\n" for row in table))
    (folder / "cluster.idx.crc32").unlink(missing_ok=True)  # as of an index that others have made


def editing(change: Callable[[Table], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        table = table_of(folder)
        change(table)
        write_table(folder, table)

    return damage


def set_cell(row: int, column: int, value: bytes) -> Callable[[Path], None]:
    return editing(lambda table: table[row].__setitem__(column, value))


def flip(folder: Path) -> None:
    data = bytearray((folder / "cdx-00001.gz").read_bytes())
    data[len(data) // 2] ^= 16
    (folder / "cdx-00001.gz").write_bytes(data)


def resize(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "cdx-00001.gz"
        path.write_bytes(change(path.read_bytes()))

    return damage


def with_blocks(*blocks: list[bytes], keys: list[bytes] | None = None) -> Callable[[Path], None]:
    """The whole index anew, with these blocks."""

    def damage(folder: Path) -> None:
        for path in folder.glob("cdx-*.gz"):
            path.unlink()
        data = [encode_block(block) for block in blocks]
        (folder / "cdx-00000.gz").write_bytes(b"".join(data))
        rows, offset = [], 0
        for number, (block, member) in enumerate(zip(blocks, data, strict=True), start=1):
            key = keys[number - 1] if keys else b" ".join(block[0].split(b" ")[:2]).strip()
            rows.append([key, b"cdx-00000.gz", b"%d" % offset, b"%d" % len(member), b"%d" % number])
            offset += len(member)
        write_table(folder, rows)
        (folder / "cluster.loc").write_bytes(b"cdx-00000.gz\tcdx-00000.gz\n")

    return damage


def copy_as_stamped(folder: Path) -> None:
    (folder / "cdx-00001.gz").rename(folder / "cdx-00001-00000000.gz")
    editing(lambda t: [row.__setitem__(1, row[1].replace(b"00001.", b"00001-00000000.")) for row in t])(folder)
    (folder / "cluster.loc").unlink()


A, B, C = capture("com,a)/"), capture("com,b)/"), capture("com,c)/")
KEY = b"com,a)/ 20240101120000"

DAMAGE: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "a summary line of rubbish": (editing(lambda table: table.insert(3, [b"rubbish"])), {"bad_summary"}),
    "a summary line without end": (
        lambda folder: (
            (folder / "cluster.idx.crc32").unlink() or (folder / "cluster.idx").write_bytes(b"x" * (2 << 20))
        ),
        {"line_too_long", "unused_location"},
    ),
    "two summary lines swapped": (
        editing(lambda table: table.__setitem__(slice(3, 5), [table[4], table[3]])),
        {"unsorted", "bad_number", "gap"},
    ),
    "a summary line lost": (editing(lambda table: table.pop(3)), {"bad_number", "gap"}),
    "the last summary line lost": (editing(lambda table: table.pop()), {"unused_location"}),
    "the last but one too": (
        editing(lambda table: table.__delitem__(slice(-2, None))),
        {"unused_location", "wrong_size"},
    ),
    "the shard number in column 5": (
        editing(lambda table: [row.__setitem__(4, row[1][8:9]) for row in table]),
        {"bad_number"},
    ),
    "a wrong key": (set_cell(3, 0, b"com,a)/ 19990101000000"), {"wrong_key", "unsorted"}),
    "a wrong offset": (set_cell(3, 2, b"7"), {"gap", "bad_gzip"}),
    "a wrong length": (set_cell(3, 3, b"40"), {"gap", "truncated"}),
    "an offset behind the end": (set_cell(3, 2, b"99999999"), {"gap", "bad_range"}),
    "a huge length": (set_cell(3, 3, b"9" * 17), {"gap", "block_too_large"}),
    "a name that leads out": (set_cell(3, 1, b"../x.gz"), {"missing_shard", "gap"}),
    "a flipped bit": (flip, {"bad_gzip"}),
    "a shard cut short": (resize(lambda data: data[:-1]), {"bad_range", "wrong_size"}),
    "a shard with more behind it": (resize(lambda data: data + data), {"wrong_size"}),
    "a shard lost": (lambda folder: (folder / "cdx-00001.gz").unlink(), {"missing_shard"}),
    "a location of rubbish": (lambda folder: (folder / "cluster.loc").write_bytes(b"rubbish\n"), {"bad_location"}),
    "locations that lead nowhere": (
        lambda folder: (folder / "cluster.loc").write_bytes(b"cdx-00001.gz\tnowhere.gz\n"),
        {"missing_shard"},
    ),
    "a name that is not of its bytes": (copy_as_stamped, {"wrong_stamp"}),
    "disorder in a block": (with_blocks([A, C, B]), {"unsorted"}),
    "disorder between blocks": (with_blocks([A, C], [B], keys=[KEY, KEY]), {"unsorted", "wrong_key"}),
    "a block of no lines": (with_blocks([A], [], [B], keys=[KEY, KEY, B[:22]]), {"empty_block"}),
    "no CDXJ": (with_blocks([A, b"com,b)/ 20240101000000 {broken\n"]), {"bad_line"}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    damage, kinds = DAMAGE[name]
    build(tmp_path, LINES, block=20, shard_size=2000)
    damage(tmp_path)
    assert errors(tmp_path) == kinds


def test_missing_numbers_are_noted_once(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=20)
    editing(lambda table: [row.pop() for row in table])(tmp_path)
    assert [(finding.kind, finding.severity) for finding in verify(tmp_path)] == [("no_number", "note")]


def test_blocks_of_another_length_are_found_when_it_is_told(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=30, shard_size=2000)
    assert list(verify(tmp_path, lines_per_block=30)) == []
    assert {finding.kind for finding in verify(tmp_path, lines_per_block=29)} == {"short_block"}


def test_a_block_without_its_last_newline_is_a_note(tmp_path: Path) -> None:
    """So are the blocks of pywb's own sample, and everybody reads them block by block."""
    build(tmp_path, LINES)
    with_blocks([A, B.rstrip()])(tmp_path)
    assert {(found.kind, found.severity) for found in verify(tmp_path)} >= {("no_newline", "note")}
    assert errors(tmp_path) == set()


def test_lines_of_the_old_format_are_checked_too(tmp_path: Path) -> None:
    build(
        tmp_path, [b"com,a)/%d 20240101000000 http://a.com/ text/html 200 X - - 1 2 a.warc.gz\n" % n for n in range(9)]
    )
    assert errors(tmp_path) == set()


def test_the_check_goes_on_behind_a_finding(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=20, shard_size=2000)
    flip(tmp_path)
    set_cell(-1, 4, b"7")(tmp_path)
    checked = VerifyCounts()
    assert {finding.kind for finding in verify(tmp_path, checked=checked)} == {"bad_gzip", "bad_number"}
    assert checked.blocks == 49


def test_gzip_of_another_level_is_as_good(tmp_path: Path) -> None:
    build(tmp_path, LINES[:100], block=100)
    data = gzip.compress(b"".join(LINES[:100]), 1, mtime=0)
    (tmp_path / "cdx-00000.gz").write_bytes(data)
    set_cell(0, 3, b"%d" % len(data))(tmp_path)
    assert list(verify(tmp_path)) == []
