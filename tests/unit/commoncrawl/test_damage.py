"""Cut or corrupt any of the three files anywhere: the other pages come out unchanged, the damaged ones as errors."""

from __future__ import annotations

import io
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.commoncrawl.triples import (
    MIXED,
    WARC,
    WAT,
    WET,
    Spec,
    Triple,
    errors,
    make_plain,
    make_triple,
    names,
    pages,
)
from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import ErrorDocument, Page
from webmill.errors import BadInput
from webmill.formats.warc.typed_records import FileType

GZIP = make_triple(MIXED)
PLAIN = make_plain(MIXED)
WHOLE = {spec.name: page for spec, page in zip(MIXED, pages(GZIP.read()), strict=True)}
MIXED_NAMES = [spec.name for spec in MIXED]
KINDS = st.sampled_from([WARC, WAT, WET])


def content(page: Page) -> tuple[object, ...]:
    """All but the offsets, which differ where a file was cut in its middle."""
    records = (page.request, page.capture, page.metadata, page.wet)
    described = (page.wat.request, page.wat.capture, page.wat.metadata)
    return tuple(part and (part.headers, part.content) for part in (*records, *described))


def check(triple: Triple, result: list[Page | ErrorDocument], file_type: FileType, start: int, end: int) -> None:
    """`[start, end)` of the undamaged file is not as it was."""
    damaged = triple.damaged_by(file_type, start, end)
    whole = names(result)
    assert len(whole) == len(set(whole))
    for page in pages(result):
        name = (page.record_id or "")[len("<urn:uuid:res-") : -1]
        assert content(page) == content(WHOLE[name])
    missing = [spec.name for spec in MIXED if spec.name not in whole]
    assert set(missing) <= damaged
    # Bytes that no checksum covers (a time stamp in a gzip header) may change without any harm.
    assert not missing or errors(result)


@settings(deadline=None, max_examples=150)
@given(kind=KINDS, where=st.floats(0, 1), change=st.integers(1, 255))
def test_one_changed_byte_costs_only_the_page_it_is_in(kind: FileType, where: float, change: int) -> None:
    data = bytearray(GZIP.of(kind))
    at = min(int(where * len(data)), len(data) - 1)
    data[at] ^= change
    result = GZIP.replacing(kind, bytes(data)).read()
    check(GZIP, result, kind, at, at + 1)
    # A first byte that became a line end is an empty line between records, and no part of the damage.
    assert all(error.start - 1 <= at < error.end for error in errors(result) if error.file_type is kind)


@settings(deadline=None, max_examples=150)
@given(kind=KINDS, where=st.floats(0, 1))
def test_a_file_cut_anywhere_costs_only_the_pages_after_the_cut(kind: FileType, where: float) -> None:
    data = GZIP.of(kind)
    at = int(where * len(data))
    check(GZIP, GZIP.replacing(kind, data[:at]).read(), kind, at, len(data))


@settings(deadline=None, max_examples=150)
@given(kind=KINDS, ends=st.tuples(st.floats(0, 1), st.floats(0, 1)), hole=st.booleans())
def test_a_missing_stretch_costs_only_the_pages_in_it(kind: FileType, ends: tuple[float, float], hole: bool) -> None:
    data = GZIP.of(kind)
    start, end = sorted(int(where * len(data)) for where in ends)
    filled = bytes(end - start) if hole else b""
    check(GZIP, GZIP.replacing(kind, data[:start] + filled + data[end:]).read(), kind, start, max(end, start + 1))


@settings(deadline=None, max_examples=100)
@given(kind=KINDS, where=st.floats(0, 1))
def test_a_plain_file_cut_anywhere_costs_only_the_pages_after_the_cut(kind: FileType, where: float) -> None:
    data = PLAIN.of(kind)
    at = int(where * len(data))
    result = PLAIN.replacing(kind, data[:at]).read()
    assert set(MIXED_NAMES) - set(names(result)) <= PLAIN.damaged_by(kind, at, len(data))


@pytest.mark.parametrize("files", [(WARC,), (WARC, WET)])
@settings(deadline=None, max_examples=150)
@given(where=st.floats(0, 1), change=st.integers(1, 255))
def test_without_a_wat_file_damage_costs_the_page_it_is_in_and_at_most_its_neighbours(
    files: tuple[FileType, ...], where: float, change: int
) -> None:
    data = bytearray(GZIP.warc)
    at = min(int(where * len(data)), len(data) - 1)
    data[at] ^= change
    wet = io.BytesIO(GZIP.wet) if WET in files else None
    result = list(read_pages(io.BytesIO(bytes(data)), wet=wet))
    damaged = GZIP.damaged_by(WARC, at, at + 1)
    missing = [name for name in MIXED_NAMES if name not in names(result)]
    near = {
        other
        for name in damaged & set(MIXED_NAMES)
        for other in MIXED_NAMES[max(MIXED_NAMES.index(name) - 1, 0) : MIXED_NAMES.index(name) + 2]
    }
    assert set(missing) <= near | damaged
    for page in pages(result):
        name = (page.record_id or "")[len("<urn:uuid:res-") : -1]
        assert page.text == WHOLE[name].text
        if name not in damaged:
            assert (page.request, page.metadata) == (WHOLE[name].request, WHOLE[name].metadata)


# --- every byte of a small file ---------------------------------------------------------------------------------------

SMALL = make_triple([Spec("a"), Spec("b"), Spec("c")])


@pytest.mark.parametrize("kind", [WARC, WAT, WET])
def test_every_record_broken_in_turn_is_an_error_with_its_place(kind: FileType) -> None:
    for name, files in SMALL.places.items():
        for start, end in files.get(kind, []):
            data = bytearray(SMALL.of(kind))
            middle = (start + end) // 2
            data[middle] ^= 0x55
            result = SMALL.replacing(kind, bytes(data)).read()
            assert names(result) == [other for other in "abc" if other != name]
            (error,) = errors(result)
            assert (error.file_type, error.start, error.end) == (kind, start, end)
            assert error.document_kind == f"{kind}_ERROR"
            if name in "abc":
                assert error.target_uri == f"https://example.org/{name}"


def test_a_lost_response_is_named_by_the_wat_file_with_the_places_of_all_its_records() -> None:
    data = bytearray(SMALL.warc)
    start, end = SMALL.places["b"][WARC][1]
    data[start + 12 : start + 20] = bytes(8)
    result = SMALL.replacing(WARC, bytes(data)).read()
    (error,) = errors(result)
    assert error.record_id == "<urn:uuid:res-b>"
    for kind in (WARC, WAT, WET):
        places = SMALL.places["b"][kind]
        assert error.offsets[kind] == (places[0][0], places[-1][1])
    assert (error.start, error.end) == (start, end)
    assert error.page is None


def test_a_lost_response_is_named_by_its_own_header_where_there_is_no_wat_file() -> None:
    data = bytearray(SMALL.warc)
    end = SMALL.places["b"][WARC][1][1]
    data[end - 5] ^= 1  # the CRC
    result = list(read_pages(io.BytesIO(bytes(data)), wet=io.BytesIO(SMALL.wet)))
    assert names(result) == ["a", "c"]
    (error,) = errors(result)
    assert (error.record_id, error.target_uri) == ("<urn:uuid:res-b>", "https://example.org/b")
    assert error.offsets[WET] == SMALL.places["b"][WET][0]


def test_a_warc_file_that_ends_between_records_leaves_its_lost_pages_as_errors() -> None:
    at = SMALL.places["a"][WARC][-1][1]
    result = SMALL.replacing(WARC, SMALL.warc[:at]).read()
    assert names(result) == ["a"]
    assert [error.target_uri for error in errors(result)] == ["https://example.org/b", "https://example.org/c"]
    assert [error.reason for error in errors(result)] == ["missing_record", "missing_record"]
    assert errors(result)[0].start == at


def test_a_wet_file_that_ends_between_records_leaves_no_page_without_its_text() -> None:
    at = SMALL.places["a"][WET][-1][1]
    result = SMALL.replacing(WET, SMALL.wet[:at]).read()
    assert names(result) == ["a"]
    assert [error.reason for error in errors(result)] == ["missing_wet", "missing_wet"]
    assert all(error.page and error.page.title for error in errors(result))


def test_an_error_document_keeps_what_could_be_read() -> None:
    data = bytearray(SMALL.wet)
    start, end = SMALL.places["b"][WET][0]
    data[(start + end) // 2] ^= 1
    (error,) = errors(SMALL.replacing(WET, bytes(data)).read())
    assert error.page
    assert (error.page.title, error.page.text) == ("Title of b", None)


def test_damage_that_touches_is_one_error() -> None:
    data = bytearray(SMALL.warc)
    start, end = SMALL.places["b"][WARC][1]
    data[start] = 0  # padding for one reader, and no record after it
    (error,) = errors(SMALL.replacing(WARC, bytes(data)).read())
    assert (error.start, error.end, error.reason) == (start, end, "not_warc")


@cache
def many() -> Triple:
    return make_triple([Spec(str(number)) for number in range(1300)])


@pytest.mark.parametrize("kind", [WAT, WET])
def test_a_long_stretch_of_damage_costs_its_pages_and_not_those_that_were_read_ahead(kind: FileType) -> None:
    start, end = many().places["100"][kind][0][0], many().places["150"][kind][0][0]
    data = many().of(kind)
    result = many().replacing(kind, data[:start] + bytes(end - start) + data[end:]).read()
    assert names(result) == [str(number) for number in range(1300) if not 100 <= number < 150]
    assert {(error.start, error.end) for error in errors(result)} == {(start, end)}
    assert len(errors(result)) == 50


def test_more_lost_pages_than_are_read_ahead_do_not_derail() -> None:
    start, end = many().places["5"][WARC][0][0], many().places["1200"][WARC][0][0]
    result = many().replacing(WARC, many().warc[:start] + bytes(end - start) + many().warc[end:]).read()
    assert names(result) == [str(number) for number in (*range(5), *range(1200, 1300))]
    assert len(errors(result)) == 1195
    assert {(error.start, error.end) for error in errors(result)} == {(start, end)}
    assert [page.text for page in pages(result)] == [f"Title of {name}\nBody of {name}" for name in names(result)]


def test_many_pages_gone_without_a_trace_do_not_derail() -> None:
    start, end = many().places["5"][WARC][0][0], many().places["1200"][WARC][0][0]
    result = many().replacing(WARC, many().warc[:start] + many().warc[end:]).read()
    assert names(result)[:5] == ["0", "1", "2", "3", "4"]
    assert names(result)[-70:] == [str(number) for number in range(1230, 1300)]
    assert [page.text for page in pages(result)] == [f"Title of {name}\nBody of {name}" for name in names(result)]


@pytest.mark.parametrize("kind", [WARC, WAT, WET])
def test_a_source_that_is_not_a_file_and_gives_little_at_a_time_tells_the_same(kind: FileType) -> None:
    class Dripping:
        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def read(self, size: int, /) -> bytes:
            return self._data.read(min(size, 100))

    data = bytearray(SMALL.of(kind))
    data[len(data) // 2] ^= 0x55
    triple = SMALL.replacing(kind, bytes(data))
    dripped = list(read_pages(Dripping(triple.warc), Dripping(triple.wat), Dripping(triple.wet)))
    assert dripped == triple.read()


def test_a_description_that_is_no_json_is_told_when_it_is_read() -> None:
    triple = make_plain([Spec("a")])
    broken = triple.wat.replace(b'"Title of a"', b'"Title of a\\')
    (page,) = triple.replacing(WAT, broken).read()
    assert isinstance(page, Page)
    with pytest.raises(BadInput):
        _ = page.title
