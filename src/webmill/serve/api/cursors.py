"""Cursors: where an answer continues. They hold no state of the server, and fit only the question they came from."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any, TypeVar

import msgspec

from webmill.errors import BadInput

R = TypeVar("R", bound=msgspec.Struct)
S = TypeVar("S", bound=msgspec.Struct)

MOST_BYTES = 64 << 10  # of the results in one answer
LONGEST = 40_000


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """`question` is the hash of the arguments, `place` what the tool itself makes of it."""

    question: str
    place: Any


def make_cursor(arguments: msgspec.Struct, place: msgspec.Struct) -> str:
    """Return the cursor with which the same arguments continue at `place`."""
    return urlsafe_b64encode(msgspec.json.encode(Cursor(_question(arguments), place))).decode().rstrip("=")


def read_cursor(arguments: msgspec.Struct, place: type[S]) -> S | None:
    """Return the place where the answer continues; None without a cursor. `BadInput`: it is of another question."""
    text: str = getattr(arguments, "cursor", "")
    if not text:
        return None
    try:
        if len(text) > LONGEST:
            raise ValueError("too long")
        cursor = msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Cursor)
        if cursor.question != _question(arguments):
            raise ValueError("of another question")
        return msgspec.convert(cursor.place, place)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(
            "this cursor does not belong to these arguments: ask again without a cursor", reason="bad_cursor"
        ) from error


def _question(arguments: msgspec.Struct) -> str:
    values = msgspec.to_builtins(arguments)
    values.pop("cursor", None)
    named = msgspec.json.encode([type(arguments).__name__, values], order="sorted")
    return hashlib.sha256(named).hexdigest()[:16]


class AnswerSize:
    """Counts the bytes of the results in one answer."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._left, self._is_empty = most, True

    def has_room(self, result: msgspec.Struct) -> bool:
        """Count a result; return whether it fits. The first one always does."""
        self._left -= len(msgspec.json.encode(result))
        fits = self._is_empty or self._left >= 0
        self._is_empty = False
        return fits


def fitting(results: Iterable[R]) -> Iterator[R]:
    """Yield results as long as all together fit into one answer."""
    size = AnswerSize()
    return takewhile(size.has_room, results)
