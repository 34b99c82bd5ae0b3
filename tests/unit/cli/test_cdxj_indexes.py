"""`zipnum`, `flatten`, `verify`, `parquet`, `query`."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.contracts.range_server import RangeServer, serving
from tests.unit.cli.command import webmill
from tests.unit.index.samples import capture, write
from tests.unit.index.zipnum_samples import make_lines, make_queries, scan
from webmill.formats.cdx.query import key_range
from webmill.index.zipnum.writer import rebuilding

LINES = make_lines(2000)
ALL = b"".join(LINES)


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    return write(tmp_path / "all.cdxj", LINES)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zipnum") / "index"
    assert webmill("cdxj", "zipnum", "-o", folder, "--lines", "50", stdin=ALL).code == 0
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in names_in(folder)}


# --- zipnum, flatten -------------------------------------------------------------------------------------------------


def test_a_stream_becomes_an_index_and_flat_lines_again(index: Path, tmp_path: Path) -> None:
    assert names_in(index) == ["cdx-00000.gz", "cluster.idx", "cluster.idx.crc32", "cluster.loc"]
    done = webmill("cdxj", "flatten", index, "-o", tmp_path / "flat")
    assert (done.code, done.err) == (0, "# 2,000 lines\n")
    assert (tmp_path / "flat").read_bytes() == ALL
    assert webmill("cdxj", "flatten", index / "cluster.idx").out == ALL


def test_what_was_written_is_told_on_stderr_and_nothing_on_stdout(tmp_path: Path) -> None:
    done = webmill("cdxj", "zipnum", "-o", tmp_path / "x", "--lines", "100", stdin=ALL)
    assert done.out == b""
    assert f"# {tmp_path / 'x'}: 2,000 lines in 20 blocks, 1 shard," in done.err


def test_shards_of_a_file_of_a_gzip_file_and_of_a_pipe_are_the_same_bytes(flat: Path, tmp_path: Path) -> None:
    packed = write(tmp_path / "all.gz", [gzip.compress(ALL)])
    options = ["--lines", "50", "--shards", "4", "--jobs", "2"]
    for name, source in (("file", [flat]), ("gzip", [packed]), ("pipe", [])):
        done = webmill("cdxj", "zipnum", *source, "-o", tmp_path / name, *options, stdin=b"" if source else ALL)
        assert done.code == 0, done.err
        assert webmill("cdxj", "flatten", tmp_path / name).out == ALL
    assert len(names_in(tmp_path / "file")) == 7
    assert contents(tmp_path / "file") == contents(tmp_path / "gzip") == contents(tmp_path / "pipe")


def test_more_shards_than_urls_are_fewer_shards(tmp_path: Path) -> None:
    text = b"".join(capture("com,a)/", f"2024010100{number:04d}") for number in range(100))
    assert webmill("cdxj", "zipnum", "-o", tmp_path / "x", "--shards", "9", stdin=text).code == 0
    assert names_in(tmp_path / "x") == ["cdx-00000.gz", "cluster.idx", "cluster.idx.crc32", "cluster.loc"]


@pytest.mark.parametrize("options", [[], ["--shards", "3"]], ids=["stream", "shards"])
def test_unsorted_input_leaves_no_shard_behind(tmp_path: Path, options: list[str]) -> None:
    done = webmill("cdxj", "zipnum", "-o", tmp_path / "x", *options, stdin=ALL + LINES[0])
    assert done.code == 1
    assert ":2001: this line sorts before the one above it" in done.err
    assert names_in(tmp_path / "x") == []


@pytest.mark.parametrize("options", [[], ["--shards", "3"]], ids=["stream", "shards"])
def test_a_failed_rebuild_leaves_the_old_index_as_it_was(tmp_path: Path, options: list[str]) -> None:
    target = tmp_path / "x"
    assert webmill("cdxj", "zipnum", "-o", target, "--lines", "50", stdin=ALL).code == 0
    before = contents(target)
    assert webmill("cdxj", "zipnum", "-o", target, *options, stdin=ALL + LINES[0]).code == 1
    assert contents(target) == before
    assert [path.name for path in target.iterdir() if path.name.startswith(".webmill-tmp")] == []


def test_two_rebuilds_at_once_are_a_conflict(tmp_path: Path) -> None:
    with rebuilding(tmp_path):
        done = webmill("cdxj", "zipnum", "-o", tmp_path, stdin=ALL)
    assert done.code == 1
    assert "conflict: another process is writing the index" in done.err


def test_nothing_in_is_an_index_of_nothing(tmp_path: Path) -> None:
    assert webmill("cdxj", "zipnum", "-o", tmp_path / "x").code == 0
    assert webmill("cdxj", "flatten", tmp_path / "x").out == b""
    assert webmill("cdxj", "verify", tmp_path / "x").code == 0


def test_a_missing_shard_is_an_error_and_no_file(index: Path, tmp_path: Path) -> None:
    """The original warns, and ends well with fewer lines."""
    (tmp_path / "cluster.idx").write_bytes((index / "cluster.idx").read_bytes())
    done = webmill("cdxj", "flatten", tmp_path, "-o", tmp_path / "flat")
    assert done.code == 1
    assert "not found: shard 'cdx-00000.gz'" in done.err
    assert not (tmp_path / "flat").exists()


def test_flatten_takes_what_query_takes(flat: Path, index: Path, tmp_path: Path) -> None:
    everything = flat.read_bytes()
    assert webmill("cdxj", "flatten", flat).out == everything
    assert webmill("cdxj", "flatten", index / "cluster.idx").out == everything
    collection = tmp_path / "news" / "cc-index" / "collections"
    for name in ("A", "B"):
        shutil.copytree(index, collection / name / "indexes")
    assert webmill("cdxj", "flatten", tmp_path / "news").lines == sorted([*everything.splitlines(keepends=True)] * 2)
    assert webmill("cdxj", "flatten", tmp_path / "nothing").code == 1


# --- verify ----------------------------------------------------------------------------------------------------------


def test_a_sound_index_is_sound(index: Path) -> None:
    done = webmill("cdxj", "verify", index, "--lines", "50")
    assert (done.code, done.out) == (0, b"")
    assert "2,000 lines in 40 blocks, 1 shard," in done.err
    assert "no errors" in done.err


def test_a_flipped_bit_is_found_with_its_place_and_code_3(index: Path, tmp_path: Path) -> None:
    for name, data in contents(index).items():
        (tmp_path / name).write_bytes(data)
    shard = bytearray((tmp_path / "cdx-00000.gz").read_bytes())
    shard[len(shard) // 2] ^= 1
    (tmp_path / "cdx-00000.gz").write_bytes(shard)
    done = webmill("cdxj", "verify", tmp_path)
    assert done.code == 3
    assert b"error: cdx-00000.gz at byte" in done.out
    found = [json.loads(line) for line in webmill("cdxj", "verify", tmp_path, "--json").lines]
    assert {finding["severity"] for finding in found} == {"error"}
    assert set(found[0]) == {"kind", "where", "message", "severity"}


# --- parquet ---------------------------------------------------------------------------------------------------------


def test_lines_become_rows_and_what_is_no_capture_is_named(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"status": "200", "length": "9", "offset": "0", "filename": "a.warc.gz", "digest": "X"}
    text = b"".join(capture(f"com,a)/{letter}", **rows) for letter in "abc") + b"zzz no capture\n"
    done = webmill("cdxj", "parquet", "-o", tmp_path / "x.parquet", stdin=text)
    assert done.code == 3
    assert "zzz no capture" in done.err
    assert "1 rejected" in done.err
    assert parquet.read_metadata(tmp_path / "x.parquet").num_rows == 3


def test_unsorted_lines_make_no_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert webmill("cdxj", "parquet", "-o", tmp_path / "x.parquet", stdin=ALL + LINES[0]).code == 1
    assert list(tmp_path.iterdir()) == []


# --- query -----------------------------------------------------------------------------------------------------------


def test_queries_of_every_match_type_equal_a_linear_scan(index: Path, flat: Path) -> None:
    for url, match in make_queries(LINES, 60):
        expected = scan(LINES, key_range(url, match))
        for source in (index, flat):
            assert webmill("cdxj", "query", url, "--match", match, "--index", source).lines == expected, (url, match)


def test_patterns_say_their_match_type(index: Path) -> None:
    assert webmill("cdxj", "query", "*.a.com", "-i", index).lines == scan(LINES, key_range("a.com", "domain"))
    assert webmill("cdxj", "query", "a.com/a*", "-i", index).lines == scan(LINES, key_range("a.com/a", "prefix"))


def test_a_key_is_taken_as_it_is(index: Path) -> None:
    done = webmill("cdxj", "query", "--surt", "com,a)/a", "-i", index)
    assert done.lines == [line for line in LINES if line.startswith(b"com,a)/a ")]
    assert len(done.lines) > 0


def test_several_indexes_answer_as_one_in_order(tmp_path: Path) -> None:
    write(tmp_path / "even.cdxj", LINES[::2])
    webmill("cdxj", "zipnum", "-o", tmp_path / "odd", stdin=b"".join(LINES[1::2]))
    done = webmill("cdxj", "query", "*.com", "-i", tmp_path / "even.cdxj", "-i", tmp_path / "odd")
    assert done.lines == scan(LINES, key_range("com", "domain"))


def test_a_folder_of_cdxj_files_and_a_gzip_file_are_indexes_too(tmp_path: Path) -> None:
    (tmp_path / "cdxj").mkdir()
    write(tmp_path / "cdxj" / "1.cdxj", LINES[::2])
    write(tmp_path / "cdxj" / "2.cdxj", LINES[1::2])
    write(tmp_path / "all.cdxj.gz", [gzip.compress(ALL)])
    expected = scan(LINES, key_range("a.com", "host"))
    for source in (tmp_path / "cdxj", tmp_path / "all.cdxj.gz"):
        assert webmill("cdxj", "query", "a.com", "--match", "host", "-i", source).lines == expected


def test_the_indexes_of_a_collection_are_one(tmp_path: Path) -> None:
    for name in ("A", "B"):
        folder = tmp_path / "news" / "cc-index" / "collections" / name / "indexes"
        line = capture("com,a)/", "20240101000000", note=name)
        assert webmill("cdxj", "zipnum", "-o", folder, stdin=line).code == 0
    found = webmill("cdxj", "query", "a.com/", "--json", "--index", tmp_path / "news")
    assert [json.loads(line)["note"] for line in found.out.splitlines()] == ["A", "B"]
    (tmp_path / "other").mkdir()
    assert "nor the index of a collection" in webmill("cdxj", "query", "a.com/", "-i", tmp_path / "other").err


def test_periods_are_whole(tmp_path: Path) -> None:
    """In the original `--to 2021` leaves 2021 out, and `2020-01` is a traceback."""
    stamps = ["20191231235959", "20200101000000", "20211231235959", "20220101000000"]
    file = write(tmp_path / "a", [capture("com,a)/", stamp) for stamp in stamps])
    done = webmill("cdxj", "query", "a.com", "-i", file, "--from", "2020-01", "--to", "2021")
    assert [line.split()[1].decode() for line in done.lines] == stamps[1:3]


def test_filters_limit_and_orders(tmp_path: Path) -> None:
    lines = [capture("com,a)/", f"202{year}0101000000", status=str(200 + year)) for year in range(5)]
    file = write(tmp_path / "a", lines)

    def ask(*options: str) -> list[bytes]:
        return webmill("cdxj", "query", "a.com", "-i", file, *options).lines

    assert ask("--filter", "=status:201", "--filter", "mime:html") == [lines[1]]
    assert ask("--filter", "!~status:20[1-4]") == [lines[0]]
    assert ask("--limit", "2") == lines[:2]
    assert ask("--sort", "reverse", "--limit", "2") == [lines[4], lines[3]]
    assert ask("--closest", "2022-02", "--limit", "2") == [lines[2], lines[3]]


def test_a_row_without_the_field_is_not_equal_to_a_value(tmp_path: Path) -> None:
    """The original drops it from `status!=404`."""
    file = write(tmp_path / "a", [capture("com,a)/")])
    assert len(webmill("cdxj", "query", "a.com", "-i", file, "--filter", "!=status:404").lines) == 1


def test_json_has_the_key_and_the_timestamp_and_leaves_no_line_out_silently(tmp_path: Path) -> None:
    good = capture("com,a)/", status="200", urlkey="forged")
    file = write(tmp_path / "a", sorted([good, b"com,a)/ 20240101120001 {broken\n"]))
    done = webmill("cdxj", "query", "a.com", "-i", file, "--json")
    assert done.code == 3
    assert "1 rejected: lines that are not CDXJ" in done.err
    (row,) = map(json.loads, done.lines)
    assert (row["urlkey"], row["timestamp"], row["status"]) == ("com,a)/", "20240101120000", "200")


def test_no_capture_is_no_output_and_code_0(index: Path) -> None:
    done = webmill("cdxj", "query", "nowhere.example", "-i", index)
    assert (done.code, done.out, done.err) == (0, b"", "# 0 captures\n")


def test_a_remote_index_is_read_by_ranges(index: Path) -> None:
    with serving() as server:
        share(server, index)
        for name in (f"{server.url}/index/cluster.idx", f"{server.url}/index/", f"{server.url}/index"):
            done = webmill("cdxj", "query", "a.com", "--match", "host", "-i", name)
            assert done.lines == scan(LINES, key_range("a.com", "host")), done.err
        server.values["all.cdxj"] = ALL
        done = webmill("cdxj", "query", "a.com", "--match", "host", "-i", f"{server.url}/all.cdxj")
        assert done.lines == scan(LINES, key_range("a.com", "host")), done.err
        assert webmill("cdxj", "flatten", f"{server.url}/index").out == ALL


def test_a_remote_index_that_is_not_there_is_a_sentence() -> None:
    with serving() as server:
        done = webmill("cdxj", "query", "a.com", "-i", f"{server.url}/index/")
    assert done.code == 1
    assert "not found" in done.err


def share(server: RangeServer, index: Path) -> None:
    server.values |= {f"index/{name}": data for name, data in contents(index).items()}
