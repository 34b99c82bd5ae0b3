"""How pipelines and commands speak of numbers."""

from __future__ import annotations

_OF_ONE = {"are": "is", "were": "was", "have": "has"}


def counted(count: int, noun: str, verb: str = "") -> str:
    """`1 file`, `2 files`, `3 batches`; with the verb for many, `1 URL waits`, `2 URLs wait`."""
    plural = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    words = f"{count:,} {noun}{plural}"
    if not verb:
        return words
    return f"{words} {_OF_ONE.get(verb, f'{verb}s') if count == 1 else verb}"
