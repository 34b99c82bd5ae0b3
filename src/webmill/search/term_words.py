"""What a term asks for in a field, for all engines: words that follow on one another, and runs of paired characters."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.search.fields import tokenize, word_analyzer
from webmill.search.query import SearchQuery, Term
from webmill.search.segmentation import RUN_PLACEHOLDER, bigrams, split_runs


class TermWords(msgspec.Struct, frozen=True):
    """All of it must be there. Nothing of it at all: such a term is nowhere."""

    words: Sequence[str] = ()  # one after the other, with a hole for each run among them
    runs: Sequence[str] = ()  # each somewhere
    following: Sequence[str] = ()  # pairs one after the other: runs of a phrase

    def __bool__(self) -> bool:
        return bool(self.words or self.runs)


def words_of_term(term: Term, *, field: str) -> TermWords:
    """Addresses have no runs: they are words only."""
    found: list[str] = []
    runs: list[str] = []
    for in_pairs, piece in split_runs(term.text):
        if not in_pairs:
            found += word_analyzer().analyze(piece)
        elif field != "url":
            runs.append(piece)
            found.append(RUN_PLACEHOLDER)
    if found == [RUN_PLACEHOLDER] * len(runs):
        found = found if term.is_phrase and len(runs) > 1 else []
    following = bigrams_of_run(" ".join(runs)) if term.is_phrase and len(runs) > 1 else []
    return TermWords(found, runs, following)


def bigrams_of_run(run: str) -> list[str]:
    """Those that follow on one another wherever the run stands, whatever comes after it."""
    return bigrams(run).split()[:-1]


def adjacent_words(query: SearchQuery) -> list[str]:
    """Words without anything special: where they stand one after the other they count for more."""
    plain = [part.text for part in query.parts if isinstance(part, Term) and not (part.field or part.is_prefix)]
    found = [word for text in plain for word in tokenize(text) if word != RUN_PLACEHOLDER]
    return found if len(found) > 1 else []
