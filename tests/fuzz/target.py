"""What a target is, and what targets have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from webmill.errors import WebmillError


@dataclass(frozen=True)
class Target:
    """`take` may raise any `WebmillError`; whatever else escapes is a fault. `samples` are real ones (samples.py)."""

    name: str
    take: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    samples: str = ""

    def survives(self, data: bytes) -> None:
        try:
            self.take(data)
        except WebmillError:
            pass


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def drain(items: Iterable[object]) -> None:
    for _ in items:
        pass


def each(*takes: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """One after the other, whatever the one before said."""

    def take_all(data: bytes) -> None:
        for take in takes:
            try:
                take(data)
            except WebmillError:
                pass

    return take_all
