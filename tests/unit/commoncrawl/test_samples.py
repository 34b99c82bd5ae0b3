"""Real files: a triple made by Common Crawl's own extractor, pages of Common Crawl, damaged WET files."""

from __future__ import annotations

import io
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.unit.commoncrawl.triples import WARC, WAT, WET
from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.grammar import check_file, read_documents
from webmill.commoncrawl.page import ErrorDocument, Page
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.typed_records import ConversionRecord, FileType, WarcinfoRecord
from webmill.model import Record

NAME = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc"
EXTENSIONS = {WARC: ".gz", WAT: ".wat.gz", WET: ".wet.gz"}
Item = Page | ErrorDocument


@pytest.fixture(scope="module")
def files(shared_data: Path) -> dict[FileType, bytes]:
    return {kind: Path(f"{shared_data / NAME}{extension}").read_bytes() for kind, extension in EXTENSIONS.items()}


def join(files: dict[FileType, bytes]) -> Iterator[Item]:
    return read_pages(*(io.BytesIO(files[kind]) for kind in (WARC, WAT, WET)))


Facts = tuple[str | None, str | None, int | None, bool, bool, dict[FileType, tuple[int, int]]]


def facts(page: Page) -> Facts:
    """What identifies a page's parts, without holding them."""
    text = None if page.text is None else hash(page.text)
    return page.record_id, page.title, text, page.request is None, page.metadata is None, dict(page.offsets)


@pytest.fixture(scope="module")
def whole(files: dict[FileType, bytes]) -> list[Facts]:
    found = []
    for item in join(files):
        assert isinstance(item, Page)
        found.append(facts(item))
    return found


def test_the_triple_has_its_known_counts(whole: list[Facts]) -> None:
    assert len(whole) == 1143
    assert sum(text is None for _, _, text, *_ in whole) == 6
    assert sum(without for *_, without, _, _ in whole) == 1
    assert sum(without for *_, without, _ in whole) == 1


def test_every_text_of_the_triple_is_that_of_its_own_page(files: dict[FileType, bytes]) -> None:
    texts = {record.refers_to: record for record in read_records(io.BytesIO(files[WET])) if isinstance(record, Record)}
    for page in join(files):
        assert isinstance(page, Page)
        own = texts.get(page.record_id)
        assert page.text == (own.content.decode() if own else None)
        assert own is None or own.target_uri == page.target_uri
        assert page.wat.capture
        assert page.wat.capture.refers_to == page.record_id


def test_resuming_the_triple_anywhere_gives_the_same_rest(files: dict[FileType, bytes], whole: list[Facts]) -> None:
    resumes = [item.resume for item in join(files)]
    for number in (0, 600, 1130, 1138, 1142):
        resume = resumes[number]
        sources = (io.BytesIO(files[kind][resume[kind] :]) for kind in (WARC, WAT, WET))
        rest = [facts(page) for page in read_pages(*sources, start=resume) if isinstance(page, Page)]
        assert rest == whole[number + 1 :]


def test_the_warc_file_alone_tells_nearly_the_same(files: dict[FileType, bytes]) -> None:
    same: Counter[str] = Counter()
    for page, alone in islice(zip(join(files), read_pages(io.BytesIO(files[WARC])), strict=True), 150):
        assert isinstance(page, Page)
        assert isinstance(alone, Page)
        assert (page.text is None) == (alone.text is None)
        assert page.languages == alone.languages
        same["title"] += page.title == alone.title
        same["text"] += page.text == alone.text
    assert same["title"] >= 147
    assert same["text"] >= 145


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(9))
def test_damage_in_the_triple_costs_the_damaged_pages_only(
    files: dict[FileType, bytes], whole: list[Facts], seed: int
) -> None:
    dice = random.Random(seed)
    kind = (WARC, WAT, WET)[seed % 3]
    data = bytearray(files[kind])
    start = dice.randrange(len(data))
    end = start + dice.choice([1, 1, 30_000])
    data[start:end] = bytes(byte ^ 0x55 for byte in data[start:end])
    result = list(join({**files, kind: bytes(data)}))
    kept = [facts(item) for item in result if isinstance(item, Page)]
    untouched = [one for one in whole if not (one[-1][kind][0] < end and one[-1][kind][1] > start)]
    assert kept == untouched
    errors = [item for item in result if isinstance(item, ErrorDocument)]
    assert len(errors) == len(whole) - len(untouched)
    assert all(error.file_type is kind and error.start < end and error.end > start for error in errors)


def test_the_triples_order_of_records_is_common_crawls_but_for_one_place(files: dict[FileType, bytes]) -> None:
    found = {kind: list(check_file(io.BytesIO(files[kind]), file_type=kind)) for kind in files}
    assert [finding.found for finding in found[WARC]] == [
        "response"
    ]  # a page without metadata, then one without request
    assert [finding.found for finding in found[WAT]] == ["metadata of response"]
    assert found[WET] == []


# --- single captures --------------------------------------------------------------------------------------------------


def test_a_wat_file_that_ends_after_the_request_makes_the_page_an_error_that_keeps_it(shared_data: Path) -> None:
    """The sample's WAT file describes only the warcinfo and request records."""
    for extension in ("", ".gz"):
        base = shared_data / "warc/commoncrawl/whirlwind.warc"
        files = {
            WARC: Path(f"{base}{extension}").read_bytes(),
            WAT: Path(f"{base}.wat{extension}").read_bytes(),
            WET: Path(f"{base}.wet{extension}").read_bytes(),
        }
        (error,) = join(files)
        assert isinstance(error, ErrorDocument)
        assert error.reason == "missing_wat"
        assert error.page
        assert error.page.text
        assert error.page.languages
        (page,) = read_pages(io.BytesIO(files[WARC]), wet=io.BytesIO(files[WET]))
        assert isinstance(page, Page)
        assert page.text == error.page.text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("commoncrawl/cc-2.warc.gz", {"Page": 1}),
        ("commoncrawl/sample-0000.warc.gz", {"Page": 24}),
        ("warcio/example.warc.gz", {"Page": 2}),
        ("warcio/example-resource.warc.gz", {"Page": 1}),
        ("warcio/example.arc.gz", {"Page": 1}),
        ("warcio/post-test.warc.gz", {"Page": 3}),
        ("warcio/example-trunc.warc", {"ErrorDocument": 1}),  # its Content-Length is short by two bytes
    ],
)
def test_other_crawlers_files_give_pages(shared_data: Path, name: str, expected: dict[str, int]) -> None:
    with (shared_data / "warc" / name).open("rb") as file:
        result = list(read_pages(file))
    assert Counter(type(item).__name__ for item in result) == expected


# --- WET files damaged in named ways ----------------------------------------------------------------------------------

DAMAGED = {  # name: (warcinfo records, texts, reasons of the errors, what else the grammar finds)
    "appended_zip_fragment_unexpected_eof": (1, 15, ["truncated_member"], []),
    "corrupt_starts_with_conversion": (1, 5, [], ["conversion", "warcinfo"]),
    "corrupt_two_warcinfo": (2, 5, [], ["warcinfo"]),
    "corrupt_warcconversion_1": (1, 5, [], ["a conversion without it"]),
    "corrupt_warcconversion_2": (1, 1, [], ["a conversion without it"]),
    "corrupt_warcinfo_1": (1, 5, [], ["a warcinfo without it"]),
    "file_and_wet_headers_only": (0, 0, ["missing_terminator"], []),
    "file_headers_only": (0, 0, ["truncated_record"], []),
    "filter_test_1": (1, 25, [], []),
    "fragment1_asthma_incomplete_last": (1, 0, ["missing_terminator"], []),
    "fragment1_incomplete_last": (1, 1, ["truncated_record"], []),
    "fragment2_no_header": (0, 1, ["not_warc", "truncated_record"], []),
    "fragment3": (1, 5, [], []),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_wet_files_give_their_whole_texts_and_tell_the_rest(shared_data: Path, name: str) -> None:
    stored = (shared_data / f"warc/wet-damaged/{name}.wet.gz").read_bytes()
    documents = list(read_documents(io.BytesIO(stored), file_type=WET))
    infos = sum(isinstance(document, WarcinfoRecord) for document in documents)
    texts = [document for document in documents if isinstance(document, ConversionRecord)]
    reasons = [document.reason for document in documents if isinstance(document, ErrorDocument)]
    found = [finding.found for finding in check_file(io.BytesIO(stored), file_type=WET)]
    found = [what for what in found if not what.startswith("damage")]
    assert (infos, len(texts), reasons, found) == DAMAGED[name]
    assert all(document.text for document in texts)
