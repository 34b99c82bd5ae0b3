"""One search engine for all requests of a process, opened when first asked, and again when its index was replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.errors import BadInput, NotFound, Unavailable
from webmill.search.base import SearchAnswer, SearchEngine, SearchRequest

FileStamp = tuple[int, int, int] | None


class SharedEngine:
    """`place` is a file that is replaced with the index; None: the engine itself sees what changes.

    An engine that was replaced is closed when its last query is done.
    """

    def __init__(self, open_engine: Callable[[], SearchEngine], place: Path | None = None) -> None:
        self._open_engine = open_engine
        self._place = place
        self._lock = threading.Lock()
        self._kept: _BorrowedEngine | None = None

    def search(self, request: SearchRequest) -> tuple[SearchAnswer, str | None]:
        """And the cursor: up to which version everything is indexed. `NotFound`: nothing is indexed yet."""
        with self._lent() as engine:
            return engine.search(request), engine.cursor()

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept:
            self._give_back(kept)

    @contextmanager
    def _lent(self) -> Iterator[SearchEngine]:
        try:
            lent = self._take()
            try:
                yield lent.engine
            finally:
                self._give_back(lent)
        except BadInput as error:  # its files are damaged: no fault of whoever asks
            raise Unavailable(error.message) from error

    def _take(self) -> _BorrowedEngine:
        replaced: _BorrowedEngine | None = None
        with self._lock:
            mark = self._mark()
            if self._kept is None or self._kept.mark != mark:
                fresh = _BorrowedEngine(self._open(), mark)
                replaced, self._kept = self._kept, fresh
            taken = self._kept
            taken.users += 1
        if replaced:
            self._give_back(replaced)
        return taken

    def _open(self) -> SearchEngine:
        try:
            return self._open_engine()
        except NotFound:
            raise NotFound("nothing can be searched here yet: `webmill search update`") from None

    def _give_back(self, lent: _BorrowedEngine) -> None:
        with self._lock:
            lent.users -= 1
            is_last = lent.users == 0
        if is_last:
            lent.engine.close()

    def _mark(self) -> FileStamp:
        try:
            stat = self._place.stat() if self._place else None
        except OSError:
            return None
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size) if stat else None


class _BorrowedEngine:
    """An engine, and how many hold it: whoever keeps it for the next query is one of them."""

    def __init__(self, engine: SearchEngine, mark: FileStamp) -> None:
        self.engine, self.mark, self.users = engine, mark, 1
