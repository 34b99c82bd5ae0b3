"""What counts as a change of a text: its words, wherever they stand, without what moves by itself.

    compare_text("Open today\nVisitors: 17", "Open today\nVisitors: 18").is_change      # False
    compare_text("Open today\nPrice: 17", "Open today\nPrice: 18").share                # 0.25 of the words

Lines are compared as a set: blocks that change places are no change, and neither are spaces and line breaks. Lines
that differ are compared once more without clocks, counters and tokens (`noise.py`), and without what the rules of the
site ignore. The time taken is linear in the length of the texts, whatever they hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest

import msgspec
import re2

from webmill.publish.noise import mask_dates, mask_noise, mask_numbers

LONGEST = 2_000_000  # characters that are compared of each text
MOST_MASKED, LONGEST_MASKED = 5_000, 20_000  # lines that differ, and characters of one, that are looked at for noise
EXCERPT = 300  # characters
CONTEXT = 40  # characters of a line that are shown around what changed in it
_WORD = re.compile(r"[぀-ヿ㐀-鿿]|[^\W぀-ヿ㐀-鿿]+")  # scripts without spaces count by characters


class TextRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is ignored in the texts of a page. A change of less than `threshold` of the words is unimportant."""

    patterns: tuple[re2._Regexp, ...] = ()
    numbers: bool = False
    dates: bool = False
    noise: bool = True
    threshold: float = 0.0


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """What changed: the share of the words of both texts, 0 to 1, and short excerpts for people.

    `is_change`: something is left when noise is ignored. `is_important`: and it reaches the threshold.
    """

    is_change: bool = False
    is_important: bool = False
    share: float = 0.0
    added: str = ""
    removed: str = ""


NO_RULES = TextRules()


def compare_text(old: str, new: str, rules: TextRules = NO_RULES) -> TextChange:
    """Return what changed between two texts, by the rules of their page."""
    was, now = split_lines(old, rules), split_lines(new, rules)
    gone, came = _unmatched(was, now, key=str)
    if max(len(gone), len(came)) <= MOST_MASKED:
        gone, came = _unmatched(gone, came, key=_mask_of(rules))
    if "".join(gone).replace(" ", "") == "".join(came).replace(" ", ""):  # other line breaks
        return TextChange()
    share = _changed_share(gone, came, total=len(_words(was)) + len(_words(now)))
    removed, added = make_excerpts(gone, came)
    return TextChange(is_change=True, is_important=share >= rules.threshold, share=share, added=added, removed=removed)


def split_lines(text: str, rules: TextRules = NO_RULES) -> list[str]:
    """Return the lines that are not empty, without what patterns ignore, and with single spaces."""
    text = text[:LONGEST]
    for pattern in rules.patterns:
        text = pattern.sub("", text)
    return [line for raw in text.splitlines() if (line := " ".join(raw.split()))]


def _mask_of(rules: TextRules) -> Callable[[str], str]:
    chosen = ((rules.noise, mask_noise), (rules.dates, mask_dates), (rules.numbers, mask_numbers))
    masks = [mask for wanted, mask in chosen if wanted]

    def mask(line: str) -> str:
        for each in masks if len(line) <= LONGEST_MASKED else ():
            line = each(line)
        return line

    return mask


def _unmatched(old: Sequence[str], new: Sequence[str], *, key: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """Return the lines of each text that the other one lacks, in their order. Lines with the same key are the same."""
    was, now = [key(line) for line in old], [key(line) for line in new]
    gone, came = Counter(was), Counter(now)
    return _take(old, was, gone - came), _take(new, now, came - gone)


def _take(lines: Iterable[str], keys: Iterable[str], wanted: Counter[str]) -> list[str]:
    """Return the lines that are wanted, each as often as it is. The last ones: a list grows at its end."""
    found = []
    for line, key in reversed([*zip(lines, keys, strict=True)]):
        if wanted[key] > 0:
            wanted[key] -= 1
            found.append(line)
    return found[::-1]


def _changed_share(gone: Iterable[str], came: Iterable[str], *, total: int) -> float:
    was, now = Counter(_words(gone)), Counter(_words(came))
    changed = (was - now).total() + (now - was).total()
    return round(min(1.0, max(changed, 1) / max(total, 1)), 4)  # words that only changed places are a change, too


def _words(lines: Iterable[str]) -> list[str]:
    return _WORD.findall("\n".join(lines))


# --- excerpts ---


def make_excerpts(gone: Sequence[str], came: Sequence[str]) -> tuple[str, str]:
    """Return short excerpts of lines that went and lines that came: of a long line, what is around its change."""
    pairs = [_around(was, now) for was, now in zip_longest(gone[:20], came[:20], fillvalue="")]
    return _join(was for was, _ in pairs), _join(now for _, now in pairs)


def _around(was: str, now: str) -> tuple[str, str]:
    """Return both lines from a little before where they begin to differ."""
    start = _common_start(was, now) - CONTEXT
    if start <= 0 or not (was and now):
        return was, now
    return "… " + was[start:].partition(" ")[2], "… " + now[start:].partition(" ")[2]


def _common_start(was: str, now: str) -> int:
    return next((at for at, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), 0)


def _join(lines: Iterable[str]) -> str:
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= EXCERPT else text[: EXCERPT - 2].rstrip() + " …"
