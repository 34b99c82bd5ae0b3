"""Excessive urlkeys: counted in a stream, thinned out as asked."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import capture, captures, cut_into, flat, write
from webmill.errors import BadInput
from webmill.index.cdxj.excessive import (
    ExcessiveUrlkey,
    ExcessPolicy,
    drop_excessive,
    find_excessive,
    load_excessive,
    remove_urlkeys,
)
from webmill.index.lines import Batch, FilterCounts
from webmill.index.order import urlkey

sorted_captures = st.lists(captures, max_size=40).map(sorted)
limits = st.integers(0, 12)
keeps = st.builds(ExcessPolicy, st.integers(0, 4), st.sampled_from(["first", "last"]), st.booleans())


def numbered(key: str, count: int, **fields: str) -> list[bytes]:
    return [capture(key, str(20240101000000 + number), **fields) for number in range(count)]


def thin(lines: list[bytes], limit: int, keep: ExcessPolicy) -> list[bytes]:
    """The plain way: one group at a time, in memory."""
    result: list[bytes] = []
    for _, group in groupby(lines, key=urlkey):
        run = list(group)
        if len(run) > limit:
            pool = [line for line in run if b"warc/revisit" not in line] if keep.drop_revisits_first else run
            if not (keep.drop_revisits_first and len(pool) <= limit):
                pool = pool[: keep.count] if keep.side == "first" else pool[max(0, len(pool) - keep.count) :]
            run = pool
        result += run
    return result


@settings(deadline=None, max_examples=300)
@given(sorted_captures, limits, keeps, st.integers(1, 50))
def test_thinning_a_stream_is_thinning_group_by_group(
    lines: list[bytes], limit: int, keep: ExcessPolicy, size: int
) -> None:
    tally = FilterCounts()
    result = flat(drop_excessive(cut_into(lines, size), limit=limit, keep=keep, tally=tally))
    assert result == thin(lines, limit, keep)
    assert (tally.kept, tally.total) == (len(result), len(lines))


@settings(deadline=None)
@given(sorted_captures, limits, st.integers(1, 50))
def test_finding_is_counting(lines: list[bytes], limit: int, size: int) -> None:
    counts = Counter(line.split(b" ")[0] for line in lines)
    found = find_excessive(cut_into(lines, size), limit=limit)
    assert {excess.urlkey: excess.count for excess in found} == {k: n for k, n in counts.items() if n > limit}
    assert [excess.count for excess in found] == sorted((excess.count for excess in found), reverse=True)


@settings(deadline=None)
@given(st.lists(captures), st.sets(st.sampled_from([b"a", b"a,b)/", b"b", b"none"])), st.booleans())
def test_listed_urlkeys_are_removed_and_no_longer_ones(lines: list[bytes], keys: set[bytes], ordered: bool) -> None:
    lines = sorted(lines) if ordered else lines
    tally = FilterCounts()
    result = flat(remove_urlkeys(cut_into(lines, 7), keys, tally=tally))
    assert result == [line for line in lines if line.split(b" ")[0] not in keys]
    assert (tally.kept, tally.total) == (len(result), len(lines))


def test_exactly_the_limit_is_not_excessive() -> None:
    lines = numbered("a", 1000) + numbered("b", 1001)
    assert find_excessive(cut_into(lines, 300), limit=1000) == [ExcessiveUrlkey(b"b", 1001)]
    assert flat(drop_excessive(cut_into(lines, 300), limit=1000, tally=FilterCounts())) == lines[:1000]


def test_found_urlkeys_read_as_key_and_count_most_first() -> None:
    lines = numbered("a", 3) + numbered("b", 5) + numbered("c", 3) + numbered("d", 1)
    assert [bytes(excess) for excess in find_excessive([lines], limit=2)] == [b"b 5", b"a 3", b"c 3"]


def test_a_limit_of_zero_removes_everything() -> None:
    lines = numbered("a", 1) + numbered("b", 2)
    assert flat(drop_excessive([lines], limit=0, tally=FilterCounts())) == []
    assert len(find_excessive([lines], limit=0)) == 2


def test_a_list_may_have_counts_comments_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "list", [b"# excessive\n", b"\n", b"com,a)/ 2000\n", b"com,b)/\n", b"   \n"])
    assert load_excessive(path) == [b"com,a)/", b"com,b)/"]


def test_a_url_keeps_its_first_or_last_captures() -> None:
    lines = numbered("a", 100)
    for side, expected in (("first", lines[:10]), ("last", lines[-10:])):
        keep = ExcessPolicy(count=10, side=side)  # type: ignore[arg-type]
        assert flat(drop_excessive(cut_into(lines, 7), limit=50, keep=keep, tally=FilterCounts())) == expected


def test_revisits_go_first_and_what_is_then_within_the_limit_stays() -> None:
    lines = sorted(numbered("a", 10) + numbered("a", 90, mime="warc/revisit"))
    keep = ExcessPolicy(count=3, drop_revisits_first=True)
    left = flat(drop_excessive(cut_into(lines, 7), limit=50, keep=keep, tally=FilterCounts()))
    assert left == [line for line in lines if b"warc/revisit" not in line]
    left = flat(drop_excessive(cut_into(lines, 7), limit=5, keep=keep, tally=FilterCounts()))
    assert left == [line for line in lines if b"warc/revisit" not in line][:3]


def test_unsorted_input_is_refused_with_its_line_number() -> None:
    lines = numbered("b", 3) + numbered("a", 1)
    with pytest.raises(BadInput, match=r"input:4: .*unsorted"):
        flat(drop_excessive(cut_into(lines, 2), limit=1, tally=FilterCounts()))
    with pytest.raises(BadInput, match=r"some\.cdxj:4: "):
        find_excessive([lines], limit=1, source="some.cdxj")


def test_a_group_of_any_length_is_never_held() -> None:
    """Batches of one urlkey without end: the first line of the next urlkey must come out after a bounded look-ahead."""
    taken = 0

    def endless() -> object:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield [capture("a", str(20240101000000 + number))]
        for number in range(10_000):
            taken += 1
            yield [capture(f"b{number:05d}")]

    stream: object = drop_excessive(endless(), limit=10, tally=FilterCounts())  # type: ignore[arg-type]
    first: Batch = next(stream)  # type: ignore[call-overload]
    assert first == [capture("b00000")]
    assert taken < 10_005
