"""Dictionaries of Structured Fields (RFC 9651), as `Content-Usage`, `Signature-Input` and `Signature` use them.

A dictionary that breaks the grammar is no dictionary: the standard has the whole field ignored then. Members keep how
they were written, because a signature covers the text.
"""

from __future__ import annotations

import base64
import binascii
import re

import msgspec

MAX_FIELD = 16_384  # characters
MAX_MEMBERS = 256

_KEY = r"[a-z*][a-z0-9_\-.*]*+"
_STRING = r'"(?:[^"\\\x00-\x1f\x7f-\U0010ffff]|\\["\\])*+"'
_NUMBER = r"-?[0-9]{1,15}(?:\.[0-9]{1,3})?"
_WORD = r"[A-Za-z*][!#$%&'*+\-.^_`|~:/A-Za-z0-9]*+"
_BARE = rf"(?:{_STRING}|:[A-Za-z0-9+/=]*+:|\?[01]|@-?[0-9]{{1,15}}|{_NUMBER}|{_WORD})"
_PARAMETERS = rf"(?: *; *{_KEY}(?:={_BARE})?)*+"
_INNER = rf"\((?: *{_BARE}{_PARAMETERS})*+ *\)"
_MEMBER = re.compile(rf"({_KEY})(?:=({_INNER}|{_BARE}))?({_PARAMETERS})")
_PARAMETER = re.compile(rf" *; *({_KEY})(?:=({_BARE}))?")
_ITEM = re.compile(rf" *({_BARE})({_PARAMETERS})")
_COMMA = re.compile(r"[ \t]*,[ \t]*")

BareItem = bool | int | float | str | bytes


class Token(str):
    """A token, which is no string: `n` and not `"n"`."""

    __slots__ = ()


class FieldItem(msgspec.Struct, frozen=True):
    """A value with its parameters; `value` is a tuple for an inner list. `text` is how it was written."""

    value: BareItem | tuple[FieldItem, ...]
    parameters: dict[str, BareItem]
    text: str


def parse_dictionary(field: str) -> dict[str, FieldItem] | None:
    """Return the members of a dictionary in their order, or None if this is none. Of equal keys the last one counts."""
    text, at = field.strip(" "), 0
    found: dict[str, FieldItem] = {}
    if len(text) > MAX_FIELD:
        return None
    while at < len(text):
        member = _MEMBER.match(text, at)
        if member is None or len(found) >= MAX_MEMBERS:
            return None
        found.pop(member[1], None)
        found[member[1]] = _item(member[2], member[3])
        at = member.end()
        if at == len(text):
            break
        comma = _COMMA.match(text, at)
        if comma is None or comma.end() == len(text):  # a comma at the end breaks the grammar
            return None
        at = comma.end()
    return found


def _item(value: str | None, parameters: str) -> FieldItem:
    if value is None:
        return FieldItem(value=True, parameters=_parameters(parameters), text=parameters)
    if value.startswith("("):
        inner = tuple(_item(one[1], one[2]) for one in _ITEM.finditer(value[1:-1]))
        return FieldItem(value=inner, parameters=_parameters(parameters), text=value + parameters)
    return FieldItem(value=_bare(value), parameters=_parameters(parameters), text=value + parameters)


def _parameters(text: str) -> dict[str, BareItem]:
    return {one[1]: True if one[2] is None else _bare(one[2]) for one in _PARAMETER.finditer(text)}


def _bare(text: str) -> BareItem:
    first = text[0]
    if first == '"':
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    if first == ":":
        try:
            return base64.b64decode(text[1:-1], validate=True)
        except (binascii.Error, ValueError):
            return b""
    if first == "?":
        return text == "?1"
    if first in "-0123456789":
        return float(text) if "." in text else int(text)
    if first == "@":
        return int(text[1:])
    return Token(text)
