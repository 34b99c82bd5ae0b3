"""Steps by lists, models, functions and patterns."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from webmill.curate.filters.basic import ColumnFilter, LanguageStep, ScriptFilter
from webmill.curate.filters.lists import Decontamination, ListedUrls, ListedWords
from webmill.curate.filters.models import FastTextScore, Perplexity, PythonFilter, TokenCount
from webmill.curate.filters.pii import PersonalData, mask
from webmill.curate.recipe import recipe_of_steps
from webmill.curate.steps import CurateBatch, CurateStep, judge
from webmill.errors import Misconfigured, NotFound


def kept(step: CurateStep, texts: list[str], **columns: list[Any]) -> list[bool]:
    """Return which documents a step keeps."""
    batch = CurateBatch(texts, columns)
    return [one < 0 for one in judge(step.limits(), step.measure(batch), size=len(texts))[0].tolist()]


# --- personal data ---


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("write to jane.doe+x@mail.example.co.uk now", "write to <EMAIL> now"),
        ("no@address and @handle", "no@address and @handle"),
        ("from 8.8.8.8, not 10.0.0.1 or 1.2.3.4.5", "from <IP>, not 10.0.0.1 or 1.2.3.4.5"),
        ("version 999.1.1.1 and 2001:4860:4860::8888", "version 999.1.1.1 and <IP>"),
        ("call +49 (0)30 1234567 or 0049 30 123456", "call <PHONE> or <PHONE>"),
        ("on 2024-07-12 at 10:30", "on 2024-07-12 at 10:30"),
        ("card 4111 1111 1111 1111, not 4111 1111 1111 1112", "card <CARD>, not 4111 1111 1111 1112"),
        ("IBAN DE89 3704 0044 0532 0130 00.", "IBAN <IBAN>."),
        ("IBAN DE89 3704 0044 0532 0130 01.", "IBAN DE89 3704 0044 0532 0130 01."),
        ("id 0000 0000 0000 0000 000", "id 0000 0000 0000 0000 000"),
    ],
)
def test_personal_data_is_replaced_where_form_and_checksum_agree(text: str, masked: str) -> None:
    assert mask(text, ("email", "ip", "iban", "card", "phone"), word="<{kind}>")[0] == masked


def test_personal_data_is_counted(tmp_path: Path) -> None:
    step = PersonalData(max_found=1)
    texts = ["a@example.org b@example.org", "c@example.org", "nobody"]
    assert kept(step, texts) == [False, True, True]
    assert step.rewrite(CurateBatch(texts, {}))[1] == "<EMAIL>"


# --- lists ---


def test_listed_domains_stand_for_those_below_them(tmp_path: Path) -> None:
    (tmp_path / "ut1" / "adult").mkdir(parents=True)
    (tmp_path / "ut1" / "adult" / "domains").write_text("bad.example\n# comment\n\nworse.example\n")
    (tmp_path / "ut1" / "adult" / "urls").write_text("fine.example/bad/page\n")
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(b"third.example\n"))
    step = ListedUrls(domains=("ut1", "more.txt.gz"), urls=("ut1",), words=("casino",)).with_files(tmp_path)
    urls = [
        "https://www.bad.example/",
        "https://notbad.example/",
        "https://fine.example/bad/page/",
        "https://fine.example/good",
        "https://third.example./x",
        "https://fine.example/Casino",
        "https://[broken",
    ]
    assert kept(step, ["text"] * 7, url=urls) == [False, True, False, True, False, False, True]


def test_a_list_with_other_bytes_measures_anew(tmp_path: Path) -> None:
    path = tmp_path / "domains.txt"
    keys = []
    for name in ("a.example", "b.example"):
        path.with_name(name).write_text(name)
        keys.append(recipe_of_steps([{"use": "url-list", "domains": [str(path.with_name(name))]}]).key_of(0))
    assert keys[0] != keys[1]
    with pytest.raises(NotFound):
        recipe_of_steps([{"use": "url-list", "domains": [str(tmp_path / "none")]}]).key_of(0)


def test_words_of_a_list_are_found_by_language_and_as_phrases(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("damn\nvery bad thing\n")
    (tmp_path / "zh.txt").write_text("坏词\n")
    step = ListedWords(files={"eng": "en.txt", "zho": "zh.txt"}, max_count=0).with_files(tmp_path)
    texts = ["Damn it", "damned", "a very BAD thing.", "very, bad thing", "这是坏词吗", "damn"]
    languages = ["eng", "eng", "eng", "eng", "zho", "deu"]
    assert kept(step, texts, language=languages) == [False, True, False, True, False, True]


def test_documents_with_n_grams_of_a_test_set_are_removed(tmp_path: Path) -> None:
    question = "what is the name of the river that flows through the old town of that city"
    (tmp_path / "test.jsonl").write_text(json.dumps({"question": question, "id": 1}) + "\n")
    (tmp_path / "test.txt").write_text("too short to count\n")
    step = Decontamination(test_sets=("test.jsonl", "test.txt"), ngram=8).with_files(tmp_path)
    texts = [
        f"They asked: {question.upper()}?",
        question[:30],
        "too short to count",
        "Something else, and long enough to have one.",
    ]
    assert kept(step, texts) == [False, True, True, True]


# --- languages, scripts, columns ---


def test_languages_scripts_and_columns() -> None:
    languages = ["eng", "deu", None]
    scores = [0.9, 0.4, None]
    texts = ["English text", "Русский текст", "12"]
    assert kept(LanguageStep(keep=("eng",)), texts, language=languages, language_score=scores) == [True, False, False]
    by_score = LanguageStep(min_score=0.5)
    assert kept(by_score, texts, language=languages, language_score=scores) == [True, False, True]
    assert kept(ScriptFilter(scripts=("cyrillic",)), texts) == [False, True, False]
    rights = ColumnFilter(column="usage_train_ai", drop=("n",), unknown=False)
    assert kept(rights, texts, usage_train_ai=["y", "n", None]) == [True, False, False]


# --- what the user gives ---


def test_a_function_of_the_user_decides_over_arrow_batches(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pyarrow.compute as pc\n\n"
        "def short(batch):\n    return pc.less(pc.utf8_length(batch.column('text')), 5)\n"
        "def wrong(batch):\n    return [1]\n"
    )
    step = recipe_of_steps([PythonFilter(function=str(tmp_path / "mine.py") + ":short")]).steps[0]
    assert kept(step, ["abc", "abcdefg"], id=["1", "2"]) == [True, False]
    with pytest.raises(Misconfigured, match="for 2 documents"):
        kept(PythonFilter(function="mine.py:wrong").with_files(tmp_path), ["a", "b"], id=["1", "2"])
    with pytest.raises(Misconfigured):
        PythonFilter(function="none.py:wrong").with_files(tmp_path)
    with pytest.raises(Misconfigured, match="has no function"):
        kept(PythonFilter(function="mine.py:nothing").with_files(tmp_path), ["a"], id=["1"])


def test_tokens_are_counted_by_the_tokenizer_of_the_user(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"the": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    step = TokenCount(tokenizer="tokenizer.json", min_tokens=3).with_files(tmp_path)
    assert kept(step, ["the end", "the end of it"]) == [False, True]
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(Misconfigured, match="no tokenizer"):
        kept(TokenCount(tokenizer="bad.json").with_files(tmp_path), ["x"])


def test_models_that_cannot_be_loaded_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"nothing")
    with pytest.raises(Misconfigured, match="fastText"):
        kept(FastTextScore(model="model", label="hq").with_files(tmp_path), ["x"])
    with pytest.raises(Misconfigured, match="KenLM"):
        kept(Perplexity(model="model").with_files(tmp_path), ["x"])


def test_a_limit_is_broken_by_no_number_that_is_unknown() -> None:
    step = LanguageStep(min_score=0.5)
    broken, _ = judge(step.limits(), {"wanted": np.ones(1), "score": np.array([np.nan])}, size=1)
    assert broken.tolist() == [-1]
