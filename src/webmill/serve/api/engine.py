"""One search engine per process, opened on first use and reopened when its index is replaced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.errors import BadInput, NotFound, Unavailable
from webmill.search import asked
from webmill.search.base import IndexedDocument, SearchAnswer, SearchEngine, SearchRequest
from webmill.search.title_suggestions import suggest_titles

FileStamp = tuple[int, int, int] | None


class SharedEngine:
    """A search engine shared by all requests. `place` is a file that changes with the index, if the engine needs one.

    A replaced engine is closed when its last query is done.
    """

    def __init__(self, open_engine: Callable[[], SearchEngine], place: Path | None = None) -> None:
        self._open_engine = open_engine
        self._place = place
        self._lock = threading.Lock()
        self._kept: _BorrowedEngine | None = None

    def search(
        self, request: SearchRequest, *, like: IndexedDocument | None = None, collapse: bool = False
    ) -> tuple[SearchAnswer, str | None]:
        """Return the answer and the version that the index is up to. `NotFound`: nothing is indexed yet."""
        with self._borrow() as engine:
            return asked.answer(engine.search, request, like=like, collapse=collapse), engine.cursor()

    def suggest(self, typed: str) -> list[str]:
        """Return titles that begin with what was typed, or have its words."""
        with self._borrow() as engine:
            return suggest_titles(engine.search, typed)

    def state(self) -> tuple[int, str | None]:
        """Return how many documents are indexed, and the version that the index is up to. `NotFound`: none yet."""
        with self._borrow() as engine:
            return engine.count(), engine.cursor()

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept:
            self._release(kept)

    @contextmanager
    def _borrow(self) -> Iterator[SearchEngine]:
        try:
            borrowed = self._acquire()
            try:
                yield borrowed.engine
            finally:
                self._release(borrowed)
        except BadInput as error:  # its files are damaged: not the client's fault
            raise Unavailable(error.message) from error

    def _acquire(self) -> _BorrowedEngine:
        replaced: _BorrowedEngine | None = None
        with self._lock:
            stamp = self._file_stamp()
            if self._kept is None or self._kept.stamp != stamp:
                fresh = _BorrowedEngine(self._open(), stamp)
                replaced, self._kept = self._kept, fresh
            taken = self._kept
            taken.users += 1
        if replaced:
            self._release(replaced)
        return taken

    def _open(self) -> SearchEngine:
        try:
            return self._open_engine()
        except NotFound as missing:
            if "--as-of" in str(missing):
                raise
            raise NotFound("there is no search index here yet; run `webmill search update`") from None

    def _release(self, borrowed: _BorrowedEngine) -> None:
        with self._lock:
            borrowed.users -= 1
            is_last = borrowed.users == 0
        if is_last:
            borrowed.engine.close()

    def _file_stamp(self) -> FileStamp:
        try:
            stat = self._place.stat() if self._place else None
        except OSError:
            return None
        return (stat.st_ino, stat.st_mtime_ns, stat.st_size) if stat else None


class _BorrowedEngine:
    """An engine with the number of its users; `SharedEngine` itself is one."""

    def __init__(self, engine: SearchEngine, stamp: FileStamp) -> None:
        self.engine, self.stamp, self.users = engine, stamp, 1
