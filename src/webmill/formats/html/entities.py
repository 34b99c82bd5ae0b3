"""Decode character references as browsers do (HTML standard, 13.2.5.72 and following).

A name without a semicolon counts if it is one of about a hundred old ones (`&copy`), even at the start of a longer word
(`&copyright`); in an attribute not before a letter, a digit, `=`, `-` or `_`, or `?a=1&copy=2` would break.
"""

from __future__ import annotations

import re
from html.entities import html5

_REFERENCE = re.compile(r"&(?:#(?:[xX]([0-9a-fA-F]++)|([0-9]++));?+|([a-zA-Z]++[0-9]*+)(;?+))")
_NAMED = {name[:-1]: text for name, text in html5.items() if name.endswith(";")}
_OLD = {name: text for name, text in html5.items() if not name.endswith(";")}
_MAX_OLD = max(map(len, _OLD))
_GLUE = frozenset("=-_")
# 80 to 9F are control characters that nobody means: browsers read them as windows-1252, which lacks five of them.
_WINDOWS = {byte: bytes((byte,)).decode("cp1252", "ignore") for byte in range(0x80, 0xA0)}
_MAX_DIGITS = 7  # 0x10FFFF has six and 1114111 has seven


def decode_text(text: str) -> str:
    return _REFERENCE.sub(_in_text, text) if "&" in text else text


def decode_attribute(value: str) -> str:
    return _REFERENCE.sub(_in_attribute, value) if "&" in value else value


def _in_text(found: re.Match[str]) -> str:
    decoded, rest = _decode(found)
    return found[0] if decoded is None else decoded + rest


def _in_attribute(found: re.Match[str]) -> str:
    decoded, rest = _decode(found)
    if decoded is None:
        return found[0]
    following = rest or found.string[found.end() : found.end() + 1]
    is_unterminated = found[3] and (rest or not found[4])
    if is_unterminated and following and (following[0] in _GLUE or (following[0].isascii() and following[0].isalnum())):
        return found[0]
    return decoded + rest


def _decode(found: re.Match[str]) -> tuple[str | None, str]:
    """Return the decoded characters, and what was matched but is not part of the reference."""
    hexadecimal, decimal, name, semicolon = found.groups()
    if name is None:
        return _decode_number(hexadecimal, 16) if hexadecimal else _decode_number(decimal, 10), ""
    if semicolon and name in _NAMED:
        return _NAMED[name], ""
    if name in _OLD:
        return _OLD[name], semicolon
    for length in range(min(len(name), _MAX_OLD), 1, -1):
        if name[:length] in _OLD:
            return _OLD[name[:length]], name[length:] + semicolon
    return None, ""


def _decode_number(digits: str, base: int) -> str:
    digits = digits.lstrip("0")
    number = int(digits or "0", base) if len(digits) <= _MAX_DIGITS else -1
    if not 0 < number <= 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        return "\ufffd"
    return _WINDOWS.get(number) or chr(number)
