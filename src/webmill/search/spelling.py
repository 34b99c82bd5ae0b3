"""Spelling correction: words of the index that are close to one that is not in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from webmill.search.fields import tokenize
from webmill.search.query import Part, SearchQuery, Term

SHORTEST = 4  # letters; a shorter word is similar to everything


def max_edits(word: str) -> int:
    """Return how many letters of a word may be wrong."""
    return 0 if len(word) < SHORTEST else 1 if len(word) < 2 * SHORTEST else 2


def best_correction(word: str, others: Iterable[str], *, uses: Callable[[str], int]) -> str:
    """Return the closest of the other words, the most used first; empty if none is close."""
    most = max_edits(word)
    near = {other: edit_distance(word, other, most=most) for other in others if abs(len(other) - len(word)) <= most}
    good = [other for other, wrong in near.items() if 0 < wrong <= most]
    return min(good, key=lambda other: (near[other], -uses(other), other), default="")


def edit_distance(one: str, two: str, *, most: int) -> int:
    """Return the number of letters inserted, left out, replaced or swapped; `most + 1` if there are more."""
    before: list[int] = []
    last = list(range(len(two) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(two, 1):
            cost = min(row[-1] + 1, last[j] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == two[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return last[-1]


def correct_query(
    query: SearchQuery, *, near: Callable[[str], Iterable[str]], uses: Callable[[str], int]
) -> SearchQuery | None:
    """Return the query with words of the index instead of those that are not in it; None if none is close.

    `near` returns words of documents that have a similar one; `uses`, how many documents have a word.
    """

    def correct(term: Term) -> Term:
        found = tokenize(term.text)
        if term.field not in ("", "title") or len(found) != 1 or uses(found[0]):
            return term
        word = best_correction(found[0], near(found[0]), uses=uses)
        return Term(word, term.field, is_prefix=term.is_prefix) if word else term

    parts: list[Part] = [correct(part) if isinstance(part, Term) else part for part in query.parts]
    return SearchQuery(parts) if parts != list(query.parts) else None
