"""Cuts a document into passages of about a paragraph: a vector of more would say too little of each thought in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from webmill.search.base import IndexedDocument
from webmill.search.segmentation import BIGRAM_SCRIPTS, to_nfc

FORMAT = 1  # of what follows; another one makes all vectors anew
LENGTH = 1000  # characters of a passage
DENSE_LENGTH = 400  # where characters are half words: Chinese, Korean, Japanese, Thai
MOST = 64  # passages of a document; the rest of a longer one is not searched by meaning
TITLE = 200  # characters of the title that stand before each passage
_DENSE = re.compile(f"[{BIGRAM_SCRIPTS}]")
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s|[。！？｡]|\n")


class Passage(msgspec.Struct, frozen=True):
    """The characters `[start, start + length)` of a text."""

    start: int
    length: int


def passages_of(text: str) -> Iterator[Passage]:
    """Yield the passages of a text, in order; nothing of one without words."""
    start = 0
    for _ in range(MOST):
        while start < len(text) and text[start].isspace():
            start += 1
        if start >= len(text):
            return
        end = _end_of(text, start)
        yield Passage(start, end - start)
        start = end


def _end_of(text: str, start: int) -> int:
    sample = text[start : start + LENGTH]
    length = DENSE_LENGTH if len(_DENSE.findall(sample)) > len(sample) // 4 else LENGTH
    if start + length >= len(text):
        return len(text)
    last = text[start + length // 2 : start + length]
    ends = [match.end() for match in _SENTENCE_END.finditer(last)] or [last.rfind(" ") + 1]
    return start + length // 2 + (ends[-1] or len(last))


def embedded_texts(document: IndexedDocument) -> tuple[list[Passage], list[str]]:
    """Return the passages of a document, and for each the text to embed. One without text has its title."""
    title, text = (document.title or "").strip()[:TITLE], to_nfc(document.text or "")
    found = [*passages_of(text)] or [Passage(0, 0)]
    return found, [spoken(f"{title}\n{text[each.start : each.start + each.length]}".strip()) for each in found]


def spoken(text: str) -> str:
    """Return a text as models know it: one in capitals alone they would read letter by letter."""
    capitals = sum(map(str.isupper, text))
    return text.lower() if capitals > sum(map(str.islower, text)) else text
