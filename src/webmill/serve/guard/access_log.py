"""The access log: one JSON object per line and request. Nothing that a client sends can start a line."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from starlette.types import Scope

from webmill.errors import Misconfigured

MOST_BUFFERED = 32 << 10
LONGEST = 1024  # characters kept of a value from the client


class AccessLog:
    """Appends whole lines, buffered, to a file that processes share, or to stderr (`-`)."""

    def __init__(self, place: str) -> None:
        self._lines: list[str] = []
        self._size = 0
        if place == "-":
            self._fd = os.dup(sys.stderr.fileno())
            return
        try:
            self._fd = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise Misconfigured(f"cannot write the access log {Path(place)} ({error.strerror})") from error

    def add(self, scope: Scope, *, address: str, status: int, kind: str, size: int, seconds: float) -> None:
        sent = {name: value for name, value in scope["headers"] if name in (b"host", b"user-agent", b"referer")}
        query = scope["query_string"]
        line = {
            "time": round(time.time(), 3),
            "address": address,
            "method": scope["method"],
            "path": _text(scope.get("raw_path") or b"") + ("?" + _text(query) if query else ""),
            "host": _text(sent.get(b"host", b"")),
            "status": status,
            "kind": kind,
            "bytes": size,
            "seconds": round(seconds, 6),
            "agent": _text(sent.get(b"user-agent", b"")),
            "referer": _text(sent.get(b"referer", b"")),
        }
        self._lines.append(json.dumps(line, separators=(",", ":")) + "\n")  # all but ASCII is escaped
        self._size += len(self._lines[-1])
        if self._size > MOST_BUFFERED:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines. A full disk loses lines, not requests."""
        lines, self._lines, self._size = "".join(self._lines).encode(), [], 0
        try:
            while lines:  # a pipe or a nearly full disk may accept less
                lines = lines[os.write(self._fd, lines) :]
        except OSError:
            pass

    def close(self) -> None:
        self.flush()
        os.close(self._fd)


def _text(data: bytes) -> str:
    return data[:LONGEST].decode("utf-8", "backslashreplace").replace("\x7f", "\\x7f")
