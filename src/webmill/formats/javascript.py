"""Splits JavaScript into code and the rest: strings, templates, regular expressions, comments.

    for part in read_parts(script):
        if part.kind == "code": …            # script[part.start : part.end]

Enough to find names where they are names (https://tc39.es/ecma262/#sec-ecmascript-language-lexical-grammar), without a
tree. Whether `/` divides or begins a regular expression depends on the tree: it is decided by what stands before it,
and behind `)` and `}` by what stands before their opening bracket. One pass; every expression is possessive, so time is
linear in the length for any input. What is unterminated extends to the end of its line, or is code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

Kind = Literal["code", "string", "template", "regex", "comment", "open", "close"]

MOST_DEPTH = 100_000  # open brackets; beyond, the rest is not read
MOST_INDENT = 200  # characters before `-->`
_CODE = re.compile(r"""(?:[^'"`/(){}\[\]<-]++|<(?!!--)|-(?!->))++""")
_STRING = {
    "'": re.compile(r"'(?:[^'\\\n\r]|\\(?:\r\n|[\s\S]))*+'"),
    '"': re.compile(r'"(?:[^"\\\n\r]|\\(?:\r\n|[\s\S]))*+"'),
}
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\[\s\S]|\$(?!\{))*+(`|\$\{)")
_LINE_END = re.compile(r"[\n\r\u2028\u2029]")
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*+\])++/[A-Za-z0-9_$]*+")
_LAST_WORD = re.compile(r"[A-Za-z0-9_$\x80-\U0010ffff]++\Z")
# After these words a value follows, so `/` begins a regular expression.
_BEFORE_VALUE = frozenset(
    {
        *("return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "instanceof", "do", "else"),
        *("yield", "await", "extends", "default"),
    }
)
_BEFORE_CONDITION = frozenset({"if", "while", "for", "with"})
_BEFORE_BLOCK = frozenset({"else", "do", "try", "finally"})
_WORD_WITHIN = 64  # characters: longer words are no keywords


class ScriptPart(msgspec.Struct, frozen=True):
    """`open` and `close` are brackets: one character of code each."""

    kind: Kind
    start: int
    end: int


def read_parts(script: str) -> Iterator[ScriptPart]:
    """Yield the parts of a script in order, without gaps."""
    return _ScriptReader(script).read()


class _ScriptReader:
    def __init__(self, script: str) -> None:
        self._script = script
        self._at = 0
        self._last_end = 0  # of the last significant part
        self._last = ""  # its kind: "value" or "operator" where the text itself does not say
        self._open: list[str] = []  # what each open bracket makes of its closing one: "value", "operator", "template"

    def read(self) -> Iterator[ScriptPart]:
        script, length = self._script, len(self._script)
        while self._at < length and len(self._open) < MOST_DEPTH:
            start = self._at
            if found := _CODE.match(script, start):
                self._at = found.end()
                self._note_code(found)
                yield ScriptPart("code", start, self._at)
                continue
            yield self._special(script[start], start)
        if self._at < length:
            yield ScriptPart("comment", self._at, length)

    def _note_code(self, found: re.Match[str]) -> None:
        text = found[0].rstrip() if found[0][-1].isspace() else found[0]
        if text:
            self._last, self._last_end = "", found.start() + len(text)

    def _special(self, first: str, start: int) -> ScriptPart:
        match first:
            case "'" | '"':
                found = _STRING[first].match(self._script, start)
                return self._part("string", start, found.end()) if found else self._code(start, 1)
            case "`":
                return self._template(start, start + 1)
            case "/":
                return self._slash(start)
            case "(" | "{" | "[":
                self._open.append(self._meaning(first))
                return self._bracket("open", start, "operator")
            case ")" | "}" | "]":
                meaning = self._open.pop() if self._open else "value"
                if meaning == "template" and first == "}":
                    return self._template(start, start + 1)
                return self._bracket("close", start, meaning)
            case _:
                return self._mark_of_html(start)

    # --- parts

    def _part(self, kind: Kind, start: int, end: int) -> ScriptPart:
        self._at = self._last_end = end
        self._last = "value"
        return ScriptPart(kind, start, end)

    def _bracket(self, kind: Kind, start: int, meaning: str) -> ScriptPart:
        self._at = self._last_end = start + 1
        self._last = meaning
        return ScriptPart(kind, start, self._at)

    def _code(self, start: int, length: int) -> ScriptPart:
        self._at = self._last_end = start + length
        self._last = ""
        return ScriptPart("code", start, self._at)

    def _comment(self, start: int, end: int) -> ScriptPart:
        self._at = end
        return ScriptPart("comment", start, end)

    def _template(self, start: int, at: int) -> ScriptPart:
        found = _TEMPLATE.match(self._script, at)
        if not found:
            return self._code(start, 1)
        part = self._part("template", start, found.end())
        if found[1] != "`":
            self._open.append("template")
            self._last = "operator"
        return part

    def _slash(self, start: int) -> ScriptPart:
        second = self._script[start + 1 : start + 2]
        if second == "/":
            return self._comment(start, self._end_of_line(start))
        if second == "*":
            end = self._script.find("*/", start + 2)
            return self._comment(start, end + 2 if end >= 0 else len(self._script))
        if not self._is_after_value() and (found := _REGEX.match(self._script, start)):
            return self._part("regex", start, found.end())
        return self._code(start, 1)

    def _mark_of_html(self, start: int) -> ScriptPart:
        """Read `<!--`, and `-->` at the beginning of a line: comments of classic scripts (Annex B.1.1)."""
        if self._script.startswith("<!--", start):
            return self._comment(start, self._end_of_line(start))
        before = self._script[max(0, start - MOST_INDENT) : start]
        if self._script.startswith("-->", start) and not before.rpartition("\n")[2].strip():
            return self._comment(start, self._end_of_line(start))
        return self._code(start, 1)

    def _end_of_line(self, start: int) -> int:
        found = _LINE_END.search(self._script, start)
        return found.start() if found else len(self._script)

    # --- what stands before

    def _last_word(self) -> str:
        if self._last:
            return ""
        found = _LAST_WORD.search(self._script, max(0, self._last_end - _WORD_WITHIN), self._last_end)
        return found[0] if found else ""

    def _is_after_value(self) -> bool:
        """Return whether a value ends here, so that `/` divides."""
        if self._last:
            return self._last == "value"
        if word := self._last_word():
            return word not in _BEFORE_VALUE or self._is_property(word)
        return self._script[max(0, self._last_end - 2) : self._last_end] in ("++", "--")

    def _is_property(self, word: str) -> bool:
        return self._script[max(0, self._last_end - len(word) - 1)] == "."

    def _meaning(self, bracket: str) -> str:
        """Return what the closing bracket will be: the end of a value, or of something before a value."""
        word = self._last_word()
        if bracket == "(":
            return "operator" if word in _BEFORE_CONDITION and not self._is_property(word) else "value"
        if bracket == "[":
            return "value"
        if self._last:  # behind a bracket or a value: a block, unless an operator
            return "operator" if self._script[self._last_end - 1] in ")}{;" else "value"
        before = self._script[self._last_end - 1 : self._last_end]
        is_block = before in ("", ";", ">") or word in _BEFORE_BLOCK or bool(word and word not in _BEFORE_VALUE)
        return "operator" if is_block else "value"
