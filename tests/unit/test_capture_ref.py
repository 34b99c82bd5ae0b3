"""Where a capture lies: names, offsets and digests are proven in one place, whatever an index says."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webmill
from tests.thoroughness import examples
from webmill.errors import BadInput
from webmill.formats.cdx import cdxj
from webmill.model import MAX_FILENAME, CaptureRef, check_filename, check_position, normalise_digest

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
NUMBERS = st.integers(-(1 << 70), 1 << 70)
POSITIONS = ANYTHING | NUMBERS | NUMBERS.map(str) | st.sampled_from(["٣", "1_0", " 1", "+1", "0x1", "1e3", "", True])


@given(POSITIONS, st.sampled_from([0, 1]))
@settings(deadline=None, max_examples=examples(500))
def test_any_value_is_a_position_or_refused(value: Any, least: int) -> None:
    with suppress(BadInput):
        found = check_position(value, name="offset", least=least)
        assert type(found) is int
        assert least <= found < 1 << 63
        assert found == int(value)


@pytest.mark.parametrize("value", [10**5000, -1, 1 << 63, "9" * 19 + "0", True, 1.0, [[[]]], {}], ids=lambda _: "")
def test_what_no_file_is_long_enough_for_is_refused_in_few_words(value: Any) -> None:
    with pytest.raises(BadInput) as refused:
        check_position(value, name="length")
    assert refused.value.reason == "bad_length"
    assert len(refused.value.message) < 120


@given(ANYTHING | st.text(min_size=MAX_FILENAME - 1, max_size=MAX_FILENAME + 1))
@settings(deadline=None, max_examples=examples(500))
def test_any_value_is_a_name_of_a_file_or_refused(value: Any) -> None:
    with suppress(BadInput):
        found = check_filename(value)
        assert found == value
        assert 0 < len(found) <= MAX_FILENAME
        assert not set(found) & {"\0", "\n", "\r", "\x7f"}


@pytest.mark.parametrize(
    ("text", "spelled"),
    [("", ""), ("-", ""), ("ABC", "sha1:ABC"), ("sha1:ABC", "sha1:ABC"), ("sha256:0f", "sha256:0f")],
)
def test_a_digest_has_one_spelling(text: str, spelled: str) -> None:
    assert normalise_digest(text) == spelled
    assert normalise_digest(spelled) == spelled


@given(st.dictionaries(st.sampled_from(["url", "filename", "offset", "length", "digest", "mime"]), POSITIONS))
@settings(deadline=None, max_examples=examples(500))
def test_any_line_says_where_its_capture_lies_or_is_refused(fields: dict[str, Any]) -> None:
    raw = b"com,example)/ 20240101000000 " + json.dumps(fields).encode()
    with suppress(BadInput):
        capture = cdxj.read_index_line(raw).capture
        assert capture.filename
        assert 0 <= capture.offset < 1 << 63
        assert 0 <= capture.length < 1 << 63
        assert not capture.digest or ":" in capture.digest


def test_a_line_says_where_its_capture_lies() -> None:
    line = cdxj.read_index_line(
        b'com,example)/ 20240101000000 {"url": "https://example.com/", "mime": "warc/revisit", "status": "200", '
        b'"digest": "ABC", "length": 7, "offset": "5", "filename": "a.warc.gz"}\n'
    )
    assert line == cdxj.IndexLine(
        capture=CaptureRef(
            url="https://example.com/",
            urlkey="com,example)/",
            timestamp="20240101000000",
            filename="a.warc.gz",
            offset=5,
            length=7,
            digest="sha1:ABC",
        ),
        mime="warc/revisit",
        status="200",
    )
    assert line.is_revisit
    assert (line.capture.end, line.capture.place) == (12, ("a.warc.gz", 5))


def test_a_place_that_is_none_is_refused_with_the_line_that_says_it() -> None:
    with pytest.raises(BadInput, match=r"com,example\)/ 20240101000000: the filename is missing"):
        cdxj.read_index_line(b'com,example)/ 20240101000000 {"offset": "1", "length": "1"}')


# --- no second shape --------------------------------------------------------------------------------------------------

SOURCE = Path(webmill.__file__).parent
MAY = {  # structs with the bounds of a record, or of something else, and why they are no second `CaptureRef`
    "model.CaptureRef": "the one reference",
    "model.Document": "its columns are flat in Parquet and JSON; `capture` returns the reference",
    "model.Record": "a record that was read, with its content, of any kind",
    "formats.warc.scan.ScannedRecord": "a record that was passed by, of any kind",
    "formats.cdx.zipnum.ZipnumBlock": "of an index, not of an archive",
    "crawl.frontier.base.LastVisit": "millions are stored: flat, with the names of the reference",
    "index.columnar.columns._TableFields": "Common Crawl's columns of one line",
    "archive.capture_encoding.EncodedCapture": "within bytes that are not yet in a file",
    "search.meaning.passages.Passage": "characters of a text",
    "infra.storage.http_answers.ReadRequest": "a range of any file",
    "pipeline.save.SavedCapture": "what `webmill save` prints of a capture, or of none",
    "pipeline.publish.redirects._RemovedRow": "columns of a document; made into a reference when it is read",
    "cli.warc.RecordRow": "what `webmill warc list` prints of any record",
}


def structs_with_bounds() -> Iterator[str]:
    for file in SOURCE.rglob("*.py"):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and has_bounds(node):
                yield f"{module}.{node.name}"


def has_bounds(node: ast.ClassDef) -> bool:
    named = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
    names = {
        target.id.removeprefix("warc_").removeprefix("record_") for target in named if isinstance(target, ast.Name)
    }
    return bool(names & {"offset", "start"}) and "length" in names


def test_nothing_else_says_where_a_capture_lies() -> None:
    assert set(structs_with_bounds()) - MAY.keys() == set()


def test_every_exception_is_still_one() -> None:
    assert MAY.keys() - set(structs_with_bounds()) == set()
