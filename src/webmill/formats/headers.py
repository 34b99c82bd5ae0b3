"""Header fields of WARC records and HTTP messages: in order, repeated ones kept, unknown ones kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Headers:
    """An ordered list of (name, value) pairs whose names compare without case.

    Text is lossless: WARC fields are decoded as UTF-8 with `surrogateescape`, HTTP fields as Latin-1.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs: tuple[tuple[str, str], ...] = tuple(pairs)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of `name`."""
        wanted = name.lower()
        for key, value in self.pairs:
            if key.lower() == wanted:
                return value
        return default

    def get_all(self, name: str) -> list[str]:
        wanted = name.lower()
        return [value for key, value in self.pairs if key.lower() == wanted]

    def adding(self, *pairs: tuple[str, str]) -> Headers:
        return Headers((*self.pairs, *pairs))

    def without(self, name: str) -> Headers:
        dropped = name.lower()
        return Headers(pair for pair in self.pairs if pair[0].lower() != dropped)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Headers({list(self.pairs)!r})"
