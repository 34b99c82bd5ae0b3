"""The plain text of a page, put together as Common Crawl's WET files have it.

White space is collapsed to its first character (controls and no-break spaces count as a space), block elements end a
line, there are no empty lines; inside <pre> everything stays.
"""

from __future__ import annotations

import re

from webmill.formats.html.tokens import SPACE, WIDE_SPACE

_CONTROLS = r"\x00-\x08\x0e-\x1f\x7f\xa0"
_UNTIDY = re.compile(rf"[{SPACE}{_CONTROLS}]{{2,}}|[\t-\r{_CONTROLS}]")
_WIDE = re.compile(rf"[{WIDE_SPACE}]")
_SPACES = frozenset(re.findall(rf"[{SPACE}]", "".join(map(chr, range(0x3001)))))


class PlainText:
    """Grows by texts and by what stands between them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._last = "\n"  # the last character; at the very beginning nothing is to be separated

    def add(self, text: str) -> str:
        """What was added: `text` collapsed."""
        if self._last in _SPACES:
            if text.isspace() and text.isascii():  # the indentation between tags: every second text
                return ""
            text = collapse_space(text)
            return self.add_as_it_is(text[1:] if text[:1] in _SPACES else text)
        return self.add_as_it_is(collapse_space(text))

    def add_as_it_is(self, text: str) -> str:
        if text:
            self._parts.append(text)
            self._last = text[-1]
        return text

    def end_line(self) -> None:
        if self._last == " ":
            self._drop_spaces()
        if self._last != "\n":
            self._parts.append("\n")
            self._last = "\n"

    def end_word(self) -> None:
        if self._last not in " \n":
            self._parts.append(" ")
            self._last = " "

    def text(self) -> str:
        return "".join(self._parts)

    def _drop_spaces(self) -> None:
        while self._parts:
            rest = self._parts.pop().rstrip(" ")
            if rest:
                self._parts.append(rest)
                break
        self._last = self._parts[-1][-1] if self._parts else "\n"


def collapse_space(text: str) -> str:
    """Runs of white space as one character: the first of the run, or a space when that one is no text."""
    if text.isascii() or not _WIDE.search(text):
        return _UNTIDY.sub(" ", text)
    return _UNTIDY.sub(lambda run: run[0][0] if _WIDE.match(run[0]) else " ", text)
