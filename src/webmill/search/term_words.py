"""The words and runs of bigrams that a term looks for in a field, the same for all engines."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.search.fields import tokenize, word_analyzer
from webmill.search.query import SearchQuery, Term
from webmill.search.segmentation import RUN_PLACEHOLDER, bigrams, split_runs


class TermWords(msgspec.Struct, frozen=True):
    """What a field must hold, all of it, to match a term. Empty: the term matches nothing."""

    words: Sequence[str] = ()  # adjacent, with a placeholder for each run among them
    runs: Sequence[str] = ()  # each anywhere
    following: Sequence[str] = ()  # adjacent bigrams: the runs of a phrase

    def __bool__(self) -> bool:
        return bool(self.words or self.runs)


def words_of_term(term: Term, *, field: str) -> TermWords:
    """Return what a term looks for in a field. URLs have no runs: they are words only."""
    found: list[str] = []
    runs: list[str] = []
    for is_run, piece in split_runs(term.text):
        if not is_run:
            found += word_analyzer().analyze(piece)
        elif field != "url":
            runs.append(piece)
            found.append(RUN_PLACEHOLDER)
    if found == [RUN_PLACEHOLDER] * len(runs):
        found = found if term.is_phrase and len(runs) > 1 else []
    following = bigrams_of_run(" ".join(runs)) if term.is_phrase and len(runs) > 1 else []
    return TermWords(found, runs, following)


def bigrams_of_run(run: str) -> list[str]:
    """Return the bigrams of a run that are adjacent wherever the run stands, whatever follows it."""
    return bigrams(run).split()[:-1]


def adjacent_words(query: SearchQuery) -> list[str]:
    """Return the plain words of a query: documents where they are adjacent rank higher."""
    plain = [part.text for part in query.parts if isinstance(part, Term) and not (part.field or part.is_prefix)]
    found = [word for text in plain for word in tokenize(text) if word != RUN_PLACEHOLDER]
    return found if len(found) > 1 else []
