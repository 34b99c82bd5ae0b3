"""The commands that read lines and write lines."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.command import webmill
from tests.unit.index.samples import capture, write

LINES = sorted(
    capture(f"com,h{number % 7})/{number % 3}", f"202401{number:02d}000000", status="200") for number in range(1, 29)
)
ALL = b"".join(LINES)


def shuffled() -> bytes:
    lines = LINES[:]
    random.Random(1).shuffle(lines)
    return b"".join(lines)


def test_sort_orders_stdin_in_byte_order() -> None:
    done = webmill("cdxj", "sort", stdin=shuffled())
    assert (done.code, done.out) == (0, ALL)
    assert "# Sorted 28 lines" in done.err


@pytest.mark.parametrize("output", ["-", "all.cdxj"])
def test_merge_takes_files_folders_and_gzip_and_adds_a_missing_last_newline(tmp_path: Path, output: str) -> None:
    """The original glues the last line of one file to the next."""
    folder = tmp_path / "cdxj"
    folder.mkdir()
    (folder / "a.cdxj").write_bytes(b"".join(LINES[::2]).rstrip(b"\n"))
    (folder / "b.cdxj.gz").write_bytes(gzip.compress(b"".join(LINES[1::2])))
    (folder / "c.tmp").write_bytes(b"not sorted\nat all\n")
    target = Path(output) if output == "-" else tmp_path / output
    done = webmill("cdxj", "merge", folder, "--exclude", "*.tmp", "-o", target)
    assert (done.code, done.err) == (0, "# Merged 2 files: 28 lines\n")
    assert (done.out if output == "-" else target.read_bytes()) == ALL


def test_merge_keeps_repeats_unless_told_otherwise(tmp_path: Path) -> None:
    """The original's manual says that it drops them; it does not."""
    file = write(tmp_path / "a", LINES)
    assert len(webmill("cdxj", "merge", file, file).lines) == 2 * len(LINES)
    assert webmill("cdxj", "merge", file, file, "--unique").out == ALL


def test_merge_names_the_unsorted_line_and_writes_no_file(tmp_path: Path) -> None:
    """The original mixes them up without a word."""
    unsorted = write(tmp_path / "bad", [LINES[0], LINES[2], LINES[1]])
    done = webmill("cdxj", "merge", write(tmp_path / "good", LINES), unsorted, "-o", tmp_path / "all")
    assert done.code == 1
    assert f"{unsorted}:3" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "good"]


def test_a_failure_leaves_the_old_output_as_it_was(tmp_path: Path) -> None:
    target = write(tmp_path / "all", [b"old\n"])
    assert webmill("cdxj", "merge", write(tmp_path / "bad", LINES[::-1]), "-o", target).code == 1
    assert target.read_bytes() == b"old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "bad"]


def test_add_field_adds_to_good_lines_and_passes_bad_ones_on_with_code_3() -> None:
    done = webmill("cdxj", "add-field", "-f", "collection=NEWS", stdin=ALL + b"ERROR: disk full\n")
    assert done.code == 3
    assert len(done.lines) == 29
    assert all(b'"collection": "NEWS"}' in line for line in done.lines[:-1])
    assert done.lines[-1] == b"ERROR: disk full\n"
    assert "skipped 1 line" in done.err


def test_add_field_by_a_function_of_the_operator(tmp_path: Path) -> None:
    code = 'def addfield(surt_key, timestamp, json_data):\n    return json_data | {"year": timestamp[:4]}\n'
    function = write(tmp_path / "year.py", [code.encode()])
    done = webmill("cdxj", "add-field", "--function", function, stdin=ALL)
    assert done.code == 0
    assert all(b'"year": "2024"}' in line for line in done.lines)


def test_a_function_file_that_does_not_load_is_a_sentence(tmp_path: Path) -> None:
    done = webmill("cdxj", "add-field", "--function", write(tmp_path / "bad.py", [b"def addfield(:\n"]), stdin=ALL)
    assert done.code == 1
    assert "cannot start: cannot load" in done.err


def test_block_drops_what_a_rule_matches_and_says_which(tmp_path: Path) -> None:
    rules = write(tmp_path / "rules", [b"# spam\n", b"\n", b"^com,h1)/\n", b'"url": "http://com,h2\n'])
    done = webmill("cdxj", "block", "-b", rules, "--by-rule", stdin=ALL)
    assert done.lines == [line for line in LINES if not line.startswith((b"com,h1)", b"com,h2)"))]
    assert "# Kept 20 lines, dropped 8 lines (28.6%)" in done.err
    assert f"# {rules}:3: 4" in done.err


def test_a_blank_line_in_the_blocklist_blocks_nothing(tmp_path: Path) -> None:
    """In the original it deletes the whole index."""
    done = webmill("cdxj", "block", "-b", write(tmp_path / "rules", [b"\n", b"# none\n", b"  \n"]), stdin=ALL)
    assert (done.code, done.out) == (0, ALL)


def test_a_bad_rule_stops_with_its_line_and_no_file(tmp_path: Path) -> None:
    """In the original it deletes the whole index."""
    rules = write(tmp_path / "rules", [b"^com,h1\n", b"[z-a]\n"])
    done = webmill("cdxj", "block", "-b", rules, "-o", tmp_path / "out", stdin=ALL)
    assert done.code == 1
    assert f"{rules}:2" in done.err
    assert not (tmp_path / "out").exists()


def test_a_rule_that_removes_too_much_gives_no_file(tmp_path: Path) -> None:
    rules = write(tmp_path / "rules", [b"com\n"])
    done = webmill("cdxj", "block", "-b", rules, "--max-removed-share", "0.5", "-o", tmp_path / "out", stdin=ALL)
    assert done.code == 1
    assert "removes 28 of 28 lines" in done.err
    assert not (tmp_path / "out").exists()


def test_bytes_that_are_not_utf8_pass_through_every_filter(tmp_path: Path) -> None:
    """The original crashes on them."""
    line = b'com,a)/\xff 20240101000000 {"url": "http://a.com/\xff"}\n'
    rules = write(tmp_path / "rules", [b"^pt,\n"])
    for command in (["merge", write(tmp_path / "in", [line])], ["block", "-b", str(rules)], ["excessive", "auto"]):
        assert webmill("cdxj", *command, stdin=line).out == line


def test_excessive_finds_removes_and_does_both_in_one_pass_over_stdin(tmp_path: Path) -> None:
    """The original cannot do the last over stdin, so its own pipeline fails."""
    many = sorted([*LINES, *(capture("com,h3)/0", f"2023010100{second:04d}") for second in range(50))])
    text = b"".join(many)
    found = webmill("cdxj", "excessive", "find", "-n", "20", stdin=text)
    assert found.out == b"com,h3)/0 52\n"
    assert "# Found 1 URL with > 20 captures" in found.err
    kept = [line for line in many if not line.startswith(b"com,h3)/0 ")]
    listed = write(tmp_path / "list", [b"# made by find\n", found.out])
    assert webmill("cdxj", "excessive", "remove", "-b", listed, stdin=text).lines == kept
    assert webmill("cdxj", "excessive", "auto", "-n", "20", stdin=text).lines == kept
    some = webmill("cdxj", "excessive", "auto", "-n", "20", "--keep", "10", stdin=text)
    assert len(some.lines) == len(kept) + 10
    assert "dropped 42 lines" in some.err


def test_exactly_the_limit_is_kept() -> None:
    text = b"".join(capture("com,a)/", f"2023010100000{second}") for second in range(5))
    assert webmill("cdxj", "excessive", "auto", "-n", "5", stdin=text).out == text
    assert webmill("cdxj", "excessive", "auto", "-n", "4", stdin=text).out == b""


def test_field_prints_json_or_raw_and_counts_malformed_lines_with_code_3() -> None:
    text = capture("com,a)/", status="200") + capture("com,b)/") + b"garbage\n"
    done = webmill("cdxj", "field", "-f", "status", stdin=text)
    assert (done.code, done.out) == (3, b'"200"\n')
    assert "# Extracted 1, missing 1, malformed 1" in done.err
    assert webmill("cdxj", "field", "-f", "status", "-r", "-d", "none", stdin=text).out == b"200\nnone\n"


@pytest.mark.parametrize("tool", ["sort", "zipnum -o {}", "parquet -o {}/x", "block -b {}/rules"])
def test_a_line_without_end_is_refused_by_its_number(tmp_path: Path, tool: str) -> None:
    write(tmp_path / "rules", [b"^x\n"])
    done = webmill("cdxj", *tool.format(tmp_path).split(), stdin=ALL + b"z" * (1 << 21))
    assert done.code == 1
    assert "stdin:29: a line of more than 1048576 bytes" in done.err


def test_damaged_gzip_is_a_sentence(tmp_path: Path) -> None:
    file = write(tmp_path / "a.gz", [gzip.compress(ALL)[:-20]])
    done = webmill("cdxj", "merge", file, "-o", tmp_path / "out")
    assert done.code == 1
    assert str(file) in done.err
    assert "[truncated]" in done.err
    assert not (tmp_path / "out").exists()


def test_path_indexes_are_sorted_and_their_sources_named(tmp_path: Path) -> None:
    """pywb bisects them."""
    lists = tmp_path / "lists"
    lists.mkdir()
    write(lists / "1.txt", [b"# comment\n", b"\n", b"/data/z.warc.gz\n", b"https://h/d/a.warc.gz?x=1\n"])
    write(lists / "2.txt", [b"/data/m.warc.gz\n", b"/data/z.warc.gz\n"])
    done = webmill("cdxj", "paths", "make", lists)
    assert done.lines == [
        b"a.warc.gz\thttps://h/d/a.warc.gz?x=1\n",
        b"m.warc.gz\t/data/m.warc.gz\n",
        b"z.warc.gz\t/data/z.warc.gz\n",
    ]
    write(lists / "3.txt", [b"/data/x.warc.gz\n", b"/data/\n"])
    bad = webmill("cdxj", "paths", "make", lists, "-o", tmp_path / "out")
    assert bad.code == 1
    assert "3.txt:2" in bad.err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_counts_what_would_be_loaded(tmp_path: Path) -> None:
    done = webmill("cdxj", "paths", "redis", "-k", "x", "--dry-run", stdin=b"a\t/1/a\t/2/a\nb\t/1/b\n")
    assert (done.code, done.err) == (0, "# Would load 2 files; 1 additional paths ignored\n")


def test_a_device_and_a_link_are_written_to_and_never_replaced(tmp_path: Path) -> None:
    source, pipe, link = tmp_path / "a.cdxj", tmp_path / "pipe", tmp_path / "link"
    source.write_bytes(b'com,a)/ 20200101000000 {"url": "http://a.com/"}\n')
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert webmill("cdxj", "sort", source, "-o", pipe).code == 0
        assert reader.stdout is not None
        assert reader.stdout.read() == source.read_bytes()
    assert pipe.is_fifo()
    (tmp_path / "target").write_bytes(b"old")
    link.symlink_to("target")
    assert webmill("cdxj", "sort", source, "-o", link).code == 0
    assert link.is_symlink()
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
