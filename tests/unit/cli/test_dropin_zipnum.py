"""`flat-cdxj-to-zipnum`, `zipnum-to-flat-cdxj` and `cdxj-search` by their old names; pywb judges the index."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from tests.unit.cli.command import dropin
from tests.unit.index.samples import capture, write
from tests.unit.index.test_pywb_reads_our_zipnum import ask_pywb
from tests.unit.index.zipnum_samples import make_lines, make_queries, scan
from webmill.formats.cdx.query import key_range

LINES = make_lines(3000)
ALL = b"".join(LINES)
ROW = re.compile(rb"[^\t]+ [0-9]{14}\t[^\t]+\.cdx\.gz\t[0-9]+\t[0-9]+\t[0-9]+")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "AWP"


def build(base: Path, *flags: str, text: bytes = ALL) -> None:
    done = dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", base, "-c", "20", *flags, stdin=text)
    assert done.code == 0, done.err


def files(base: Path) -> list[str]:
    return sorted(path.name for path in base.iterdir())


def split_in_shards(base: Path) -> None:
    """More shards than one need more than a megabyte: the smallest size that the flag can say."""
    noise = [capture(f"com,h{number:05d})/", x=os.urandom(200).hex()) for number in range(20_000)]
    build(base, "-s", "1", text=b"".join(noise))


# --- flat-cdxj-to-zipnum ---------------------------------------------------------------------------------------------


def test_ten_lines_in_blocks_of_five_are_two_rows(base: Path) -> None:
    done = dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", base, "-c", "5", stdin=b"".join(LINES[:10]))
    assert files(base) == ["AWP.cdx.gz", "AWP.idx", "AWP.loc"]
    printed = f"Finished. Wrote 1 shard file(s), index: {base / 'AWP.idx'}, loc: {base / 'AWP.loc'}\n"
    assert done.out.decode() == printed
    rows = (base / "AWP.idx").read_bytes().splitlines()
    assert len(rows) == 2
    assert all(ROW.fullmatch(row) for row in rows)
    assert (base / "AWP.loc").read_bytes() == b"AWP.cdx.gz\tAWP.cdx.gz\n"


def test_every_row_names_the_bytes_of_its_block(base: Path) -> None:
    build(base)
    shard = (base / "AWP.cdx.gz").read_bytes()
    for number, row in enumerate((base / "AWP.idx").read_bytes().splitlines()):
        _, _, offset, length, running = row.split(b"\t")
        text = gzip.decompress(shard[int(offset) : int(offset) + int(length)])
        assert text == b"".join(LINES[number * 20 : number * 20 + 20])
        assert int(running) == number + 1  # the original has the number of the shard there


def test_names_can_be_chosen(base: Path) -> None:
    build(base, "--base", "B", "--idx-file", "i.idx", "--loc-file", "l.loc", "--single-shard")
    assert files(base) == ["B.cdx.gz", "i.idx", "l.loc"]
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "i.idx", "--loc", base / "l.loc").out == ALL


def test_several_shards_are_numbered_from_one_and_those_of_a_larger_run_before_go(base: Path) -> None:
    split_in_shards(base)
    assert files(base)[:2] == ["AWP-01.cdx.gz", "AWP-02.cdx.gz"]
    build(base)
    assert files(base) == ["AWP.cdx.gz", "AWP.idx", "AWP.loc"]
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "AWP.idx").out == ALL


def test_gzip_input_and_modes_that_others_may_read(base: Path, tmp_path: Path) -> None:
    """The original's files are 0600."""
    packed = write(tmp_path / "all.gz", [gzip.compress(ALL)])
    before = os.umask(0o022)
    try:
        assert dropin("flat-cdxj-to-zipnum", "-i", packed, "-o", base).code == 0
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in base.iterdir()} == {0o644}


def test_nothing_in_is_an_empty_index(base: Path) -> None:
    done = dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", base)
    assert done.code == 0
    assert b"Wrote 0 shard file(s)" in done.out
    assert (base / "AWP.idx").read_bytes() == b""


def test_unsorted_lines_leave_the_old_index_as_it_was(base: Path) -> None:
    build(base)
    before = {name: (base / name).read_bytes() for name in files(base)}
    done = dropin("flat-cdxj-to-zipnum", "-i", "-", "-o", base, stdin=ALL + LINES[0])
    assert done.code == 1
    assert "stdin:3001" in done.err
    assert {name: (base / name).read_bytes() for name in files(base)} == before


@pytest.mark.parametrize("flags", [[], ["--single-shard"]], ids=["default", "single"])
def test_pywb_reads_it_though_it_has_one_shard(base: Path, judges: Path, flags: list[str]) -> None:
    """pywb finds no shard of the original's, and 29 of 30 answers are wrong where there are several."""
    build(base, *flags)
    queries = make_queries(LINES, 200)
    for (url, kind), answer in zip(queries, ask_pywb(judges, base / "AWP.idx", queries), strict=True):
        assert len(answer) == len(scan(LINES, key_range(url, kind))), (url, kind)


def test_pywb_reads_all_pages_of_several_shards(base: Path, judges: Path) -> None:
    split_in_shards(base)
    (answer,) = ask_pywb(judges, base / "AWP.idx", [("com", "domain")])
    assert len(answer) == 20_000


# --- zipnum-to-flat-cdxj ---------------------------------------------------------------------------------------------


def test_flat_again_with_and_without_locations_and_from_stdin(base: Path) -> None:
    """The original gives nothing without a .loc, and ends well."""
    build(base)
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "AWP.idx").out == ALL
    (base / "AWP.loc").unlink()
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "AWP.idx").out == ALL
    rows = (base / "AWP.idx").read_bytes()
    assert dropin("zipnum-to-flat-cdxj", "-i", "-", "--base-dir", base, stdin=b"# rows\n\n" + rows).out == ALL


def test_an_index_that_the_original_wrote_wrongly_can_be_saved(base: Path) -> None:
    """Its only shard has one name in the .idx and another on disk; the fifth column is the shard's number."""
    build(base)
    rows = [row.split(b"\t") for row in (base / "AWP.idx").read_bytes().splitlines()]
    wrong = [b"\t".join([key, b"AWP-01.cdx.gz", offset, length, b"1"]) for key, _, offset, length, _ in rows]
    (base / "AWP.idx").write_bytes(b"\n".join(wrong) + b"\n")
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "AWP.idx").out == ALL


def test_locations_are_found_when_the_folder_is_called_idx(tmp_path: Path) -> None:
    base = tmp_path / "my.idx.d"
    build(base, "--base", "B")
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "B.idx").out == ALL


def test_no_rows_are_code_1(tmp_path: Path) -> None:
    done = dropin("zipnum-to-flat-cdxj", "-i", write(tmp_path / "x.idx", [b"# nothing\n"]))
    assert done.code == 1
    assert "No entries found in idx file" in done.err


def test_a_missing_shard_is_code_1(base: Path) -> None:
    build(base)
    (base / "AWP.cdx.gz").unlink()
    done = dropin("zipnum-to-flat-cdxj", "-i", base / "AWP.idx")
    assert done.code == 1
    assert "AWP.cdx.gz" in done.err


@pytest.mark.parametrize("path", ["../outside.cdx.gz", "/etc/outside.cdx.gz", "link.cdx.gz", "http://h/x.cdx.gz"])
@pytest.mark.parametrize("place", ["loc", "idx"])
def test_no_name_and_no_location_leads_out_of_the_folder(base: Path, tmp_path: Path, path: str, place: str) -> None:
    build(base)
    (base / "AWP.cdx.gz").rename(tmp_path / "outside.cdx.gz")
    (base / "link.cdx.gz").symlink_to(tmp_path / "outside.cdx.gz")
    if place == "loc":
        (base / "AWP.loc").write_text(f"AWP.cdx.gz\t{path}\n")
    else:
        (base / "AWP.loc").unlink()
        rows = (base / "AWP.idx").read_text().replace("AWP.cdx.gz", path)
        (base / "AWP.idx").write_text(rows)
    done = dropin("zipnum-to-flat-cdxj", "-i", base / "AWP.idx")
    assert (done.code, done.out) == (1, b"")


def test_an_absolute_location_inside_the_folder_is_taken(base: Path) -> None:
    build(base)
    (base / "AWP.loc").write_text(f"AWP.cdx.gz\t{base.resolve()}/AWP.cdx.gz\n")
    assert dropin("zipnum-to-flat-cdxj", "-i", base / "AWP.idx").out == ALL


# --- cdxj-search -----------------------------------------------------------------------------------------------------


def test_exact_searches_in_zipnum_and_flat_equal_a_scan(base: Path, tmp_path: Path) -> None:
    """In ZipNum the original gets 25 of 150 wrong."""
    build(base)
    flat = write(tmp_path / "all.cdxj", LINES)
    for key in sorted({line.split(b" ")[0].decode() for line in LINES})[::10]:
        expected = [line for line in LINES if line.startswith(key.encode() + b" ")]
        assert dropin("cdxj-search", "--surt", key, base / "AWP.idx").lines == expected, key
        assert dropin("cdxj-search", "--surt", key, flat).lines == expected, key


def test_a_url_is_turned_into_its_key(base: Path) -> None:
    build(base)
    url: str = json.loads(LINES[0].split(b" ", 2)[2])["url"]
    assert dropin("cdxj-search", "--url", url, base / "AWP.idx").lines == scan(LINES, key_range(url))


@pytest.mark.parametrize(
    ("match", "beginning"),
    [
        ("exact", "com,example)/page "),
        ("prefix", "com,example)/page"),
        ("domain", "com,example)"),
        ("subdomains", "com,example,"),
    ],
)
def test_match_types_are_beginnings_of_keys(tmp_path: Path, match: str, beginning: str) -> None:
    keys = ["com,example)/", "com,example)/page", "com,example)/page2", "com,example,www)/page", "com,examples)/page"]
    lines = sorted(map(capture, keys))
    done = dropin("cdxj-search", "--surt", "com,example)/page", "--matchType", match, write(tmp_path / "a", lines))
    assert done.lines == [line for line in lines if line.startswith(beginning.encode())]
    assert done.lines


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (["--from", "2020"], [1, 2, 3]),
        (["--to", "2020"], [0, 1]),  # up to its first second only, in the original
        (["--from", "202012", "--to", "20211231"], [2]),
        (["--from", "2020-01", "--to", "2021-12"], [1, 2]),  # a traceback in the original
        (["--filter", "status=200"], [0, 1]),
        (["--filter", "status!=200"], [2, 3]),  # without the row that has none, in the original
        (["--filter", "mime~html|pdf"], [0, 1, 2]),
        (["--filter", "mime!~^text/"], [2, 3]),
        (["--filter", "url=http://a.com/?x=1~2"], [3]),  # cut at the ~ in the original
        (["--filter", "status~.*"], [0, 1, 2]),
        (["--filter", "mime~(jpg|png|pdf)+"], [2]),  # refused by the original as dangerous
        (["--limit", "2"], [0, 1]),
        (["--limit", "0"], [0, 1, 2, 3]),
        (["--sort", "--dedupe"], [0, 1, 2, 3]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and isinstance(value[0], str) else None,
)
def test_periods_filters_and_limits(tmp_path: Path, flags: list[str], kept: list[int]) -> None:
    lines = [
        capture("com,a)/", "20190101000000", status="200", mime="text/html"),
        capture("com,a)/", "20200101000001", status="200", mime="text/html"),
        capture("com,a)/", "20211231235959", status="404", mime="application/pdf"),
        capture("com,a)/", "20220101000000", mime="-", url="http://a.com/?x=1~2"),
    ]
    done = dropin("cdxj-search", "--surt", "com,a)/", write(tmp_path / "a.cdxj", lines), *flags)
    assert done.lines == [lines[number] for number in kept], done.err


def test_folders_and_patterns_answer_in_order_and_each_file_once(base: Path, tmp_path: Path) -> None:
    build(base, text=b"".join(LINES[::3]))
    write(tmp_path / "1.cdxj", LINES[1::3])
    write(tmp_path / "2.cdxj.gz", [gzip.compress(b"".join(LINES[2::3]))])
    expected = [line for line in LINES if line.startswith(b"com,")]
    for names in ([tmp_path], [tmp_path, base / "AWP.idx"], [tmp_path / "*.cdxj*", base / "*.idx"]):
        done = dropin("cdxj-search", "--surt", "com,", "--matchType", "prefix", *names)
        assert done.lines == expected


def test_dedupe_keeps_the_first_of_a_key_and_timestamp(tmp_path: Path) -> None:
    lines = sorted([capture("com,a)/", status=status) for status in ("200", "301")])
    file = write(tmp_path / "a.cdxj", lines)
    assert dropin("cdxj-search", "--surt", "com,a)/", "--dedupe", file, file).lines == lines[:1]


def test_a_damaged_file_ends_it_unless_errors_are_skipped(base: Path, tmp_path: Path) -> None:
    """The original drops damaged blocks silently."""
    build(base)
    shard = bytearray((base / "AWP.cdx.gz").read_bytes())
    shard[20] ^= 255
    (base / "AWP.cdx.gz").write_bytes(shard)
    good = write(tmp_path / "good.cdxj", LINES)
    key = LINES[0].split(b" ")[0].decode()
    failed = dropin("cdxj-search", "--surt", key, base / "AWP.idx", good)
    assert failed.code == 1
    assert "AWP.cdx.gz" in failed.err
    skipped = dropin("cdxj-search", "--surt", key, base / "AWP.idx", good, "--skip-errors")
    assert skipped.code == 0
    assert f"Error processing {base / 'AWP.idx'}" in skipped.err
    assert skipped.lines == [line for line in LINES if line.startswith(key.encode() + b" ")]


def test_no_files_are_code_1_and_nothing_found_is_code_0(tmp_path: Path) -> None:
    none = dropin("cdxj-search", "--surt", "com,a)/", tmp_path / "*.cdxj")
    assert none.code == 1
    assert "No files found matching the specified patterns" in none.err
    found = dropin("cdxj-search", "--surt", "zz,a)/", write(tmp_path / "a.cdxj", LINES))
    assert (found.code, found.out) == (0, b"")


@pytest.mark.parametrize("flags", [["--surt", ""], ["--surt", "k" * 10_001], ["--surt", "a", "--filter", "status"]])
def test_a_bad_question_is_a_sentence(tmp_path: Path, flags: list[str]) -> None:
    done = dropin("cdxj-search", *flags, write(tmp_path / "a.cdxj", LINES))
    assert done.code == 1
    assert "bad input" in done.err


def test_lines_that_no_filter_can_be_asked_of_are_told(tmp_path: Path) -> None:
    lines = sorted([capture("com,a)/", status="200"), b"com,a)/ 20240101000000 {broken\n"])
    done = dropin("cdxj-search", "--surt", "com,a)/", "--filter", "status=200", write(tmp_path / "a.cdxj", lines))
    assert len(done.lines) == 1
    assert "1 lines that are no CDXJ were left out" in done.err
