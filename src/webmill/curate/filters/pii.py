"""Personal data in texts: found by form and, where there is one, by its checksum; replaced by a word.

E-mail addresses, IP addresses of the public internet, telephone numbers in international form, card numbers (Luhn) and
IBANs (ISO 7064). Patterns are matched in linear time (RE2).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np
import re2

from webmill.curate.steps import CurateBatch, CurateStep, Limit

Kind = Literal["email", "ip", "phone", "card", "iban"]
KINDS: tuple[Kind, ...] = ("email", "ip", "phone", "card", "iban")

PATTERNS: dict[str, str] = {
    "email": r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}[A-Za-z]{2,24}",
    "ip": r"(?:\d{1,3}\.){3}\d{1,3}|(?:[0-9A-Fa-f]{1,4}:){2,7}(?::?[0-9A-Fa-f]{1,4}){1,6}",
    "phone": r"(?:\+|\b00)[1-9]\d{0,2}[ \-./]?(?:\(0?\d{1,4}\)[ \-./]?)?\d{1,4}(?:[ \-./]?\d{2,4}){1,4}",
    "card": r"\b[3-6]\d{3}(?:(?:[ -]?\d{4}){2}[ -]?\d{1,7}|[ -]?\d{6}[ -]?\d{4,5})\b",
    "iban": r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
}
# What a text must contain to have one at all: most texts are not looked at further.
HINTS = {"email": "@", "phone": "0123456789", "card": "0123456789", "iban": "0123456789", "ip": ".:"}


def is_public_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False


def is_phone(text: str) -> bool:
    return 8 <= len(_digits(text)) <= 15


def has_luhn_checksum(text: str) -> bool:
    """Return whether the digits end with the check digit of payment cards (ISO/IEC 7812)."""
    digits = _digits(text)
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return 13 <= len(digits) <= 19 and total % 10 == 0 and len(set(digits)) > 1


def has_iban_checksum(text: str) -> bool:
    """Return whether a number has the checksum of ISO 13616: the remainder by 97 is 1."""
    plain = text.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(char, 36)) for char in plain[4:] + plain[:4])) % 97 == 1


def _digits(text: str) -> list[int]:
    return [int(char) for char in text if char in "0123456789"]


CHECKS: dict[str, Callable[[str], bool]] = {
    "email": lambda _: True,
    "ip": is_public_address,
    "phone": is_phone,
    "card": has_luhn_checksum,
    "iban": has_iban_checksum,
}


@cache
def _pattern(kind: str) -> Any:
    return re2.compile(PATTERNS[kind])


def mask(text: str, kinds: tuple[str, ...], *, word: str) -> tuple[str, dict[str, int]]:
    """Return a text in which personal data is replaced by `word` with its kind, and how often each kind was."""
    counts = dict.fromkeys(kinds, 0)
    for kind in kinds:
        if any(char in text for char in HINTS[kind]):
            text, counts[kind] = _replace(text, kind, word.replace("{kind}", kind.upper()))
    return text, counts


def _replace(text: str, kind: str, word: str) -> tuple[str, int]:
    pieces, count, at = [], 0, 0
    for match in _pattern(kind).finditer(text):
        start, end = match.span()
        if CHECKS[kind](match.group()) and _stands_alone(text, start, end, kind):
            pieces += [text[at:start], word]
            count, at = count + 1, end
    return ("".join([*pieces, text[at:]]), count) if count else (text, 0)


def _stands_alone(text: str, start: int, end: int, kind: str) -> bool:
    """Return whether a number is not part of a longer one: no digit or Latin letter touches it, and no group of digits.

    Letters of other scripts may: Chinese has no spaces, and Korean joins particles to what is before them."""
    if kind == "email":
        return True
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    joints = ".:" if kind == "ip" else " -."
    touched = _is_joined(before[-1:]) or _is_joined(after[:1])
    return not (touched or _is_group(before[::-1], joints) or (kind == "ip" and _is_group(after, joints)))


def _is_joined(char: str) -> bool:
    return char.isdecimal() or (char.isascii() and char.isalnum())


def _is_group(edge: str, joints: str) -> bool:
    """Return whether a digit follows behind one of the characters that hold groups of digits together."""
    return len(edge) == 2 and edge[0] in joints and edge[1].isdigit()


class PersonalData(CurateStep, frozen=True, kw_only=True, tag="pii"):
    """Replace personal data by `word`, in which {kind} says what it was. More than `max_found` removes a document."""

    kinds: tuple[Kind, ...] = KINDS
    word: str = "<{kind}>"
    max_found: int | None = None

    measured: ClassVar = ("kinds", "word")
    version: ClassVar = 2
    rewrites: ClassVar = True

    def measure(self, batch: CurateBatch) -> dict[str, Any]:
        counts = [mask(text, self.kinds, word=self.word)[1] for text in batch.text.texts]
        columns: dict[str, Any] = {kind: np.array([one[kind] for one in counts], np.int64) for kind in self.kinds}
        return {**columns, "found": sum(columns.values(), np.zeros(batch.size, np.int64))}

    def rewrite(self, batch: CurateBatch) -> list[str]:
        return [mask(text, self.kinds, word=self.word)[0] for text in batch.text.texts]

    def limits(self) -> list[Limit]:
        return [Limit("too_much_personal_data", "found", most=self.max_found)]
