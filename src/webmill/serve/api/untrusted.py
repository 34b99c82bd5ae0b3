"""Text that strangers wrote, made fit to be shown to a model: in parts, and without what a person would not see."""

from __future__ import annotations

import re
from typing import Literal

TEXT_PART = 16_000  # characters of a text in one answer
LONGEST_TITLE = 300
LONGEST_EXCERPT = 2_000

# Controls, soft hyphens, directions, joiners of nothing, tags and variation selectors: text can hide in them from a
# reader, not from a model. Joiners within words of scripts and emoji stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)


# What is given as a fact of a capture or document, beside what is marked as a stranger's: only if it looks like one.
_FACTS = {
    "media type": re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,40}/[A-Za-z0-9][A-Za-z0-9.+-]{0,80}"),
    "status": re.compile(r"[0-9]{3}|-"),
    "language": re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}"),
}


def fact(kind: Literal["media type", "status", "language"], text: str | None) -> str:
    """Return the text if it is of this kind, else nothing: a server may send any sentence as its Content-Type."""
    return text if text and _FACTS[kind].fullmatch(text) else ""


def clean(text: str) -> str:
    """Return the text without characters that nobody sees."""
    return _HIDDEN.sub("", text)


def clip(text: str, most: int) -> str:
    """Return the beginning of a clean text."""
    cleaned = clean(text[: 2 * most])
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + "…"
