"""Steps that run models of the user, with real ones: fastText, py3langid, KenLM, a tokenizer.

`data/languages.bin` was trained by fastText 0.9.2 (`train_supervised`, dim 8, 300 buckets, n-grams of 2 and 3) on made
lines of four languages, with labels as GlotLID has them. KenLM has no wheels: its test runs where it has been built.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.unit.curate.test_steps import kept
from webmill.curate.filters.languages import LanguageOpinion, code_of
from webmill.curate.filters.models import FastTextScore, Perplexity, TokenCount
from webmill.curate.steps import CurateBatch
from webmill.errors import Misconfigured, NotFound

DATA = Path(__file__).parent / "data"
TEXTS = [
    "The house by the river.\nAnd the road.",
    "Das Haus und der Fluss.",
    "La maison et le pont",
    "我 以 要 他 的 一 是 在",
]


def test_a_fasttext_model_scores_texts() -> None:
    step = FastTextScore(model="languages.bin", label="deu_Latn").with_files(DATA)
    scores = step.measure(CurateBatch([text.lower() for text in TEXTS], {}))["score"]
    assert scores.argmax() == 1
    assert scores[1] > 0.9 > 0.1 > scores[[0, 2, 3]].max()
    assert kept(step, [TEXTS[1].lower(), TEXTS[2].lower()]) == [True, False]
    labelled = FastTextScore(model="languages.bin", label="__label__deu_Latn").with_files(DATA)
    assert kept(labelled, [TEXTS[1].lower()]) == [True]


def test_a_model_gives_a_second_opinion_on_the_language() -> None:
    texts = [text.lower() for text in TEXTS]
    step = LanguageOpinion(model="languages.bin").with_files(DATA)
    assert kept(step, texts, language=["eng", "deu", "fra", "zho"]) == [True] * 4
    assert kept(step, texts, language=["deu", None, "fra", "jpn"]) == [False, True, True, False]
    only = LanguageOpinion(model="languages.bin", keep=("deu", "zho"), agree=False).with_files(DATA)
    assert kept(only, texts, language=[None] * 4) == [False, True, False, True]


def test_py3langid_judges_short_texts_alone() -> None:
    texts = [
        "Das Wetter wird morgen wieder besser.",
        "The weather will be better tomorrow.",
        "Погода завтра будет лучше.",
        "",
    ]
    step = LanguageOpinion(model="py3langid", max_chars=100).with_files(Path("/nowhere"))
    assert kept(step, texts, language=["deu", "deu", "rus", None]) == [True, False, True, True]
    assert kept(step, [texts[1] * 9], language=["deu"]) == [True]  # longer: CLD2 is right more often
    assert "py3langid" in step.parameters()["model"]


@pytest.mark.parametrize(
    ("label", "code"),
    [("__label__deu_Latn", "deu"), ("__label__zh", "zho"), ("no", "nor"), ("arb_Arab", "ara"), ("__label__ces", "ces")],
)
def test_labels_of_models_are_codes_of_languages(label: str, code: str) -> None:
    assert code_of(label) == code


def test_a_model_that_is_missing_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        LanguageOpinion(model="none.bin").with_files(tmp_path).parameters()
    (tmp_path / "bad.bin").write_bytes((DATA / "languages.bin").read_bytes()[:3])
    with pytest.raises(Misconfigured, match="fastText"):
        kept(LanguageOpinion(model="bad.bin").with_files(tmp_path), ["text"], language=["eng"])


def test_perplexity_is_that_of_a_kenlm_model(tmp_path: Path) -> None:
    pytest.importorskip("kenlm")
    sentences = ["the house by the river", "the road by the house", "the river by the road"]
    (tmp_path / "bigrams.arpa").write_text(arpa_of(sentences))
    step = Perplexity(model="bigrams.arpa", max_perplexity=20).with_files(tmp_path)
    found = step.measure(CurateBatch(["The house by the road", "river river house house by"], {}))["perplexity"]
    assert 1 < found[0] < 10 < found[1]
    assert kept(step, ["The house by the road", "river river house house by"]) == [True, False]
    (tmp_path / "bad.arpa").write_text("nothing")
    with pytest.raises(Misconfigured, match="KenLM"):
        kept(Perplexity(model="bad.arpa").with_files(tmp_path), ["x"])


def arpa_of(sentences: Sequence[str]) -> str:
    """Return a model of words and pairs of words as ARPA has it: shares of what was counted, a fixed backoff."""
    lines = [["<s>", *sentence.split(), "</s>"] for sentence in sentences]
    words = Counter(word for line in lines for word in line)
    pairs = Counter(pair for line in lines for pair in pairwise(line))
    total = words.total() - words["<s>"]
    singles = [f"{math.log10(0.9 * words[word] / total):.4f}\t{word}\t-1.0" for word in sorted(words) if word != "<s>"]
    doubles = [
        f"{math.log10(0.9 * count / words[one]):.4f}\t{one} {other}" for (one, other), count in sorted(pairs.items())
    ]
    head = ["-99\t<s>\t-1.0", f"{math.log10(0.1):.4f}\t<unk>"]
    counts = f"\\data\\\nngram 1={len(singles) + len(head)}\nngram 2={len(doubles)}\n"
    return "\n".join([counts, "\\1-grams:", *head, *singles, "", "\\2-grams:", *doubles, "", "\\end\\", ""])


def test_tokens_are_those_of_a_trained_tokenizer(tmp_path: Path) -> None:
    path = trained_tokenizer(tmp_path / "tokenizer.json")
    step = TokenCount(tokenizer=str(path))
    texts = ["the house by the river", "the", "unheard-of words: 家"]
    oracle = Tokenizer.from_file(str(path))
    expected = [len(oracle.encode(text, add_special_tokens=False).ids) for text in texts]
    assert np.array_equal(step.measure(CurateBatch(texts, {}))["tokens"], expected)
    assert expected[2] > expected[0] > expected[1] > 0


def trained_tokenizer(path: Path) -> Path:
    """Train a byte-level BPE, as models of texts have it, and write its tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>"]
    )
    tokenizer.train_from_iterator(["the house by the river and the road"] * 20, trainer)
    tokenizer.save(str(path))
    return path
