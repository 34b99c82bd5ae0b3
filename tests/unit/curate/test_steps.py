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
from webmill.errors import BadInput, Misconfigured, NotFound


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
        ("card 3782 822463 10005 and 378282246310005", "card <CARD> and <CARD>"),
        ("电话+8613800138000号，服务器8.8.8.8的", "电话<PHONE>号，服务器<IP>的"),
        ("전화 +82-10-1234-5678로 4111 1111 1111 1111을", "전화 <PHONE>로 <CARD>을"),
        ("key A4111111111111111 and 4111111111111111x", "key A4111111111111111 and 4111111111111111x"),
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
    (tmp_path / "ut1" / "adult" / "urls").write_text(
        "fine.example/bad/page\nhttps://whole.example/page/\nquery.example/page?id=1\n"
    )
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
        "https://whole.example/page/#part",
        "https://query.example/page?id=1",
        "https://query.example/page?id=2",
    ]
    expected = [False, True, False, True, False, False, True, False, False, True]
    assert kept(step, ["text"] * 10, url=urls) == expected


def test_a_list_with_other_bytes_measures_anew(tmp_path: Path) -> None:
    path = tmp_path / "domains.txt"
    keys = []
    for name in ("a.example", "b.example"):
        path.with_name(name).write_text(name)
        keys.append(recipe_of_steps([{"use": "url-list", "domains": [str(path.with_name(name))]}]).key_of(0))
    assert keys[0] != keys[1]
    as_urls = recipe_of_steps([{"use": "url-list", "urls": [str(tmp_path / "a.example")]}])
    assert as_urls.key_of(0) != keys[0]


def test_a_folder_with_other_names_measures_anew(tmp_path: Path) -> None:
    keys = []
    for name in ("domains", "urls"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("a.example\n")
        keys.append(recipe_of_steps([{"use": "url-list", "domains": [str(tmp_path / name)]}]).key_of(0))
    assert keys[0] != keys[1]


def test_a_list_that_changes_while_the_process_runs_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "domains.txt"
    step = ListedUrls(domains=(str(path),))
    for name in ("a.example", "b.example"):
        path.write_text(name)
        urls = ["https://a.example/", "https://b.example/"]
        assert kept(step, ["text"] * 2, url=urls) == [name == "b.example", name == "a.example"]


@pytest.mark.parametrize("data", [b"no gzip", gzip.compress(b"a" * 99)[:-9]], ids=["other", "cut"])
def test_a_damaged_list_is_told(tmp_path: Path, data: bytes) -> None:
    name = "x.txt.gz"
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput, match="not whole"):
        kept(ListedUrls(domains=(str(tmp_path / name),)), ["text"], url=["https://a.example/"])
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadInput, match="damaged Parquet"):
        kept(Decontamination(test_sets=(str(tmp_path / "x.parquet"),)), ["text"])


def test_no_list_is_known_by_nothing(tmp_path: Path) -> None:
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


def test_a_function_gets_columns_of_their_type_also_where_no_row_has_a_value(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import pyarrow.compute as pc\n\n"
        "def untitled(batch):\n    return pc.fill_null(pc.less(pc.utf8_length(batch.column('title')), 2), True)\n"
    )
    step = PythonFilter(function="mine.py:untitled", needs=("title",)).with_files(tmp_path)
    assert kept(step, ["a", "b"], id=["1", "2"], title=[None, None]) == [True, True]


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
