"""Our filters beside datatrove's, which see the same words and sentences."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.filters.base_filter import BaseFilter

from tests.unit.curate.test_words import words_of
from tests.unit.curate.texts import made_texts, real_texts
from webmill.curate.filters.quality import count_sentences
from webmill.curate.filters.steps import C4Quality, FineWebQuality, GopherQuality, GopherRepetition
from webmill.curate.steps import CurateBatch, CurateStep, judge
from webmill.curate.text_batch import Spans, TextBatch

THEIRS = "datatrove.pipeline.filters"
PAIRS = [
    (GopherQuality(), GopherQualityFilter()),
    (GopherRepetition(), GopherRepetitionFilter()),
    (FineWebQuality(), FineWebQualityFilter()),
    (C4Quality(), C4QualityFilter()),
    (C4Quality(terminal_punctuation=False), C4QualityFilter(filter_no_terminal_punct=False)),
]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    found = [text for text in (*real_texts()[:300], *made_texts(700)) if text.strip()]
    assert len(found) > 600
    return found


@pytest.fixture(autouse=True)
def same_words() -> Iterator[None]:
    """Give datatrove our words and sentences: its own need models, and decide otherwise by themselves."""
    with (
        patch(f"{THEIRS}.gopher_quality_filter.split_into_words", lambda text, _: words_of(text)),
        patch(f"{THEIRS}.gopher_repetition_filter.split_into_words", lambda text, _: words_of(text)),
        patch(f"{THEIRS}.fineweb_quality_filter.split_into_words", lambda text, _: words_of(text)),
        patch(f"{THEIRS}.c4_filters.split_into_sentences", lambda text, _: sentences_of(text)),
    ):
        yield


def sentences_of(line: str) -> list[None]:
    batch = TextBatch([line])
    return [None] * int(count_sentences(batch, Spans(batch.starts, batch.ends, np.zeros(1, np.int64)))[0])


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda one: type(one).__name__)
def test_the_decisions_are_those_of_datatrove(texts: list[str], ours: CurateStep, theirs: BaseFilter) -> None:
    batch = CurateBatch(texts, {})
    kept = judge(ours.limits(), ours.measure(batch), size=len(texts))[0] < 0
    differing = [
        text
        for text, one in zip(texts, kept.tolist(), strict=True)
        if one != (theirs.filter(Document(text, "")) is True)
    ]
    assert len(differing) <= len(texts) * 0.005, differing[:2]
    assert 0 < np.count_nonzero(kept) < len(texts)


def test_the_lines_that_c4_leaves_are_those_of_datatrove(texts: list[str]) -> None:
    step = C4Quality(min_sentences=None, max_lorem_ipsum=None, max_curly_brackets=None)
    rewritten = step.rewrite(CurateBatch(texts, {}))
    theirs = C4QualityFilter(min_num_sentences=-1, filter_lorem_ipsum=False, filter_curly_bracket=False)
    for text, ours in zip(texts, rewritten, strict=True):
        document = Document(text, "")
        theirs.filter(document)
        assert ours == document.text


def test_batches_change_nothing(texts: list[str]) -> None:
    for step, _ in PAIRS:
        together = step.measure(CurateBatch(texts[:60], {}))
        alone = [step.measure(CurateBatch([text], {})) for text in texts[:60]]
        for name, values in together.items():
            assert values.tolist() == [one[name].tolist()[0] for one in alone], name


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("no end", 1),
        ("One. Two! Three?", 3),
        ('"Quoted." Then more', 2),
        ("Version 3.14 is out.", 1),
        ("一句。两句！三", 3),
        ("Really?! Yes.", 2),
    ],
)
def test_sentences_end_with_terminal_punctuation(text: str, count: int) -> None:
    assert len(sentences_of(text)) == count
