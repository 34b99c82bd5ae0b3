"""Real captures: read from whole files and selected by an index they give the same documents."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import Page
from webmill.errors import BadInput
from webmill.extract.capture import SANDBOX_FUNCTION, SANDBOX_LIMITS, make_document
from webmill.extract.outcomes import REJECTED, failed_document
from webmill.extract.recipe import CaptureInput, ExtractResult, Recipe, capture_input
from webmill.formats.cld2 import can_detect_languages
from webmill.infra.sandbox import Sandbox
from webmill.model import CaptureRef

TRIPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc.gz"


def pages_of(file: Path) -> list[Page]:
    with file.open("rb") as source:
        return [item for item in read_pages(source, None, None, filename=file.name) if isinstance(item, Page)]


def both_ways(page: Page, data: bytes, recipe: Recipe) -> tuple[ExtractResult, ExtractResult]:
    """As a reader of whole files has it; and as an index names it, which says the languages that the crawler said."""
    record = page.capture
    ref = CaptureRef(url=record.target_uri or "", filename=page.filename, offset=record.offset, length=record.length)
    stored = data[record.offset : record.offset + record.length]
    given = capture_input(page, recipe=recipe)
    selected = CaptureInput(ref=ref, recipe=recipe, languages=given.languages)
    return make_document(record.content, capture=given), make_document(stored, capture=selected)


def test_all_captures_of_a_real_file_give_the_same_both_ways(shared_data: Path) -> None:
    file = shared_data / TRIPLE
    recipe, data = Recipe(extractor="resiliparse", detect=can_detect_languages()), file.read_bytes()
    found = [both_ways(page, data, recipe) for page in pages_of(file)]
    assert len(found) == 1143
    assert [whole for whole, _ in found] == [selected for _, selected in found]
    documents = [whole.document for whole, _ in found]
    assert sum(one.outcome in REJECTED for one in documents) == 1  # a PDF that is none
    assert len({one.id for one in documents}) == len(documents)
    if can_detect_languages():
        assert sum(bool(one.language) for one in documents if one.text) >= 1120


def test_captures_of_other_crawlers_give_the_same_both_ways(shared_data: Path) -> None:
    count = 0
    for file in sorted((shared_data / "warc").rglob("*warc.gz")):
        data = file.read_bytes()
        for page in pages_of(file):
            if page.capture.length and page.target_uri:
                whole, selected = both_ways(page, data, Recipe(extractor="plain", links=True))
                assert whole == selected
                count += 1
    assert count > 10


@pytest.mark.parametrize(
    ("extractor", "outcomes"), [("plain", {"ok", "empty"}), ("resiliparse", {"ok", "parse_limit"})]
)
def test_hostile_pages_give_an_outcome_each(shared_data: Path, extractor: str, outcomes: set[str]) -> None:
    """Ours grows with the length of a page; others need a limit."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    given = CaptureInput(
        ref=CaptureRef(url="", filename="f", offset=0, length=0),
        recipe=Recipe(extractor=extractor, links=True),
        version="WARC/1.0",
        headers=(("WARC-Type", "response"), ("WARC-Target-URI", "http://a.example/")),
    )
    with Sandbox(SANDBOX_FUNCTION, returns=ExtractResult, limits=SANDBOX_LIMITS._replace(cpu=2)) as sandbox:
        for file in sorted((shared_data / "hostile").rglob("*.html.gz")):
            assert outcome_of(sandbox, head + gzip.decompress(file.read_bytes()), given) in outcomes


def outcome_of(sandbox: Sandbox[ExtractResult], data: bytes, given: CaptureInput) -> str:
    try:
        return sandbox.call(data, capture=given).document.outcome
    except BadInput as error:
        return failed_document(given.ref, error).outcome
