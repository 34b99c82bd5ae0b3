"""Real and hostile files: agreement with warcio and FastWARC where they are right, exact words where they are not."""

from __future__ import annotations

import gzip
import io
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from webmill.formats.warc.reader import read_records
from webmill.formats.warc.single_record import read_record_at
from webmill.model import Damage, Record

with warnings.catch_warnings():  # it warns of its own old classes while it is imported
    warnings.simplefilter("ignore")
    from fastwarc import ArchiveIterator as FastWarcIterator

TRIPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc"
PER_RECORD = [
    "warc/commoncrawl/cc-2.warc.gz",
    "warc/commoncrawl/sample-0000.warc.gz",
    "warc/commoncrawl/whirlwind.warc",
    "warc/commoncrawl/whirlwind.warc.gz",
    "warc/commoncrawl/whirlwind.warc.wat",
    "warc/commoncrawl/whirlwind.warc.wat.gz",
    "warc/commoncrawl/whirlwind.warc.wet",
    "warc/commoncrawl/whirlwind.warc.wet.gz",
    "warc/warcio/example-digest.warc",
    "warc/warcio/example-iana.org-chunked.warc",
    "warc/warcio/example-resource.warc.gz",
    "warc/warcio/example-space-in-target-uri.warc.gz",
    "warc/warcio/example-wget-bad-target-uri.warc.gz",
    "warc/warcio/example.warc",
    "warc/warcio/example.warc.gz",
    "warc/warcio/post-test.warc.gz",
    f"{TRIPLE}.gz",
    f"{TRIPLE}.wat.gz",
    f"{TRIPLE}.wet.gz",
]
# One gzip member around all records: warcio refuses these, FastWARC reads them.
AROUND_ALL = [
    "warc/warcio/example-bad-non-chunked.warc.gz",
    "warc/warcio/example-bad.warc.gz.bad",
    "warc/wet-damaged/corrupt_starts_with_conversion.wet.gz",
    "warc/wet-damaged/corrupt_two_warcinfo.wet.gz",
    "warc/wet-damaged/corrupt_warcconversion_1.wet.gz",
    "warc/wet-damaged/corrupt_warcconversion_2.wet.gz",
    "warc/wet-damaged/corrupt_warcinfo_1.wet.gz",
    "warc/wet-damaged/filter_test_1.wet.gz",
    "warc/wet-damaged/fragment3.wet.gz",
]
ARCS = ["warc/warcio/example.arc", "warc/warcio/example.arc.gz"]

# name: how many records, and every damage. What the libraries do with them is in the comments.
DAMAGED: dict[str, tuple[int, list[tuple[int, int, str]]]] = {
    # both hand out the last record with 3,479 of 7,758 bytes as if it were whole
    "warc/wet-damaged/appended_zip_fragment_unexpected_eof.wet.gz": (16, [(49258, 51200, "truncated_member")]),
    "warc/wet-damaged/fragment1_incomplete_last.wet.gz": (2, [(0, 4349, "truncated_record")]),
    # FastWARC gives a record of no bytes and no error
    "warc/wet-damaged/file_headers_only.wet.gz": (0, [(0, 397, "truncated_record")]),
    "warc/wet-damaged/file_and_wet_headers_only.wet.gz": (1, [(0, 611, "missing_terminator")]),
    "warc/wet-damaged/fragment1_asthma_incomplete_last.wet.gz": (2, [(0, 4335, "missing_terminator")]),
    "warc/wet-damaged/fragment2_no_header.wet.gz": (1, [(0, 7813, "not_warc"), (0, 7813, "truncated_record")]),
    "warc/commoncrawl/example.wet.gz": (3, [(0, 1942, "missing_terminator")]),
    # FastWARC raises after three records; warcio skips the left-over line with a note on stderr
    "warc/warcio/example-trunc.warc": (4, [(2560, 2566, "missing_terminator")]),
    # a record spread over two members
    "warc/warcio/example-wrong-chunks.warc.gz": (1, [(0, 516, "truncated_record"), (516, 1130, "not_warc")]),
    "warc/warcio/bad.arc": (1, [(0, 202, "bad_length"), (262, 331, "bad_length")]),
    "warc/warcio/example-space-in-url.arc": (1, [(151, 1873, "truncated_record")]),
    "hostile/dup_content_length.warc": (0, [(0, 112, "bad_length")]),
    "hostile/cdx_injection_uris.warc": (13, [(12892, 113104, "too_large")]),
    "hostile/folded_headers.warc": (1, []),
    "hostile/record_smuggle_body.warc": (1, []),
    "hostile/bomb_10MBgz_in_10KB.gz": (0, [(0, 9750, "not_warc")]),
    "hostile/bomb_gz_in_gz.gz": (0, [(0, 483, "not_warc")]),
    "hostile/bomb_200MB.zst": (0, [(0, 6122, "not_warc")]),
    "hostile/zstd_2GB_window.zst": (0, [(0, 17, "bad_zstd")]),
    "hostile/bomb_1GB.br": (0, [(0, 1516, "not_warc")]),
    "warc/commoncrawl/CC-MAIN-2024-22.warc.paths.gz": (0, [(0, 817, "not_warc")]),
}

Row = tuple[str | None, str | None, str | None, bytes]


def read(path: Path) -> list[Record | Damage]:
    with path.open("rb") as file:
        return list(read_records(file))


def rows(found: list[Record | Damage]) -> list[tuple[int, Row]]:
    assert [item for item in found if isinstance(item, Damage)] == []
    return [
        (item.offset, (item.type, item.record_id, item.target_uri, item.content))
        for item in found
        if isinstance(item, Record)
    ]


def fastwarc_rows(path: Path) -> Iterator[tuple[int, Row]]:
    with path.open("rb") as file:
        for record in FastWarcIterator(file, parse_http=False):
            get = record.headers.get
            uri = get("WARC-Target-URI")
            uri = uri.strip("<>") if uri else uri
            yield record.stream_pos, (get("WARC-Type"), get("WARC-Record-ID"), uri, record.reader.read())


def warcio_rows(path: Path) -> Iterator[tuple[int, Row]]:
    with path.open("rb") as file:
        archive = WarcioIterator(file, no_record_parse=True)
        for record in archive:
            get = record.rec_headers.get_header
            content = record.raw_stream.read()
            uri = get("WARC-Target-URI") or get("uri")
            yield archive.get_record_offset(), (record.rec_type, get("WARC-Record-ID"), uri, content)


def with_spaces_escaped(found: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """As warcio gives target URIs."""
    return [(at, (kind, name, uri and uri.replace(" ", "%20"), body)) for at, (kind, name, uri, body) in found]


@pytest.mark.parametrize("name", PER_RECORD)
def test_both_libraries_agree_on_whole_files(shared_data: Path, name: str) -> None:
    found = rows(read(shared_data / name))
    assert found
    assert found == list(fastwarc_rows(shared_data / name))
    assert with_spaces_escaped(found) == list(warcio_rows(shared_data / name))


@pytest.mark.parametrize("name", AROUND_ALL)
def test_fastwarc_agrees_on_files_compressed_as_a_whole(shared_data: Path, name: str) -> None:
    found = rows(read(shared_data / name))
    assert len(found) > 1
    assert [row for _, row in found] == [row for _, row in fastwarc_rows(shared_data / name)]


@pytest.mark.parametrize("name", ARCS)
def test_warcio_agrees_on_arc_files(shared_data: Path, name: str) -> None:
    (_, header), *found = rows(read(shared_data / name))
    (_, theirs), *expected = warcio_rows(shared_data / name)
    assert found == expected
    assert header[:3] == theirs[:3]
    assert header[3].startswith(b"1 0 LiveWeb Capture\nURL IP-address")  # warcio swallows these two lines


@pytest.mark.parametrize("name", DAMAGED)
def test_what_the_libraries_hide_is_told_exactly(shared_data: Path, name: str) -> None:
    found = read(shared_data / name)
    damages = [(item.offset, item.end, item.reason) for item in found if isinstance(item, Damage)]
    assert (len(found) - len(damages), damages) == DAMAGED[name]


def test_a_folded_header_of_the_hostile_set_is_joined(shared_data: Path) -> None:
    [found] = read(shared_data / "hostile/folded_headers.warc")
    assert isinstance(found, Record)
    assert found.target_uri == "http://a.com/ continued/part"


def test_every_record_of_the_triple_is_read_again_by_its_range(shared_data: Path) -> None:
    path = shared_data / f"{TRIPLE}.gz"
    stored = path.read_bytes()
    for number, item in enumerate(read(path)):
        assert isinstance(item, Record)
        if number % 50 == 0:
            assert read_record_at(stored[item.offset : item.offset + item.length], offset=item.offset) == item


@pytest.mark.parametrize("cut", [1, 10, 1000])
def test_a_torn_triple_loses_its_last_record_and_says_where(shared_data: Path, cut: int) -> None:
    stored = (shared_data / f"{TRIPLE}.wet.gz").read_bytes()
    whole = list(read_records(io.BytesIO(stored)))
    *found, damage = read_records(io.BytesIO(stored[:-cut]))
    assert found == [
        item for item in whole if isinstance(item, Record) and item.offset + item.length <= len(stored) - cut
    ]
    assert isinstance(damage, Damage)
    assert damage.reason == "truncated_member"
    assert (damage.offset, damage.end) == (whole[len(found)].offset, len(stored) - cut)


def test_the_triple_is_the_same_however_it_is_compressed(shared_data: Path) -> None:
    stored = (shared_data / f"{TRIPLE}.wet.gz").read_bytes()
    plain = gzip.decompress(stored)
    bodies = [item.content for item in read_records(io.BytesIO(stored)) if isinstance(item, Record)]
    for data in (plain, gzip.compress(plain, 1)):
        assert [item.content for item in read_records(io.BytesIO(data)) if isinstance(item, Record)] == bodies
