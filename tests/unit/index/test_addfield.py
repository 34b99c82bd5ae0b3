"""Adding fields: every line comes out, changed where it is CDXJ and untouched where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import capture, cut_into, flat
from webmill.errors import Misconfigured
from webmill.index.cdxj.add_fields import AddFieldCounts, add_by_function, add_fields, load_function
from webmill.index.lines import read_batches

names = st.sampled_from(["url", "mime", "collection", "a", 'q"', "é"])
values = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.lists(st.integers(), max_size=2))
separators = st.sampled_from([(", ", ": "), (",", ":")])


def spell(data: object, separators: tuple[str, str]) -> bytes:
    return json.dumps(data, separators=separators).encode()


def add(line: bytes, **fields: str) -> tuple[bytes, AddFieldCounts]:
    counts = AddFieldCounts()
    (result,) = flat(add_fields([[line]], fields, counts=counts))
    return result, counts


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.dictionaries(names, values, max_size=4), separators, st.sampled_from(["", " "])), max_size=6),
    st.dictionaries(st.sampled_from(["collection", "a", "x y"]), st.text(st.characters(codec="utf-8")), min_size=1),
    st.integers(1, 3),
)
def test_the_json_gets_the_fields_and_keeps_all_else(
    rows: list[tuple[dict[str, object], tuple[str, str], str]], fields: dict[str, str], size: int
) -> None:
    counts = AddFieldCounts()
    lines = [b"com,a)/ 20240101000000 %b%b\n" % (spell(data, by), end.encode()) for data, by, end in rows]
    results = flat(add_fields(cut_into(lines, size), fields, counts=counts))
    assert counts.changed + counts.skipped == len(results) == len(rows)
    for (data, _, _), line, result in zip(rows, lines, results, strict=True):
        if result == line:
            half_a_pair = b"\\ud" in line  # which is no text, so no JSON
            assert half_a_pair or data == data | fields
            continue
        head, text = result[:23], result[23:-1]
        assert head == line[:23]
        assert list(json.loads(text).items()) == list((data | fields).items())


def test_a_spliced_line_is_the_old_line_with_an_end() -> None:
    assert (
        add(b'a 20240101000000 {"url": "x"}\n', collection="X")[0]
        == b'a 20240101000000 {"url": "x", "collection": "X"}\n'
    )
    assert (
        add(b'a 20240101000000 {"url":"x"}\n', collection="X")[0] == b'a 20240101000000 {"url":"x","collection":"X"}\n'
    )
    assert add(b'a 20240101000000 {"n":1}\n', b="2", c="3")[0] == b'a 20240101000000 {"n":1,"b":"2","c":"3"}\n'


def test_every_line_of_a_batch_keeps_its_own_spelling() -> None:
    lines = [b'a 20240101000000 {"url": "x"}\n', b'b 20240101000000 {"url":"x"}\n', b'c 20240101000000 {"n": 1}\n']
    assert flat(add_fields([lines], {"c": "X"}, counts=AddFieldCounts())) == [
        b'a 20240101000000 {"url": "x", "c": "X"}\n',
        b'b 20240101000000 {"url":"x","c":"X"}\n',
        b'c 20240101000000 {"n": 1, "c": "X"}\n',
    ]


def test_an_existing_key_is_overwritten_where_it_stands() -> None:
    line = b'a 20240101000000 {"x": "1", "collection": "old", "y": "2"}\n'
    assert add(line, collection="new")[0] == b'a 20240101000000 {"x": "1", "collection": "new", "y": "2"}\n'


@pytest.mark.parametrize("key", [b'"collection"', rb'"collect\u0069on"'])
@pytest.mark.parametrize("value", [b"null", b"1", b'"x"', b"[]", b"{}"])
def test_a_key_is_never_there_twice_however_it_is_spelled(key: bytes, value: bytes) -> None:
    result, _ = add(b"a 20240101000000 {%b: %b}\n" % (key, value), collection="X")
    assert result == b'a 20240101000000 {"collection": "X"}\n'


def test_a_key_that_is_only_in_a_value_is_no_key() -> None:
    line = rb'a 20240101000000 {"url": "\"collection\": ", "o": {"collection": "in"}, "z": "collection"}' + b"\n"
    assert add(line, collection="X")[0] == line[:-2] + b', "collection": "X"}\n'


def test_empty_objects_and_lines_without_json_get_the_fields_alone() -> None:
    for line in (b"a 20240101000000 {}\n", b"a 20240101000000\n", b"a 20240101000000 { } \n"):
        result, counts = add(line, collection="X")
        assert result.replace(b"{ ", b"{") == b'a 20240101000000 {"collection": "X"}\n'
        assert counts.changed == 1


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"junk\n",
        b"a b\n",
        b'a {"url": "no timestamp"}\n',
        b'a 20240101000000 {"url": "x}\n',
        b"a 20240101000000 [1]\n",
        b'a 20240101000000 {"url": NaN}\n',
        b'a 20240101000000 {"url": "x"} {"y": "z"}\n',
        b"a 20240101000000 " + b'{"a":' * 200_000 + b"\n",
        b'a 20240101000000 {"collection": %b}\n' % (b"[" * 200_000),
        b'a 20240101000000 {"collection": %b}\n' % (b"1" * 10_000),
        b'a 20240101000000 {"collection": "\xff"}\n',
    ],
)
def test_a_malformed_line_passes_unchanged_and_is_counted(line: bytes) -> None:
    good = capture("b")
    counts = AddFieldCounts()
    results = flat(add_fields([[good, line, good]], {"collection": "X"}, counts=counts))
    assert results[1] == line
    assert results[0] == results[2] != good
    assert (counts.changed, counts.skipped) == (2, 1)


def test_bytes_outside_utf8_in_other_values_survive() -> None:
    line = b'a 20240101000000 {"url": "caf\xe9"}\n'
    assert add(line, collection="X")[0] == line[:-2] + b', "collection": "X"}\n'


def test_hostile_lines_all_come_out(shared_data: Path) -> None:
    counts = AddFieldCounts()
    source = shared_data / "hostile" / "cdxj_bad.cdxj"
    lines = flat(read_batches(source, max_line=4 << 20))
    results = flat(add_fields(read_batches(source, max_line=4 << 20), {"collection": "X"}, counts=counts))
    assert len(results) == len(lines) == counts.changed + counts.skipped
    assert counts.skipped


def test_no_field_and_an_impossible_field_are_told_to_the_operator() -> None:
    with pytest.raises(Misconfigured):
        add(capture("a"))
    with pytest.raises(Misconfigured):
        flat(add_fields([[capture("a")]], {"a": "\udc80"}, counts=AddFieldCounts()))


def test_a_function_of_the_operator_changes_the_json(tmp_path: Path) -> None:
    file = tmp_path / "year.py"
    file.write_text("def addfield(surt_key, timestamp, json_data):\n    return json_data | {'year': timestamp[:4]}\n")
    counts = AddFieldCounts()
    line = b'com,a)/ 20240101000000 {"url":"x"}\n'
    (result,) = flat(add_by_function([[line]], load_function(file), counts=counts))
    assert result == b'com,a)/ 20240101000000 {"url":"x","year":"2024"}\n'


def test_errors_of_a_function_are_counted_and_named_and_lose_no_line() -> None:
    def picky(key: str, stamp: str, data: dict[str, object]) -> dict[str, object]:
        return {"b": 1 // 0} if key == "b" else None if key == "c" else data  # type: ignore[return-value]

    counts = AddFieldCounts()
    lines = [capture("a"), capture("b"), b"junk\n", capture("c")]
    assert flat(add_by_function(cut_into(lines, 2), picky, counts=counts)) == lines
    assert (counts.changed, counts.skipped, counts.failed) == (1, 3, 2)
    assert [failure.split(":")[0] for failure in counts.failures] == ["line 2", "line 4"]
    assert "ZeroDivisionError" in counts.failures[0]


@pytest.mark.parametrize("source", ["def addfield(:", "x = 1", "import nothing_of_this_name"])
def test_a_file_that_defines_no_function_is_told_to_the_operator(tmp_path: Path, source: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(source)
    with pytest.raises(Misconfigured, match=r"bad\.py"):
        load_function(file)
    with pytest.raises(Misconfigured):
        load_function(tmp_path / "none.py")
