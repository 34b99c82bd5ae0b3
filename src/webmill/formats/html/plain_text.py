"""Build the plain text of a page as in Common Crawl's WET files.

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
    """Collects texts and the breaks between them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._last = "\n"  # the last character; at the start nothing is to be separated

    def add(self, text: str) -> str:
        """Add text with white space collapsed; return what was added."""
        if self._last in _SPACES:
            if text.isspace() and text.isascii():  # the indentation between tags: every second text
                return ""
            text = collapse_space(text)
            return self.add_preformatted(text[1:] if text[:1] in _SPACES else text)
        return self.add_preformatted(collapse_space(text))

    def add_preformatted(self, text: str) -> str:
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
    """Collapse each run of white space to its first character, or to a space if that is a control character."""
    if text.isascii() or not _WIDE.search(text):
        return _UNTIDY.sub(" ", text)
    return _UNTIDY.sub(lambda run: run[0][0] if _WIDE.match(run[0]) else " ", text)
