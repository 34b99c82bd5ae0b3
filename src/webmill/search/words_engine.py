"""An engine without a sentence model: words alone, also in an index that was made with one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webmill.errors import Misconfigured
from webmill.search.base import IndexedDocument, SearchAnswer, SearchEngine, SearchRequest

STORE_MARK = "|"  # in a cursor, before the name of the store of vectors that the index was made with


class WordsEngine:
    """What it applies has no vectors, and its cursor says so."""

    def __init__(self, engine: SearchEngine) -> None:
        self._engine = engine

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        self._engine.apply(changed, removed, cursor=cursor)

    def cursor(self) -> str | None:
        found = self._engine.cursor()
        return found.partition(STORE_MARK)[0] if found else found

    def keys(self) -> Iterator[tuple[str, str]]:
        return self._engine.keys()

    def count(self) -> int:
        return self._engine.count()

    def search(self, request: SearchRequest) -> SearchAnswer:
        if request.mode != "words":
            raise Misconfigured("search by meaning needs a sentence model: --model DIR, or `model` in [search]")
        return self._engine.search(request)

    def clear(self) -> None:
        self._engine.clear()

    def close(self) -> None:
        self._engine.close()
