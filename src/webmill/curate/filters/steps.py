"""The filters of a recipe, with the thresholds that were published: Gopher, C4, FineWeb."""

from __future__ import annotations

from collections.abc import Collection
from itertools import repeat
from typing import Any, ClassVar, Self

import msgspec
import numpy as np

from webmill.curate.filters.quality import (
    LineRules,
    c4_quality,
    choose_lines,
    count_stop_words,
    fineweb_quality,
    gopher_quality,
    kept_texts,
)
from webmill.curate.filters.repetition import REPEATED_SIZES, TOP_SIZES, line_repetition, word_repetition
from webmill.curate.steps import CurateBatch, CurateStep, Limit
from webmill.errors import Misconfigured


class LimitsByLanguage(CurateStep, frozen=True, kw_only=True):
    """`by_language` has limits of their own for documents of some languages: `{deu = {max_words = 50_000}}`."""

    by_language: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)

    varied: ClassVar[tuple[str, ...]] = ()  # what is measured that may differ, too

    def __post_init__(self) -> None:
        fixed = {"name", "languages", "by_language", *self.measured} - set(self.varied)
        for language, changed in self.by_language.items():
            if wrong := sorted(fixed & changed.keys()):
                raise Misconfigured(f"by_language.{language}: {wrong[0]} is the same for all languages")
            self._variant(language)

    def own_languages(self) -> Collection[str]:
        return self.by_language.keys()

    def limits_for(self, language: str | None) -> list[Limit]:
        return self._variant(language).limits() if language and language in self.by_language else self.limits()

    def _variant(self, language: str) -> Self:
        """Return the step as it is for documents of a language."""
        plain = msgspec.to_builtins(msgspec.structs.replace(self, by_language={}))
        try:
            return msgspec.convert(plain | self.by_language[language], type(self))
        except msgspec.ValidationError as error:
            raise Misconfigured(f"by_language.{language}: {error}") from None


class GopherQuality(LimitsByLanguage, frozen=True, kw_only=True, tag="gopher-quality"):
    """Words, their length, symbols, bullets, stop words (arXiv 2112.11446, table A1)."""

    min_words: int | None = 50
    max_words: int | None = 100_000
    min_mean_word_length: float | None = 3
    max_mean_word_length: float | None = 10
    max_hashes: float | None = 0.1
    max_ellipses: float | None = 0.1
    max_bullet_lines: float | None = 0.9
    max_ellipsis_lines: float | None = 0.3
    min_alphabetic_words: float | None = 0.8
    min_stop_words: int | None = 2
    stop_words: tuple[str, ...] = ("the", "be", "to", "of", "and", "that", "have", "with")

    measured: ClassVar = ("stop_words",)
    varied: ClassVar = ("stop_words",)

    def columns(self) -> tuple[str, ...]:
        return ("language",)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        found = gopher_quality(batch.text, stop_words=self.stop_words)
        own = self._own_stop_words()
        languages = np.array(batch.columns["language"], object) if own else np.zeros(0, object)
        for language in own.keys() & set(languages):
            counts = count_stop_words(batch.text, own[language])
            found["stop_words"] = np.where(languages == language, counts, found["stop_words"])
        return found

    def parameters(self) -> dict[str, Any]:
        own = self._own_stop_words()
        return super().parameters() | ({"own_stop_words": own} if own else {})

    def _own_stop_words(self) -> dict[str, tuple[str, ...]]:
        return {
            language: tuple(changed["stop_words"])
            for language, changed in self.by_language.items()
            if "stop_words" in changed
        }

    def limits(self) -> list[Limit]:
        return [
            Limit("too_few_words", "words", least=self.min_words),
            Limit("too_many_words", "words", most=self.max_words),
            Limit("words_too_short", "mean_word_length", least=self.min_mean_word_length),
            Limit("words_too_long", "mean_word_length", most=self.max_mean_word_length),
            Limit("too_many_hashes", "hashes", most=self.max_hashes),
            Limit("too_many_ellipses", "ellipses", most=self.max_ellipses),
            Limit("too_many_bullet_lines", "bullet_lines", most=self.max_bullet_lines),
            Limit("too_many_ellipsis_lines", "ellipsis_lines", most=self.max_ellipsis_lines),
            Limit("too_few_alphabetic_words", "alphabetic_words", least=self.min_alphabetic_words),
            Limit("too_few_stop_words", "stop_words", least=self.min_stop_words),
        ]


class GopherRepetition(LimitsByLanguage, frozen=True, kw_only=True, tag="gopher-repetition"):
    """Repeated lines, paragraphs and n-grams (the same table). The tuples are for 2 to 4 and for 5 to 10 words."""

    max_repeated_paragraphs: float | None = 0.3
    max_repeated_paragraph_chars: float | None = 0.2
    max_repeated_lines: float | None = 0.3
    max_repeated_line_chars: float | None = 0.2
    max_top_grams: tuple[float, float, float] | None = (0.2, 0.18, 0.16)
    max_repeated_grams: tuple[float, float, float, float, float, float] | None = (0.15, 0.14, 0.13, 0.12, 0.11, 0.1)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        return line_repetition(batch.text) | word_repetition(batch.text)

    def limits(self) -> list[Limit]:
        lines = [
            Limit("repeated_paragraphs", "repeated_paragraphs", most=self.max_repeated_paragraphs),
            Limit("repeated_paragraph_chars", "repeated_paragraph_chars", most=self.max_repeated_paragraph_chars),
            Limit("repeated_lines", "repeated_lines", most=self.max_repeated_lines),
            Limit("repeated_line_chars", "repeated_line_chars", most=self.max_repeated_line_chars),
        ]
        tops = zip(TOP_SIZES, self.max_top_grams or repeat(None), strict=False)
        several = zip(REPEATED_SIZES, self.max_repeated_grams or repeat(None), strict=False)
        return [
            *lines,
            *(Limit(f"top_{size}_gram", f"top_{size}_gram", most=most) for size, most in tops),
            *(Limit(f"repeated_{size}_grams", f"repeated_{size}_grams", most=most) for size, most in several),
        ]


class FineWebQuality(LimitsByLanguage, frozen=True, kw_only=True, tag="fineweb-quality"):
    """Lines that end as sentences, short lines, repeated lines, lists (arXiv 2406.17557)."""

    min_terminal_lines: float | None = 0.12
    max_short_lines: float | None = 0.67
    max_repeated_chars: float | None = 0.01
    max_newlines_per_word: float | None = 0.3
    short_line: int = 30

    measured: ClassVar = ("short_line",)

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        return fineweb_quality(batch.text, short_line=self.short_line)

    def limits(self) -> list[Limit]:
        return [
            Limit("empty", "lines", least=1),
            Limit("too_few_terminal_lines", "terminal_lines", least=self.min_terminal_lines),
            Limit("too_many_short_lines", "short_lines", most=self.max_short_lines),
            Limit("repeated_line_chars", "repeated_chars", most=self.max_repeated_chars),
            Limit("is_a_list", "newlines_per_word", most=self.max_newlines_per_word),
        ]


class LineFilter(CurateStep, frozen=True, kw_only=True, tag="lines"):
    """Leave out lines: without terminal punctuation, with JavaScript or cookie notices, too short. Later steps see the
    rest. `phrases` are further words that a line must not have, in any case."""

    terminal_punctuation: bool = True
    min_words: int = 3
    max_word_length: int = 1000
    javascript: bool = True
    policy: bool = True
    citations: bool = True
    phrases: tuple[str, ...] = ()
    min_sentences: int | None = None
    min_kept_lines: float | None = None
    max_lorem_ipsum: int | None = 0
    max_curly_brackets: int | None = None

    measured: ClassVar = (
        "terminal_punctuation",
        "min_words",
        "max_word_length",
        "javascript",
        "policy",
        "citations",
        "phrases",
    )
    rewrites: ClassVar = True

    def rules(self) -> LineRules:
        return LineRules(**{name: getattr(self, name) for name in LineRules.__struct_fields__})

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        return c4_quality(batch.text, choose_lines(batch.text, self.rules()))

    def rewrite(self, batch: CurateBatch) -> list[str]:
        return kept_texts(batch.text, choose_lines(batch.text, self.rules()))

    def limits(self) -> list[Limit]:
        return [
            Limit("lorem_ipsum", "lorem_ipsum", most=self.max_lorem_ipsum),
            Limit("curly_brackets", "curly_brackets", most=self.max_curly_brackets),
            Limit("too_few_sentences", "sentences", least=self.min_sentences),
            Limit("too_few_lines_kept", "kept_lines", least=self.min_kept_lines),
        ]


class C4Quality(LineFilter, frozen=True, kw_only=True, tag="c4-quality"):
    """C4's rules for lines and documents (JMLR 21, 140), with what its code does beyond the paper."""

    min_sentences: int | None = 5
    max_curly_brackets: int | None = 0
