"""Which captures pass, judged line by line by plain Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.dispatch_samples import capture, captures
from webmill.commoncrawl.selection import (
    FILTERS,
    Selection,
    compile_selection,
    filter_block,
    filter_each_line,
    filter_ordinary_lines,
    lines_within,
    merge_ranges,
)
from webmill.errors import BadInput
from webmill.formats.cdx.query import KeyRange, key_range
from webmill.formats.cdx.zipnum import split_lines

LINES = captures(400)
TEXT = b"".join(line + b"\n" for line in LINES)
Judge = Callable[[str, str, dict[str, Any]], bool]

CASES: dict[str, tuple[Selection, Judge]] = {
    "all": (Selection(), lambda *_: True),
    "status": (Selection(statuses=("200",)), lambda s, t, f: f["status"] == "200"),
    "statuses": (Selection(statuses=("301", "404")), lambda s, t, f: f["status"] in ("301", "404")),
    "language": (Selection(languages=("eng",)), lambda s, t, f: "eng" in f.get("languages", "").split(",")),
    "languages": (
        Selection(languages=("deu", "fra")),
        lambda s, t, f: bool({"deu", "fra"} & {*f.get("languages", "").split(",")}),
    ),
    "primary": (
        Selection(languages=("eng",), primary=True),
        lambda s, t, f: f.get("languages", "").split(",")[0] == "eng",
    ),
    "mime": (Selection(mimes=("text/html; charset=utf-8",)), lambda s, t, f: f["mime"] == "text/html; charset=utf-8"),
    "mime detected": (Selection(mimes_detected=("text/plain",)), lambda s, t, f: f["mime-detected"] == "text/plain"),
    "charset": (Selection(charsets=("UTF-8",)), lambda s, t, f: f.get("charset") == "UTF-8"),
    "from": (Selection(start="20240601000000"), lambda s, t, f: t >= "20240601000000"),
    "to": (Selection(end="20240615120756"), lambda s, t, f: t <= "20240615120756"),
    "url": (Selection(url_regex=r"/p\d*7\?"), lambda s, t, f: re.search(r"/p\d*7\?", f["url"]) is not None),
    "range": (Selection(ranges=(key_range("h0003.com", "domain"),)), lambda s, t, f: s.startswith("com,h0003)")),
    "together": (
        Selection(statuses=("200",), languages=("eng",), start="20240301000000", mimes=("text/html",)),
        lambda s, t, f: (
            f["status"] == "200"
            and "eng" in f.get("languages", "").split(",")
            and t >= "20240301000000"
            and f["mime"] == "text/html"
        ),
    ),
}


def plainly(line: bytes) -> tuple[str, str, dict[str, Any]]:
    surt, timestamp, rest = line.decode().split(" ", 2)
    return surt, timestamp, json.loads(rest)


def passed(text: bytes, wanted: Selection) -> list[tuple[str, str, dict[str, Any]]]:
    found = map(json.loads, filter_block(text, wanted).items)
    return [(item["surt_url"], item["timestamp"], item["metadata"]) for item in found]


@pytest.mark.parametrize("case", CASES)
def test_a_filter_lets_pass_what_plain_python_says(case: str) -> None:
    wanted, judge = CASES[case]
    assert passed(TEXT, wanted) == [found for found in map(plainly, LINES) if judge(*found)]


@pytest.mark.parametrize("case", CASES)
def test_every_line_is_passed_filtered_or_bad(case: str) -> None:
    sifted = filter_block(TEXT + b"\n  \nbroken\n", CASES[case][0])
    assert sifted.lines == len(sifted.items) + sum(sifted.filtered.values()) + len(sifted.bad)
    assert sifted.filtered.keys() == set(FILTERS)


@pytest.mark.parametrize(
    ("languages", "any_", "primary"),
    [
        ("eng", True, True),
        ("eng,fra", True, True),
        ("fra,eng", True, False),
        ("fra,eng,deu", True, False),
        ("xeng", False, False),
        ("engx", False, False),
        ("ENG", False, False),
        ("", False, False),
        (None, False, False),
    ],
)
def test_a_language_is_a_whole_token(languages: str | None, any_: bool, primary: bool) -> None:
    line = capture("com,a)/", languages=languages)
    assert bool(passed(line, Selection(languages=("eng",)))) is any_
    assert bool(passed(line, Selection(languages=("eng",), primary=True))) is primary


@pytest.mark.parametrize(
    "line",
    [
        b'com,a)/ 20240101000000 {"status":"200","languages":"eng"}',
        b'com,a)/ 20240101000000 {"status": 200, "languages": "eng"}',
        b'com,a)/ 20240101000000 {"st\\u0061tus": "200", "languages": "\\u0065ng"}',
        b'com,a)/ 20240101000000 { "languages":\t"eng" , "x": {"y": [1, {"status": "404"}]}, "status": "200" }',
        b'com,a)/ 20240101000000 {"status": "404", "status": "200", "languages": "eng"}',
        b'com,a)/ 20240101000000 {"status": "200", "languages": "eng"}\r',
        'com,a)/ 20240101000000 {"status": "200", "languages": "eng", "title": "ä — b"}'.encode(),
    ],
    ids=["compact", "number", "escaped", "spaced", "repeated", "crlf", "utf8"],
)
def test_json_is_understood_however_it_is_spelled(line: bytes) -> None:
    (found,) = passed(line, Selection(statuses=("200",), languages=("eng",)))
    assert found == plainly(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"broken", "no_json"),
        (b"com,a)/ 20240101000000", "no_json"),
        (b"com,a)/ 2024 {}", "bad_timestamp"),
        (b" 20240101000000 {}", "no_key"),
        (b'com,a)/ 20240101000000 {"a": "b"', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": "b"}, {"c": "d"}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": "\xff"}', "bad_json"),
        (b'com,a)/ 20240101000000 {"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "too_deep"),
        (b'com,a)/ 20240101000000 {"a": "' + b"x" * (1 << 20) + b'"}', "line_too_long"),
    ],
    ids=["word", "no json", "short timestamp", "no key", "cut", "two", "not utf8", "deep", "long"],
)
def test_a_bad_line_is_told_with_its_number_and_the_others_pass(line: bytes, reason: str) -> None:
    good = capture("com,b)/")
    sifted = filter_block(b"\n".join([good, line, good]), Selection())
    assert [(bad.number, bad.reason) for bad in sifted.bad] == [(1, reason)]
    assert len(sifted.items) == 2


def test_a_sample_is_a_share_and_the_same_every_time() -> None:
    text = b"\n".join(captures(4000))
    half = passed(text, Selection(sample=0.5, seed=1))
    assert 1800 < len(half) < 2200
    assert passed(text, Selection(sample=0.5, seed=1)) == half
    assert passed(text, Selection(sample=0.5, seed=2)) != half
    tenth = passed(text, Selection(sample=0.1, seed=1))
    assert all(found in half for found in tenth)


def test_digests_are_told_beside_the_items() -> None:
    sifted = filter_block(TEXT, Selection(statuses=("200",), digests=True))
    assert sifted.digests == [json.loads(item)["metadata"]["digest"] for item in sifted.items]


def test_a_wrong_regular_expression_is_refused() -> None:
    for pattern in ("(", r"(a)\1", "(?=a)"):
        with pytest.raises(BadInput):
            filter_block(b"", Selection(url_regex=pattern))


KEYS = st.binary(min_size=1, max_size=3).map(lambda raw: bytes(b"abc"[byte % 3] for byte in raw))
RANGES = st.lists(st.tuples(KEYS, KEYS).map(lambda ends: KeyRange(min(ends), max(ends))), max_size=6)


@settings(deadline=None)
@given(RANGES, st.lists(KEYS, max_size=20))
def test_merged_ranges_hold_each_line_once(ranges: list[KeyRange], lines: list[bytes]) -> None:
    ordered = sorted(lines)
    expected = [line for line in ordered if any(line in part for part in ranges)]
    whole = merge_ranges(ranges)
    assert all(before.end < after.start for before, after in pairwise(whole))
    assert lines_within(ordered, whole) == (expected if ranges else ordered)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_sifted(text: bytes) -> None:
    sifted = filter_block(text, Selection(statuses=("200",)))
    assert sifted.lines == len(sifted.items) + sum(sifted.filtered.values()) + len(sifted.bad)


@settings(deadline=None)
@given(st.integers(0, len(LINES[0])))
def test_a_line_cut_anywhere_is_bad_or_blank(at: int) -> None:
    sifted = filter_block(LINES[0][:at], Selection())
    assert len(sifted.items) == (at == len(LINES[0]))


# --- the short way and the long way -----------------------------------------------------------------------------------

SPOILS = [
    b" ",
    b"{",
    b"}",
    b'"',
    b"\\",
    b"\\u0065",
    b",",
    b":",
    b"[",
    b"]",
    b"\n",
    b"\r",
    b"\t",
    b"\x00",
    b"\xff",
    b"\xc3\xa4",
]
SPOILS += [b"", b"eng", b'"status": "200", ', b'"languages": "eng"', b"200", b"{}", b"1" * 14, b'"status": 200, ']


@st.composite
def spoiled_lines(draw: st.DrawFn) -> bytes:
    """A line, or one with pieces put in or taken away anywhere."""
    line = draw(st.sampled_from(LINES[:60]))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.sampled_from(SPOILS)) + line[at + draw(st.integers(0, 20)) :]
    return line


@settings(deadline=None, max_examples=400)
@given(
    st.lists(spoiled_lines(), max_size=5), st.sampled_from(sorted(CASES)), st.booleans(), st.sampled_from([b"", b"\n"])
)
def test_the_short_way_gives_what_the_long_way_gives(lines: list[bytes], case: str, digests: bool, end: bytes) -> None:
    wanted = msgspec.structs.replace(CASES[case][0], ranges=(), digests=digests)
    text, sieve = b"\n".join(lines) + end * bool(lines), compile_selection(wanted)
    decode = sieve.decode if text.isascii() else sieve.decode_text
    expected = filter_each_line(split_lines(text), sieve, decode)
    assert filter_ordinary_lines(text, sieve, decode) in (None, expected)
    assert filter_block(text, wanted) == expected


@pytest.mark.parametrize("case", CASES)
def test_ordinary_lines_take_the_short_way(case: str) -> None:
    sieve = compile_selection(CASES[case][0])
    found = filter_ordinary_lines(TEXT, sieve, sieve.decode)
    assert found
    assert found == filter_each_line(LINES, sieve, sieve.decode)
