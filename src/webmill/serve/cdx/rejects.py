"""Lines of an index that are no CDXJ: left out of answers, counted, and each told once."""

from __future__ import annotations

import logging
from threading import Lock

from webmill.errors import BadInput
from webmill.serve.metrics import BAD_LINES
from webmill.serve.shared_counters import SharedCounters

log = logging.getLogger(__name__)

MOST_TOLD = 1000  # different lines, in one process


class BadLineLog:
    """Called from any thread."""

    def __init__(self, numbers: SharedCounters) -> None:
        self._numbers = numbers
        self._lock = Lock()
        self._told: set[int] = set()

    def __call__(self, line: bytes, error: BadInput) -> None:
        mark = hash(line)
        with self._lock:
            self._numbers.count(BAD_LINES)
            is_new = mark not in self._told and len(self._told) < MOST_TOLD
            if is_new:
                self._told.add(mark)
        if is_new:
            log.error("a line of an index is no CDXJ", extra={"line": repr(line[:200]), "why": str(error)})
