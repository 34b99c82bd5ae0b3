"""A word diff of two texts in bounded time.

Lines are compared first, then the words of replaced lines. Scripts without spaces between words are compared by
character. `difflib` takes quadratic time: what is too long for it is shown as removed and added as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Literal

import msgspec

from webmill.search.segmentation import BIGRAM_SCRIPTS

LONGEST = 400_000  # characters of both texts together
MOST_LINES = 1_500  # that differ, per text
MOST_WORDS = 1_500  # in replaced lines, per text
CONTEXT = 2  # lines around a change

Kind = Literal["same", "gone", "new", "left out"]
_WORD = re.compile(rf"(?:[{BIGRAM_SCRIPTS}]|[^\W{BIGRAM_SCRIPTS}]+|\S)\s*|\s+")  # with the space behind it


class DiffPiece(msgspec.Struct, frozen=True):
    """A run of text. `left out` stands for unchanged lines; its text says how many."""

    kind: Kind
    text: str


class DiffRow(msgspec.Struct, frozen=True):
    """A line of both texts, side by side; None where one of them has no such line. `left_out` stands for unchanged
    lines, and says how many."""

    old: list[DiffPiece] | None = None
    new: list[DiffPiece] | None = None
    left_out: str = ""

    @property
    def is_same(self) -> bool:
        return self.old is not None and self.old is self.new


def compare_sides(old: str, new: str) -> list[DiffRow] | None:
    """Return the diff line by line, for two columns; None if the texts are too large."""
    if len(old) + len(new) > LONGEST:
        return None
    was, now = old.splitlines(), new.splitlines()
    head, tail = _common(was, now)
    was_middle, now_middle = was[head : len(was) - tail], now[head : len(now) - tail]
    if max(len(was_middle), len(now_middle)) > MOST_LINES:
        return None
    rows = [*_same_rows(was[:head]), *_rows(was_middle, now_middle), *_same_rows(was[len(was) - tail :])]
    return _collapse_rows(rows)


def _rows(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffRow]:
    for tag, a, b, c, d in SequenceMatcher(None, old, new).get_opcodes():
        if tag == "equal":
            yield from _same_rows(old[a:b])
            continue
        for was, now in zip_longest(old[a:b], new[c:d]):
            pieces = merge_neighbours([*_words(was or "", now or "")])
            yield DiffRow(
                None if was is None else [piece for piece in pieces if piece.kind != "new"],
                None if now is None else [piece for piece in pieces if piece.kind != "gone"],
            )


def _same_rows(lines: Sequence[str]) -> Iterator[DiffRow]:
    for line in lines:
        pieces = [DiffPiece("same", line)]
        yield DiffRow(pieces, pieces)


def _collapse_rows(rows: Sequence[DiffRow]) -> list[DiffRow]:
    """Return the rows with long unchanged stretches reduced to those next to a change."""
    found: list[DiffRow] = []
    for is_same, group in groupby(rows, key=lambda row: row.is_same):
        some = [*group]
        before = CONTEXT if found else 0
        after = CONTEXT if some[-1] is not rows[-1] else 0
        left_out = len(some) - before - after
        if is_same and left_out > 2 * CONTEXT:
            some[before : len(some) - after] = [DiffRow(left_out=f"{left_out:,} unchanged lines")]
        found += some
    return found


def compare_texts(old: str, new: str) -> list[DiffPiece] | None:
    """Return the diff, or None if the texts are too large."""
    if len(old) + len(new) > LONGEST:
        return None
    was, now = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head, tail = _common(was, now)
    was_middle, now_middle = was[head : len(was) - tail], now[head : len(now) - tail]
    if max(len(was_middle), len(now_middle)) > MOST_LINES:
        return None
    changed = _lines(was_middle, now_middle)
    same_head, same_tail = DiffPiece("same", "".join(was[:head])), DiffPiece("same", "".join(was[len(was) - tail :]))
    return collapse_unchanged(merge_neighbours([same_head, *changed, same_tail]))


def _lines(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffPiece]:
    for tag, a, b, c, d in SequenceMatcher(None, old, new).get_opcodes():
        was, now = "".join(old[a:b]), "".join(new[c:d])
        if tag == "equal":
            yield DiffPiece("same", was)
        elif tag == "replace":
            yield from _words(was, now)
        else:
            yield DiffPiece("gone", was)
            yield DiffPiece("new", now)


def _words(was: str, now: str) -> Iterator[DiffPiece]:
    old, new = _WORD.findall(was), _WORD.findall(now)
    head, tail = _common(old, new)
    yield DiffPiece("same", "".join(old[:head]))
    old_middle, new_middle = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(old_middle), len(new_middle)) > MOST_WORDS:
        yield DiffPiece("gone", "".join(old_middle))
        yield DiffPiece("new", "".join(new_middle))
    else:
        for tag, a, b, c, d in SequenceMatcher(None, old_middle, new_middle).get_opcodes():
            if tag == "equal":
                yield DiffPiece("same", "".join(old_middle[a:b]))
            else:
                yield DiffPiece("gone", "".join(old_middle[a:b]))
                yield DiffPiece("new", "".join(new_middle[c:d]))
    yield DiffPiece("same", "".join(old[len(old) - tail :]))


def _common(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of the common prefix and of the common suffix behind it."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    most -= head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    return head, tail


def merge_neighbours(pieces: Sequence[DiffPiece]) -> list[DiffPiece]:
    """Return the pieces without empty ones, adjacent ones of one kind merged."""
    found: list[DiffPiece] = []
    for piece in pieces:
        if found and found[-1].kind == piece.kind:
            found[-1] = DiffPiece(piece.kind, found[-1].text + piece.text)
        elif piece.text:
            found.append(piece)
    return found


def collapse_unchanged(pieces: Sequence[DiffPiece]) -> list[DiffPiece]:
    """Return the pieces with long unchanged stretches reduced to the lines next to a change."""
    found: list[DiffPiece] = []
    for number, piece in enumerate(pieces):
        lines = piece.text.splitlines(keepends=True)
        before = CONTEXT if number else 0
        after = CONTEXT if number < len(pieces) - 1 else 0
        left_out = len(lines) - before - after
        if piece.kind != "same" or left_out <= 2 * CONTEXT:
            found.append(piece)
            continue
        if before:
            found.append(DiffPiece("same", "".join(lines[:before])))
        found.append(DiffPiece("left out", f"{left_out:,} unchanged lines"))
        if after:
            found.append(DiffPiece("same", "".join(lines[-after:])))
    return found
