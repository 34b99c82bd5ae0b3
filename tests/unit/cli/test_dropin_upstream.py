"""The cases in which the tests of replay-cdxj-indexing-tools (1.1.3) run its commands: exit code and what is printed.

Of the 31 cases of its shell suite, eight read the source of the script (`set -e`, traps, exported functions, …): here
is none. What differs on purpose has its reason beside it; the others are equal.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.cli.command import Ended, dropin
from tests.unit.index.samples import write

NAME = "TEST-2024-11"


# --- tests/test_cdxj_index_collection.sh ------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "collections" / NAME).mkdir(parents=True)
    write(tmp_path / "rules", [b"# Test blocklist\n", b"^pt,spam,\n", b"^com,example,blocked\n"])
    return tmp_path


def touch(data: Path, names: Iterable[str] = ("test.warc.gz",)) -> None:
    for name in names:
        (data / "collections" / NAME / name).touch()


def index(data: Path, *flags: str | Path, name: str = NAME) -> Ended:
    places = [f"--{one}={data / where}" for one, where in (("output-dir", "zipnum"), ("temp-dir", "temp"))]
    return dropin("cdxj-index-collection", name, "--collections-dir", data / "collections", *places, *flags)


def test_help_names_its_parts() -> None:
    done = dropin("cdxj-index-collection", "--help")
    assert done.code == 0  # there 1, though nothing is wrong
    for words in (b"Usage:", b"collection_name", b"--incremental"):
        assert words in done.out
    assert b"collection-field" not in done.out


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ((), "Collection name is required"),
        (("TEST", "--unknown-option"), "Unknown option: --unknown-option"),
        (("COL1", "COL2"), "Too many arguments"),
    ],
)
def test_a_wrong_use_is_code_1(arguments: tuple[str, ...], printed: str) -> None:
    done = dropin("cdxj-index-collection", *arguments)
    assert done.code == 1
    assert printed in done.err


def test_no_such_collection_and_an_empty_one_are_code_1(data: Path) -> None:
    missing = index(data, name="NONEXISTENT")
    assert (missing.code, "Collection directory not found" in missing.err) == (1, True)
    empty = index(data)
    assert (empty.code, "No WARC files found" in empty.err) == (1, True)


@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        (("--jobs", "8", "--threshold", "5000", "--shard-size", "4000"), r"Configuration:"),
        ((), rf"Collection: +{NAME}"),
        (("--jobs", "16"), r"Parallel jobs: +16"),
        (("--threshold", "2500"), r"Excessive threshold: +2500"),
        (("--shard-size", "5000"), r"Shard size: +5000"),
        (("--incremental",), r"Incremental mode: +1"),
        (("--keep-temp",), r"Keep temp files: +1"),
        (("--no-compress",), r"Configuration:"),
        ((), rf"Collection field: +collection={NAME}"),
        ((), r"STAGE 1/6.*Indexing"),
        ((), r"STAGE 2/6.*Adding collection field"),
        ((), r"Creating directories"),
        ((), r"WARC files: +3"),
        ((), r"Started at"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_the_configuration_and_the_stages_are_printed(data: Path, flags: tuple[str, ...], printed: str) -> None:
    touch(data, ("test1.warc.gz", "test2.warc.gz", "test3.warc"))
    done = index(data, *flags, "--jobs", "1") if "--jobs" not in flags else index(data, *flags)
    assert re.search(printed, done.out.decode())
    assert done.code in (0, 3)  # there, nothing comes this far; files without a byte are damaged


def test_blocklists(data: Path) -> None:
    touch(data)
    custom = index(data, "--blocklist", data / "rules")
    assert "Blocklist not found" not in custom.err
    assert b"STAGE 3/6: Filtering blocklist" in custom.out
    default = index(data)
    assert "Blocklist not found" in default.err
    assert "Proceeding without blocklist" in default.err
    assert index(data, "--blocklist", "/nonexistent/blocklist.txt").code == 1  # there, it goes on without


# --- its Python suites: the cases that run a command ------------------------------------------------------------------


def test_arclist_to_path_index(tmp_path: Path) -> None:
    one = write(tmp_path / "one.txt", [b"https://example.com/file1.warc.gz\n"])
    two = write(tmp_path / "two.txt", [b"/mnt/file2.warc.gz\n"])
    basic = dropin("arclist-to-path-index", "-i", one)
    assert (basic.code, basic.out) == (0, b"file1.warc.gz\thttps://example.com/file1.warc.gz\n")
    for flags in (("-d", tmp_path), ("-i", one, "-i", two)):
        both = dropin("arclist-to-path-index", *flags)
        assert (both.code, both.out) == (0, basic.out + b"file2.warc.gz\t/mnt/file2.warc.gz\n")
    assert dropin("arclist-to-path-index").code == 2


def test_cdxj_extract_field(tmp_path: Path) -> None:
    path = write(tmp_path / "a.cdxj", [b'com,example)/ 20200101000000 {"field": "value", "collection": "AWP-999"}\n'])
    assert dropin("cdxj-extract-field", "--field", "field", "-i", path).out == b'"value"\n'
    assert dropin("cdxj-extract-field", "--field", "collection", "-i", path, "--raw").out == b"AWP-999\n"


def test_filter_excessive_urls_remove_with_blank_lines_and_comments(tmp_path: Path) -> None:
    lines = [b'pt,ok,www)/ 20230101120000 {"url": "..."}\n', b'pt,spam,www)/ 20230101120000 {"url": "..."}\n']
    listed = write(tmp_path / "listed", [b"# comment line\n", b"\n", b"   \n", b"pt,spam,www)/\n", b"\n"])
    source, out = write(tmp_path / "in", lines), tmp_path / "out"
    assert dropin("filter-excessive-urls", "remove", "-i", source, "-b", listed, "-o", out).code == 0
    assert out.read_bytes() == lines[0]


@pytest.mark.parametrize("place", ["beside", "base-dir", "loc"])
def test_zipnum_to_flat_cdxj_with_shards_that_are_named_without_their_ending(tmp_path: Path, place: str) -> None:
    text = b'com,example)/ 20230101000000 {"url":"http://example.com/"}\n'
    packed = gzip.compress(text)
    folder = tmp_path / "shards" if place == "base-dir" else tmp_path
    folder.mkdir(exist_ok=True)
    write(folder / "test.cdx.gz", [packed])
    row = b"com,example)/ 20230101000000\ttest\t0\t%d\t1\n"
    idx = write(tmp_path / "test.idx", [row % len(packed)])
    loc = write(tmp_path / "custom.loc", [b"test\ttest.cdx.gz\n"])
    flags = {"beside": (), "base-dir": ("--base-dir", folder), "loc": ("--loc", loc)}[place]
    done = dropin("zipnum-to-flat-cdxj", "-i", idx, *flags, "--workers", "1")
    assert (done.code, done.out) == (0, text)
    write(idx, [row % 100])  # its cases have wrong lengths, which nobody there reads
    assert dropin("zipnum-to-flat-cdxj", "-i", idx, *flags).code == 1


def test_an_empty_idx_is_code_1(tmp_path: Path) -> None:
    assert dropin("zipnum-to-flat-cdxj", "-i", write(tmp_path / "test.idx", [])).code == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("path-index-to-redis", "-i", "{paths}", "-k", "pathindex:test-collection", "--dry-run"), 0),
        (("path-index-to-redis", "-i", "nonexistent.txt"), 2),
        (("arclist-index-to-redis",), 2),
        (("arclist-index-to-redis", "-d", "{folder}"), 2),
        (("arclist-index-to-redis", "-k", "pathindex:test"), 2),
        (("arclist-index-to-redis", "-d", "{folder}", "-k", "pathindex:test", "--port", "1"), 1),
        (("arclist-index-to-redis", "-d", "{folder}", "-k", "x", "--clear", "-v", "--port", "1"), 1),
        (
            ("arclist-index-to-redis", "-d", "{folder}", "-k", "x", "--batch-size", "1000", "--verbose", "--port", "1"),
            1,
        ),
        (
            (
                "arclist-index-to-redis",
                "-d",
                "{folder}",
                "-k",
                "x",
                "--password",
                "p",
                "--username",
                "u",
                "--port",
                "1",
            ),
            1,
        ),
        (("arclist-index-to-redis", "-d", "{folder}", "-k", "x", "--socket", "/nowhere.sock"), 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_redis_commands_parse_and_tell_that_no_server_answers(
    tmp_path: Path, command: tuple[str, ...], code: int
) -> None:
    """There a mock takes the place of Redis; with a real one: `tests/services/test_redis_hash.py`."""
    paths = write(tmp_path / "paths", [b"file.warc.gz\t/path/file.warc.gz\n"])
    write(tmp_path / "list.txt", [b"/path/file.warc.gz\n"])
    done = dropin(*(word.format(paths=paths, folder=tmp_path) for word in command))
    assert done.code == code, done.err
