"""Steps that run what the user gives: a fastText or KenLM model, a tokenizer, a Python function.

They count only in recipes that the user trusts: a recipe in a collection of somebody else runs none of them.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from webmill.curate.arrow import as_array, column_array, import_arrow
from webmill.curate.filters.files import READ_ONCE, FileVersion, digest_of_file
from webmill.curate.filters.languages import LABEL, best_labels, fasttext_model
from webmill.curate.steps import CurateBatch, CurateStep, Limit
from webmill.curate.tokens import token_ids
from webmill.errors import Misconfigured
from webmill.infra.custom_function import CustomFunction, load_function, read_function

NUMBERS_OF_FUNCTION = "score"
PLUGIN = "plugin:"  # before the name of a filter that a plugin of the user has: `webmill.pipeline.plugins` finds it


class FastTextScore(CurateStep, frozen=True, kw_only=True, tag="fasttext"):
    """Documents by a fastText classifier: the score of `label` (`hq`, or a language), in the text without newlines."""

    model: str
    label: str
    min_score: float | None = 0.5
    max_score: float | None = None

    measured: ClassVar = ("label",)
    paths: ClassVar = ("model",)
    runs_code: ClassVar = True

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        model = fasttext_model(FileVersion.of(self.model))
        lines = (text.replace("\n", " ") for text in batch.text.texts)
        wanted = LABEL + self.label.removeprefix(LABEL)
        scores = [dict(best_labels(model, line)).get(wanted, 0.0) for line in lines]
        return {"score": np.array(scores, np.float64)}

    def limits(self) -> list[Limit]:
        return [Limit("score", "score", least=self.min_score, most=self.max_score)]

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"model": digest_of_file(self.model)}


class Perplexity(CurateStep, frozen=True, kw_only=True, tag="perplexity"):
    """Documents by their perplexity in a KenLM model (`pip install kenlm`), over words in lower case."""

    model: str
    min_perplexity: float | None = None
    max_perplexity: float | None = None

    paths: ClassVar = ("model",)
    runs_code: ClassVar = True

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        model = _kenlm_model(FileVersion.of(self.model))
        return {"perplexity": np.array([model.perplexity(text) for text in _spaced_words(batch)], np.float64)}

    def limits(self) -> list[Limit]:
        return [Limit("perplexity", "perplexity", least=self.min_perplexity, most=self.max_perplexity)]

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"model": digest_of_file(self.model)}


def _spaced_words(batch: CurateBatch) -> list[str]:
    """Return the words of each text in lower case with a space between them."""
    text = batch.text
    bounds = text.first_words.tolist()
    starts, ends = text.words.starts.tolist(), text.words.ends.tolist()
    return [
        " ".join(text.lowered[starts[word] : ends[word]] for word in range(bounds[number], bounds[number + 1]))
        for number in range(text.size)
    ]


@lru_cache(READ_ONCE)
def _kenlm_model(version: FileVersion) -> Any:
    try:
        import kenlm
    except ImportError as missing:
        raise Misconfigured(
            "perplexity needs KenLM: pip install kenlm (it is compiled when it is installed)"
        ) from missing
    try:
        return kenlm.Model(version.path)
    except OSError as error:
        raise Misconfigured(f"{version.path} is no model of KenLM: {error}") from error


class TokenCount(CurateStep, frozen=True, kw_only=True, tag="tokens"):
    """The number of tokens by the tokenizer.json of a model."""

    tokenizer: str
    min_tokens: int | None = None
    max_tokens: int | None = None

    paths: ClassVar = ("tokenizer",)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        ids = token_ids(Path(self.tokenizer), batch.text.texts)
        return {"tokens": np.fromiter(map(len, ids), np.int64, batch.size)}

    def limits(self) -> list[Limit]:
        return [
            Limit("too_few_tokens", "tokens", least=self.min_tokens),
            Limit("too_many_tokens", "tokens", most=self.max_tokens),
        ]

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"tokenizer": digest_of_file(self.tokenizer)}


class PythonFilter(CurateStep, frozen=True, kw_only=True, tag="function"):
    """A Python function over Arrow batches, as FILE.py:NAME, module:NAME or plugin:NAME: `keep(batch) -> array`.

    It gets a RecordBatch with `id`, `url`, `date`, `language`, `text` and `needs`; it returns a boolean or a number for
    each row: documents with less than `min_score` are removed."""

    function: str
    needs: tuple[str, ...] = ()
    min_score: float | None = 1.0
    max_score: float | None = None
    code: CustomFunction | None = None  # read with the recipe: every worker runs the same

    measured: ClassVar = ("function", "needs", "code")
    runs_code: ClassVar = True

    def columns(self) -> tuple[str, ...]:
        return self.needs

    def with_files(self, folder: Path) -> PythonFilter:
        if self.code or self.function.startswith(PLUGIN):
            return self
        return msgspec.structs.replace(self, code=read_function(self.function, beside=folder))

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        arrow, _ = import_arrow()
        columns = {**batch.columns, "text": batch.text.texts}
        given = arrow.RecordBatch.from_pydict({name: column_array(name, values) for name, values in columns.items()})
        assert self.code
        answer = _loaded(self.code)(given)
        return {NUMBERS_OF_FUNCTION: _as_scores(answer, size=batch.size, function=self.function)}

    def limits(self) -> list[Limit]:
        return [Limit("function", NUMBERS_OF_FUNCTION, least=self.min_score, most=self.max_score)]


def _as_scores(answer: Any, *, size: int, function: str) -> Any:
    arrow, _ = import_arrow()
    try:
        values = (
            as_array(arrow.array(answer))
            if not isinstance(answer, arrow.Array | arrow.ChunkedArray)
            else as_array(answer)
        )
        scores = np.asarray(values, np.float64)
    except (TypeError, ValueError, arrow.ArrowException) as error:
        raise Misconfigured(f"{function} returned no numbers: {error}") from error
    if scores.shape != (size,):
        raise Misconfigured(f"{function} returned {scores.shape} numbers for {size} documents: one each is needed")
    return scores


_loaded = cache(load_function)
