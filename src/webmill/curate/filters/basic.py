"""Filters over a document's length, languages, scripts, columns, address and words."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from functools import cache
from typing import Any, ClassVar

import numpy as np

from webmill.curate import characters
from webmill.curate.characters import Array
from webmill.curate.filters.repetition import ratio
from webmill.curate.steps import CurateBatch, CurateStep, Limit
from webmill.errors import Misconfigured


class LengthFilter(CurateStep, frozen=True, kw_only=True, tag="length"):
    """Documents that are too short or too long, in characters and in words."""

    min_chars: int | None = None
    max_chars: int | None = None
    min_words: int | None = None
    max_words: int | None = None

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        is_word = (batch.text.word_flags & characters.IS_SYMBOL) == 0
        words = batch.text.per_document(batch.text.words.documents[is_word])
        return {"chars": batch.text.lengths, "words": words}

    def limits(self) -> list[Limit]:
        return [
            Limit("too_few_chars", "chars", least=self.min_chars),
            Limit("too_many_chars", "chars", most=self.max_chars),
            Limit("too_few_words", "words", least=self.min_words),
            Limit("too_many_words", "words", most=self.max_words),
        ]


class LanguageStep(CurateStep, frozen=True, kw_only=True, tag="language"):
    """Documents in other languages than these (ISO 639-3), or whose language is not sure enough."""

    keep: tuple[str, ...] = ()
    min_score: float | None = None
    unknown: bool = False  # keep documents without a language

    measured: ClassVar = ("keep", "unknown")

    def named_languages(self) -> Collection[str]:
        return (*super().named_languages(), *self.keep)

    def columns(self) -> tuple[str, ...]:
        return ("language", "language_score")

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        languages, scores = batch.columns["language"], batch.columns["language_score"]
        wanted = [
            (not self.keep or language in self.keep) if language else (self.unknown or not self.keep)
            for language in languages
        ]
        return {
            "wanted": np.array(wanted, np.int8),
            "score": np.array([np.nan if score is None else score for score in scores], np.float64),
        }

    def limits(self) -> list[Limit]:
        return [Limit("other_language", "wanted", least=1), Limit("unsure_language", "score", least=self.min_score)]


class ScriptFilter(CurateStep, frozen=True, kw_only=True, tag="script"):
    """Documents with too few letters of these scripts, named as in Unicode: LATIN, CYRILLIC, HANGUL, CJK …"""

    scripts: tuple[str, ...]
    min_share: float | None = 0.5

    measured: ClassVar = ("scripts",)

    def __post_init__(self) -> None:
        for name in self.scripts:
            if not _script_table((name.upper(),)).any():
                raise Misconfigured(
                    f"script: no letter has a name that begins with {name!r}; LATIN, CYRILLIC and CJK are such"
                )

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        text = batch.text
        letters = np.flatnonzero(text.flags & characters.IS_ALPHA)
        wanted = letters[_script_table(tuple(name.upper() for name in self.scripts))[text.codes[letters]]]
        counts = text.per_document(text.documents_of(letters))
        return {"share": ratio(text.per_document(text.documents_of(wanted)), counts)}

    def limits(self) -> list[Limit]:
        return [Limit("other_script", "share", least=self.min_share)]


@cache
def _script_table(names: tuple[str, ...]) -> Array:
    """Return which characters have a name that begins with one of these words, as Unicode names its scripts."""
    table = np.zeros(0x110000, bool)
    table[:0x32400] = [unicodedata.name(chr(code), "").startswith(names) for code in range(0x32400)]
    return table


class ColumnFilter(CurateStep, frozen=True, kw_only=True, tag="column"):
    """Documents by the value of any column: only those that have one of `keep`, none that has one of `drop`.

    `unknown` keeps documents that have no value."""

    column: str
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    unknown: bool = True

    measured: ClassVar = ("column", "keep", "drop", "unknown")

    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        return {"wanted": np.array([self._is_wanted(value) for value in batch.columns[self.column]], np.int8)}

    def _is_wanted(self, value: object) -> bool:
        if value is None or value == "":
            return self.unknown
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return (not self.keep or text in self.keep) and text not in self.drop

    def limits(self) -> list[Limit]:
        return [Limit("unwanted_value", "wanted", least=1)]
