"""Lists of WARC paths to pywb's path index, and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.index.cdxj.path_index import WarcLocation, format_location, from_arclist, parse_path_index


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (b"/data/a.warc.gz", b"a.warc.gz"),
        (b"a.warc.gz", b"a.warc.gz"),
        (b"https://h:80/d/a.warc.gz?token=x/y", b"a.warc.gz"),
        (b"/data/a?b.warc.gz", b"a?b.warc.gz"),
        (b"  /data/a b.warc.gz \r\n", b"a b.warc.gz"),
        (b"s3://bucket/\xff.warc.gz", b"\xff.warc.gz"),
    ],
)
def test_the_name_is_the_last_part_of_the_path(path: bytes, name: bytes) -> None:
    assert list(from_arclist([path])) == [WarcLocation(name, (path.strip(),))]


def test_blank_lines_and_comments_are_passed_over() -> None:
    assert list(from_arclist([b"\n", b"# x\n", b"  \n", b"/a\n"])) == [WarcLocation(b"a", (b"/a",))]


@pytest.mark.parametrize("path", [b"/", b"/data/", b"https://h/?x", b"/a\tb"])
def test_a_line_that_names_no_file_is_refused_with_its_number(path: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        list(from_arclist([b"/good\n", path + b"\n"], source="list.txt"))
    assert (refused.value.source, refused.value.reason) == ("list.txt:2", "bad_path_line")


def test_a_path_index_has_one_or_several_paths() -> None:
    lines = [b"# x\n", b"a\t/1/a\t/2/a\r\n", b"\n", b"b\thttp://h/b\n"]
    assert list(parse_path_index(lines)) == [
        WarcLocation(b"a", (b"/1/a", b"/2/a")),
        WarcLocation(b"b", (b"http://h/b",)),
    ]


@pytest.mark.parametrize("line", [b"a", b"a\t", b"\t/a", b"\t"])
def test_a_line_without_name_or_path_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        list(parse_path_index([b"a\t/a\n", line + b"\n"], source="index"))
    assert refused.value.source == "index:2"


words = st.binary(min_size=1, max_size=8).filter(lambda word: not set(word) & set(b"\t\r\n") and word[:1] != b"#")


@settings(deadline=None)
@given(st.lists(st.builds(WarcLocation, words, st.lists(words, min_size=1, max_size=3).map(tuple)), max_size=5))
def test_what_is_written_is_read_back(entries: list[WarcLocation]) -> None:
    assert list(parse_path_index(map(format_location, entries))) == entries
