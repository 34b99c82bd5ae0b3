"""Random draws that are the same on every machine and Python: `random` has changed its methods between versions."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


def hash_number(*key: object) -> int:
    """Return a large number that depends only on the key."""
    return int.from_bytes(blake2b("\x00".join(map(str, key)).encode(), digest_size=8).digest(), "big")


class SeededRandom:
    """A stream of draws that depends only on the key."""

    def __init__(self, *key: object) -> None:
        self._key = key
        self._drawn = 0

    def below(self, limit: int) -> int:
        self._drawn += 1
        return hash_number(*self._key, self._drawn) % limit

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in the order drawn, or all of them when there are fewer."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]
