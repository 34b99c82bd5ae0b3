"""What a term asks for in a field, for all engines: words that follow on one another, and runs of paired characters."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from webmill.search.fields import cut, words
from webmill.search.query import SearchQuery, Term
from webmill.search.words import HOLE, pairs, pieces


class AskedWords(msgspec.Struct, frozen=True):
    """All of it must be there. Nothing of it at all: such a term is nowhere."""

    words: Sequence[str] = ()  # one after the other, with a hole for each run among them
    runs: Sequence[str] = ()  # each somewhere
    following: Sequence[str] = ()  # pairs one after the other: runs of a phrase

    def __bool__(self) -> bool:
        return bool(self.words or self.runs)


def asked(term: Term, *, field: str) -> AskedWords:
    """Addresses have no runs: they are words only."""
    found: list[str] = []
    runs: list[str] = []
    for in_pairs, piece in pieces(term.text):
        if not in_pairs:
            found += words().analyze(piece)
        elif field != "url":
            runs.append(piece)
            found.append(HOLE)
    if found == [HOLE] * len(runs):
        found = found if term.is_phrase and len(runs) > 1 else []
    following = pairs_of(" ".join(runs)) if term.is_phrase and len(runs) > 1 else []
    return AskedWords(found, runs, following)


def pairs_of(run: str) -> list[str]:
    """Those that follow on one another wherever the run stands, whatever comes after it."""
    return pairs(run).split()[:-1]


def typed_together(query: SearchQuery) -> list[str]:
    """Words without anything special: where they stand one after the other they count for more."""
    plain = [part.text for part in query.parts if isinstance(part, Term) and not (part.field or part.is_prefix)]
    found = [word for text in plain for word in cut(text) if word != HOLE]
    return found if len(found) > 1 else []
