"""One field of every line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import capture, flat
from webmill.errors import Misconfigured
from webmill.index.cdxj.extract_field import FieldCounts, field_as_json, field_as_text

LINES = [
    b'a 20240101000000 {"url": "http://a/", "n": 1, "f": {"x": [1, 2]}, "t": true, "z": null, "e": "\\u00e9\\"\\n"}\n',
    b"b 20240101000000 {}\n",
    b"junk\n",
    b"c 20240101000000 {broken\n",
]


@pytest.mark.parametrize(
    ("name", "as_json", "as_text"),
    [
        ("url", b'"http://a/"', b"http://a/"),
        ("n", b"1", b"1"),
        ("f", b'{"x": [1, 2]}', b'{"x": [1, 2]}'),
        ("t", b"true", b"true"),
        ("z", b"null", b"null"),
        ("e", b'"\\u00e9\\"\\n"', 'é"\\n'.encode()),
    ],
)
def test_a_field_is_given_as_json_or_as_text(name: str, as_json: bytes, as_text: bytes) -> None:
    counts = FieldCounts()
    assert flat(field_as_json([LINES], name, counts=counts)) == [as_json + b"\n"]
    assert flat(field_as_text([LINES], name, counts=FieldCounts(), default=b"?")) == [as_text + b"\n", b"?\n"]
    assert (counts.extracted, counts.missing, counts.malformed) == (1, 1, 2)


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_json_values_read_back(values: list[str]) -> None:
    lines = [capture("a", x=value) for value in values]
    assert [json.loads(line) for line in flat(field_as_json([lines], "x", counts=FieldCounts()))] == values
    assert len(flat(field_as_text([lines], "x", counts=FieldCounts()))) == len(values)


def test_of_a_key_that_is_there_twice_the_last_counts() -> None:
    line = b'a 20240101000000 {"x": "1", "x": "2"}\n'
    assert flat(field_as_text([[line]], "x", counts=FieldCounts())) == [b"2\n"]


def test_deep_json_and_odd_bytes_are_counted_not_raised() -> None:
    counts = FieldCounts()
    lines = [b"a 20240101000000 " + b'{"a":' * 200_000 + b"\n", b'a 20240101000000 {"x": "caf\xe9"}\n']
    assert flat(field_as_text([lines], "x", counts=counts)) == [b"caf\xe9\n"]
    assert counts.malformed == 1


def test_a_name_that_no_field_can_have_is_told_to_the_operator() -> None:
    with pytest.raises(Misconfigured):
        flat(field_as_json([LINES], 'a"b', counts=FieldCounts()))
