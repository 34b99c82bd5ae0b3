"""Headers of strangers: whatever they say, there is one of a few answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.serve.http.codings import CODINGS, IDENTITY, choose_coding
from webmill.serve.http.conditional_requests import (
    UnsatisfiableRange,
    http_date,
    is_not_modified,
    parse_range,
    precondition_fails,
)

NOW = datetime(2024, 4, 1, 10, 0, 0, 5, tzinfo=UTC)
ETAG = b'"abc"'
DIGITS = st.text("0123456789", max_size=25)
RANGES = st.one_of(
    st.builds(lambda a, b: f"bytes={a}-{b}", DIGITS, DIGITS),
    st.text("bytes=0123456789-, ", max_size=40),
    st.builds(lambda many: "bytes=" + ",".join(many), st.lists(st.just("0-1"), max_size=50)),
).map(str.encode)
WORDS = st.one_of(st.binary(max_size=60), st.text('W/"abc*, ;q=0.1', max_size=30).map(str.encode))


@given(RANGES, st.integers(0, 1000), st.none() | WORDS)
@settings(deadline=None)
def test_a_range_lies_within_the_value_or_is_none(asked: bytes, size: int, condition: bytes | None) -> None:
    headers = {b"range": asked} | ({b"if-range": condition} if condition is not None else {})
    try:
        found = parse_range(headers, size, etag=ETAG, modified=NOW)
    except UnsatisfiableRange:
        return
    assert found is None or 0 <= found[0] < found[1] <= size


@pytest.mark.parametrize("asked", [b"bytes=-", b"bytes= -", b"bytes=- ", b"bytes=\t-\t"])
def test_a_range_without_a_number_is_none(asked: bytes) -> None:
    assert parse_range({b"range": asked}, 100, etag=ETAG) is None


@given(st.integers(0, 50), st.integers(0, 60), st.integers(1, 50))
@settings(deadline=None)
def test_a_range_is_what_slicing_gives(first: int, last: int, size: int) -> None:
    data = bytes(range(size))
    try:
        found = parse_range({b"range": f"bytes={first}-{last}".encode()}, size, etag=ETAG)
    except UnsatisfiableRange:
        assert first >= size
        return
    if last < first:
        assert found is None
    else:
        assert found
        assert data[slice(*found)] == data[first : last + 1]


@given(st.dictionaries(st.sampled_from([b"if-match", b"if-none-match", b"if-modified-since"]), WORDS))
@settings(deadline=None)
def test_any_condition_has_an_answer(headers: dict[bytes, bytes]) -> None:
    assert precondition_fails(headers, ETAG, NOW) in (True, False)
    assert is_not_modified(headers, ETAG, NOW) in (True, False)


def test_a_date_that_we_told_is_known_to_the_second() -> None:
    assert is_not_modified({b"if-modified-since": http_date(NOW)}, ETAG, NOW)
    assert not precondition_fails({b"if-unmodified-since": http_date(NOW)}, ETAG, NOW)
    assert parse_range({b"range": b"bytes=0-0", b"if-range": http_date(NOW)}, 9, etag=ETAG, modified=NOW) == (0, 1)


@given(WORDS)
@settings(deadline=None)
def test_any_wish_for_a_coding_chooses_one(accepted: bytes) -> None:
    assert choose_coding(accepted) in (IDENTITY, *CODINGS)
