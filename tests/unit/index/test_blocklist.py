"""Blocklists: rules mean what they say, whatever their number, and a bad list never passes for an empty one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.thoroughness import examples
from tests.unit.index.samples import any_lines, capture, cut_into, flat, line_bodies, write
from webmill.errors import BadInput, Misconfigured
from webmill.index.cdxj.blocklist import Blocklist, block, literal_prefix, load_blocklist, parse_blocklist
from webmill.index.cdxj.prefixes import Prefixes
from webmill.index.lines import FilterCounts


def kept(lines: list[bytes], *rules: bytes, size: int = 1000) -> list[bytes]:
    tally = FilterCounts()
    result = flat(block(cut_into(lines, size), parse_blocklist(rules), tally=tally))
    assert (tally.kept, tally.kept + tally.removed) == (len(result), len(lines))
    return result


@settings(deadline=None)
@given(any_lines, st.lists(line_bodies.filter(bool), max_size=6), st.booleans(), st.integers(1, 9))
def test_prefixes_cut_what_startswith_finds(
    lines: list[bytes], prefixes: list[bytes], ordered: bool, size: int
) -> None:
    lines = sorted(lines) if ordered else lines
    cutter = Prefixes(prefixes)
    for batch in cut_into(lines, size):
        stay, gone = cutter.partition(list(batch))
        assert stay == [line for line in batch if not line.startswith(tuple(prefixes))]
        assert gone == [line for line in batch if line.startswith(tuple(prefixes))]


# Of what Python and RE2 understand alike, on the letters of `any_lines`.
atoms = st.sampled_from([b"a", b"b", b"z", rb"\)", rb"\ ", b",", b".", b"[ab]", b"[^a]", rb"\S", rb"\s"])
pieces = st.builds(bytes.__add__, atoms, st.sampled_from([b"", b"", b"*", b"+", b"?", b"{2}"]))
bodies = st.lists(pieces, min_size=1, max_size=4).map(b"".join)
patterns = st.one_of(
    bodies,
    bodies.map(lambda body: b"^" + body),
    bodies.map(lambda body: body + b"$"),
    bodies.map(lambda body: b"^" + body + b".*"),
    st.builds(lambda one, two: b"(%b|%b)" % (one, two), bodies, bodies),
    st.just(b"^$"),
)


@settings(deadline=None, max_examples=examples(300))
@given(any_lines, st.lists(patterns.filter(bytes.strip), max_size=8), st.booleans(), st.integers(1, 50))
def test_a_blocklist_removes_what_python_finds_line_by_line(
    lines: list[bytes], rules: list[bytes], ordered: bool, size: int
) -> None:
    lines = sorted(lines) if ordered else lines
    expected = [line for line in lines if not any(re.search(rule, line[:-1]) for rule in rules)]
    assert kept(lines, *rules, size=size) == expected


@pytest.mark.parametrize(
    ("rule", "prefix"),
    [
        (b"^pt,spam,", b"pt,spam,"),
        (rb"^pt,site,www\)/admin/", b"pt,site,www)/admin/"),
        (b"^com,zdnet)/topic", b"com,zdnet)/topic"),
        (b"^com,a)/.*", b"com,a)/"),
        (b"^com,a)/.*$", b"com,a)/"),
        (rb"^com,a\)/x\.html", b"com,a)/x.html"),
        (b"^com,a)/x.html", None),
        (b"^(com,a", None),
        (b"pt,spam", None),
        (b"^", None),
        (b"^.*", None),
        (b"^a|b", None),
        (b"^a$", None),
        (rb"^a\d", None),
        (b"^ab*", None),
        (b"^a{2}", None),
    ],
)
def test_literal_prefixes_are_recognised_and_nothing_else(rule: bytes, prefix: bytes | None) -> None:
    assert literal_prefix(rule) == prefix


def test_the_pattern_of_arquivo_blocks_one_of_four_lines() -> None:
    lines = [
        b'pt,example)/files/2/x.pdf 20200101120000 {"url": "http://www.example.pt/files/2/x.pdf", "mime": "a"}\n',
        b'pt,example)/files/3/x.pdf 20200101120000 {"url": "http://www.example.pt/files/3/x.pdf", "mime": "a"}\n',
        b'pt,example)/ 20200101120000 {"url": "http://www.example.pt/", "mime": "a"}\n',
        b'pt,other)/files/2/x.pdf 20200101120000 {"url": "http://www.other.pt/files/2/x.pdf", "mime": "a"}\n',
    ]
    rule = rb'^\S* [0-9]{14} \{"url": "(.*://)?(www.)?example.pt/files/2/x.pdf(\S)*"'
    assert kept(lines, rule) == lines[1:]


def test_rules_match_the_whole_line_json_too() -> None:
    lines = [capture("a", file="x.pdf"), capture("b", file="x.png")]
    assert kept(lines, rb'\.pdf"') == lines[1:]


def test_a_lone_closing_parenthesis_is_a_literal() -> None:
    lines = [capture("com,site01)/"), capture("com,site02)/")]
    assert kept(lines, b"^com,site01)/") == lines[1:]
    assert kept(lines, b"site(01))/") == lines[1:]
    assert kept(lines, b"[)](.*)01)") == lines[1:]


def test_a_blank_line_or_a_comment_removes_nothing() -> None:
    lines = [capture("a"), capture("#b")]
    assert kept(lines, b"", b"\n", b"  \n", b"# comment\n", b"#b\n") == lines
    assert len(parse_blocklist([b"# only comments\n", b"\n"])) == 0


@pytest.mark.parametrize("rule", [b"a(?=b)", rb"(a)\1", b"(a", b"[a", b"*a", b"a\\", b"(?-m)a", rb"\Qa\E", b"\xff+[a]"])
def test_a_bad_rule_stops_with_file_and_line_number(tmp_path: Path, rule: bytes) -> None:
    path = write(tmp_path / "list", [b"^good\n", b"# comment\n", b"\n", rule + b"\n", b"good+\n"])
    with pytest.raises(BadInput, match=r"list:4: bad rule") as caught:
        load_blocklist(path)
    assert caught.value.reason == "bad_pattern"


def test_a_rule_that_explodes_in_other_engines_is_answered_at_once() -> None:
    line = b"x," * 5000 + b"\n"
    assert kept([line], rb"^(.*,)*(spam|y).*") == [line]


def test_bytes_outside_utf8_are_matched_like_any_others() -> None:
    lines = [b"caf\xe9 1\n", "café 2\n".encode(), b"\xff 3\n"]
    assert kept(lines, b"caf. ") == lines[1:]
    assert kept(lines, "café".encode()) == [lines[0], lines[2]]
    assert kept(lines, b"[3]$") == lines[:2]
    assert kept(lines, "(caf[éà]|x) ".encode()) == [lines[0], lines[2]]
    assert kept(lines, rb"caf\x{e9}? ", rb"\pZ3", rb"\377") == [lines[0]]


def test_no_rule_reaches_over_the_end_of_a_line() -> None:
    lines = [b"a 1\n", b"b 1\n", b"c 1\n"]
    assert kept(lines, rb"a[^x]*b", rb"1\s+b", rb"(?s)a.*c", rb"1\nb") == lines
    assert kept(lines, rb"^b", rb"\Ac", rb"x|1\z") == []


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_very_many_rules_of_either_kind_are_applied(count: int) -> None:
    lines = sorted(capture(f"com,site{number:05d})/") for number in range(0, 50_000, 1000))
    prefixes = [b"^com,site%05d)/x" % number for number in range(count)] + [b"^com,site03000)/ "]
    others = [b'url": "http://com,site%05d./y+' % number for number in range(count // 50)] + [b"site07000.+html"]
    assert kept(lines, *prefixes, *others) == [
        line for line in lines if b"site03000" not in line and b"site07000" not in line
    ]


def test_many_rules_hitting_the_same_lines_count_each_line_once() -> None:
    lines = [capture(f"k{number}") for number in range(100)]
    rules = [b"k[0-9]*%d " % digit for digit in range(9)]
    assert kept(lines, *rules) == [line for number, line in enumerate(lines) if number % 10 == 9]


def test_a_rule_that_eats_the_index_is_stopped_at_the_end() -> None:
    lines = [capture(f"k{number}") for number in range(10)]
    tally = FilterCounts()
    with pytest.raises(Misconfigured, match=r"removes 9 of 10 lines \(90\.0%\)"):
        flat(block([lines], parse_blocklist([b"k[0-8]"]), tally=tally, max_removed_share=0.5))
    assert tally.removed_share == 0.9
    assert len(flat(block([lines], parse_blocklist([b"k[0-4]"]), tally=FilterCounts(), max_removed_share=0.5))) == 5


def test_lines_are_counted_by_the_rule_that_blocked_them() -> None:
    by_rule: Counter[int] = Counter()
    rules = parse_blocklist([b"# list", b"^a", b"^ab", b"c+", b"^zz"])
    lines = [capture(key) for key in ("a", "ab", "c", "d")]
    assert flat(block([lines], rules, tally=FilterCounts(), by_rule=by_rule)) == lines[3:]
    assert by_rule == {2: 2, 4: 1}


def test_an_empty_blocklist_keeps_all() -> None:
    lines = [capture("a")]
    assert flat(block([lines], Blocklist([]), tally=FilterCounts())) == lines
