"""A second opinion on the language of a document: by a fastText model that the user has (lid.176, GlotLID), or by
py3langid, which is better than CLD2 at texts of a line or two."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from webmill.curate.filters.files import READ_ONCE, FileVersion, digest_of_file
from webmill.curate.steps import CurateBatch, CurateStep, Limit
from webmill.errors import Misconfigured
from webmill.formats.cld2 import ISO_639_3

PY3LANGID = "py3langid"
LABEL = "__label__"
NO_LANGUAGE = ("", 0.0)
# Codes of single languages that models have, by the codes of groups that the column `language` has.
_GROUPS = (
    "zho:cmn ara:arb fas:pes nor:nob lav:lvs est:ekk swa:swh msa:zsm sqi:als uzb:uzn aze:azj mon:khk nep:npi ori:ory "
    "yid:ydd kur:kmr mlg:plt pus:pbt orm:gaz que:quy grn:gug aym:ayr tgl:fil hmn:mww aka:twi iku:ike"
)
GROUP_OF = {single: group for group, single in (pair.split(":") for pair in _GROUPS.split())}


class LanguageOpinion(CurateStep, frozen=True, kw_only=True, tag="language-model"):
    """Documents by what a model takes their language for: it must be one of `keep`, if any are named, and with `agree`
    the one in the column `language`, where that has one. Only texts of at most `max_chars` are judged."""

    model: str
    keep: tuple[str, ...] = ()
    agree: bool = True
    min_score: float | None = None
    max_chars: int | None = None

    measured: ClassVar = ("keep", "max_chars")
    paths: ClassVar = ("model",)
    runs_code: ClassVar = True

    def named_languages(self) -> Collection[str]:
        return (*super().named_languages(), *self.keep)

    def columns(self) -> tuple[str, ...]:
        return ("language",)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        found = [self._opinion(text) for text in batch.text.texts]
        pairs = list(zip(found, batch.columns["language"], strict=True))
        return {
            "wanted": _numbers([None if one is None or not self.keep else one[0] in self.keep for one in found]),
            "same": _numbers([None if one is None or not stated else one[0] == stated for one, stated in pairs]),
            "score": _numbers([None if one is None else one[1] for one in found]),
        }

    def _opinion(self, text: str) -> tuple[str, float] | None:
        """Return the language of a text and its score; None where the text is not judged."""
        if not text or (self.max_chars is not None and len(text) > self.max_chars):
            return None
        line = " ".join(text.split())
        if self.model == PY3LANGID:
            name, score = _py3langid().classify(line)
        else:
            name, score = next(
                iter(best_labels(fasttext_model(FileVersion.of(self.model)), line, count=1)), NO_LANGUAGE
            )
        return code_of(name), float(score)

    def limits(self) -> list[Limit]:
        return [
            Limit("other_language", "wanted", least=1),
            Limit("languages_disagree", "same", least=1 if self.agree else None),
            Limit("unsure_language", "score", least=self.min_score),
        ]

    def with_files(self, folder: Path) -> Self:
        return self if self.model == PY3LANGID else super().with_files(folder)

    def parameters(self) -> dict[str, Any]:
        named = f"{PY3LANGID} {_version()}" if self.model == PY3LANGID else digest_of_file(self.model)
        return super().parameters() | {"model": named}


def code_of(label: str) -> str:
    """Return the code of `language` for a label: `deu` of `__label__deu_Latn`, of `deu` and of `de`."""
    name = label.removeprefix(LABEL).partition("_")[0]
    name = ISO_639_3.get(name, name)
    return GROUP_OF.get(name, name)


def _numbers(values: list[Any]) -> Any:
    return np.array([np.nan if value is None else float(value) for value in values], np.float64)


# --- models ---


def best_labels(model: Any, line: str, *, count: int = -1) -> list[tuple[str, float]]:
    """Return labels of a line and their scores, the best first; all by default."""
    labels, scores = model.predict(line, k=count)
    return [(label, float(score)) for label, score in zip(labels, scores, strict=True)]


@lru_cache(READ_ONCE)
def fasttext_model(version: FileVersion) -> Any:
    try:
        import fasttext
    except ImportError as missing:
        raise Misconfigured("fastText models need an extra: pip install 'webmill[fasttext]'") from missing
    try:
        return fasttext.load_model(version.path)
    except (ValueError, RuntimeError) as error:
        raise Misconfigured(f"{version.path} is no model of fastText: {error}") from error


@cache
def _py3langid() -> Any:
    try:
        from py3langid import langid
    except ImportError as missing:
        raise Misconfigured("py3langid needs an extra: pip install 'webmill[langid]'") from missing
    return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)


def _version() -> str:
    _py3langid()
    return metadata.version(PY3LANGID)
