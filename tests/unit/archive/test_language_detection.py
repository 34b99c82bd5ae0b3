"""Languages of many pages at once, in a sandbox that a page may bring down."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from webmill.archive.language_detection import MOST_SAMPLES, make_detector, open_language_detector
from webmill.formats.cld2 import DetectorInput, detect_languages, detect_languages_of_all
from webmill.formats.languages import DetectedLanguages
from webmill.infra.sandbox import Sandbox

GERMAN = "Die alte Mühle am Fluss mahlt seit zweihundert Jahren das Korn der Bauern aus den Dörfern im Tal. " * 3
FRENCH = "Le vieux moulin au bord de la rivière moud depuis deux cents ans le grain des paysans de la vallée. " * 3
DEADLY, SILENT = b"deadly", b"silent"


def detect_or_fail(samples: Sequence[DetectorInput]) -> list[DetectedLanguages]:
    """Runs in the sandbox."""
    if any(sample.page == DEADLY for sample in samples):
        os._exit(1)
    return detect_languages_of_all([sample for sample in samples if sample.page != SILENT])


def samples_of(count: int) -> list[DetectorInput]:
    return [DetectorInput((GERMAN if number % 2 else FRENCH).encode(), "de", "") for number in range(count)]


def test_many_pages_have_the_languages_of_each() -> None:
    samples = samples_of(2 * MOST_SAMPLES + 3)
    with open_language_detector() as detect:
        assert detect
        found = detect(samples)
        assert detect([]) == []
    assert found == [detect_languages(sample.page, tld="de") for sample in samples]
    assert [one.codes for one in found[:2] if one] == [("fra",), ("deu",)]


@pytest.mark.parametrize("bad", [DEADLY, SILENT])
def test_a_page_that_fails_costs_no_other_page_its_languages(bad: bytes) -> None:
    samples = samples_of(MOST_SAMPLES + 2)
    samples[3] = DetectorInput(bad)
    with Sandbox(f"{__name__}:detect_or_fail", returns=list[DetectedLanguages]) as sandbox:
        found = make_detector(sandbox.call)(samples)
    assert [one is None for one in found] == [number == 3 for number in range(len(samples))]


@pytest.mark.parametrize("page", [GERMAN.encode() + b"\xff\xc3", b"\x00\x1b" + GERMAN.encode(), GERMAN.encode()[:-1]])
def test_bytes_that_are_no_text_change_no_language(page: bytes) -> None:
    assert detect_languages(page).codes == ("deu",)
    assert detect_languages(page) == detect_languages(page.decode("utf-8", "replace").encode())
