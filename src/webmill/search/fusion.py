"""Fuses rankings: a document counts by its ranks, since the scores of words and of meanings cannot be compared.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): each ranking adds weight / (60 + rank).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

SOFTNESS = 60

Item = TypeVar("Item", bound=Hashable)


def fuse(*rankings: tuple[float, Iterable[Item]]) -> list[tuple[Item, float]]:
    """Return every item of some rankings, each with its weight, and its score; the best first."""
    scores: dict[Item, float] = {}
    for weight, ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            scores[item] = scores.get(item, 0.0) + weight / (SOFTNESS + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])
