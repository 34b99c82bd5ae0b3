"""What moves on a page by itself: clocks, counters, tokens. Masked, two lines that differ in nothing else are equal.

A number or a date may be what a page is watched for: a price, a deadline. So only those are masked that say what they
are: a time with seconds, "3 minutes ago", "1,204 views", a line that is nothing but a date or a count, a long random
token. Prices, percentages, decimals and dates in sentences stay; the rules of a site may ask for more (`mask_numbers`,
`mask_dates`). All patterns are RE2: hostile text costs linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import re2

_WORDS = re.compile(r"[^\W\d_]+")
LONGEST_TOKEN = 200  # characters
MASK = "\N{WHITE SQUARE}"

_MONTH = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|fév|avr|jui|aoû|déc|"
    r"ene|abr|ago|dic)[a-zäéû]{0,8}\.?"
)
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th|\.|º)?"
_DATE = (
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}\.?|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})|"
    rf"{_DAY}\s(?:de\s)?{_MONTH}(?:,?\s(?:de\s)?[0-9]{{4}})?|{_MONTH}\s{_DAY}(?:,?\s[0-9]{{4}})?|"
    r"(?:[0-9]{4}\s?[年년]\s?)?[0-9]{1,2}\s?[月월]\s?[0-9]{1,2}\s?[日일]"
)
_ZONE = r"(?:\s?(?:z|utc|gmt|ce[s]?t|e[sd]t|p[sd]t|[kj]st|uhr)\b)?(?:\s?[+-][0-9]{2}:?[0-9]{2}\b)?"
_SECONDS = rf"[0-9]{{1,2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.,][0-9]+)?(?:\s?[ap]\.?m\.?)?{_ZONE}"
_CLOCK = rf"[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.,][0-9]+)?)?(?:\s?[ap]\.?m\.?)?{_ZONE}"
_STAMP = rf"(?:{_DATE})(?:,?\s|t)(?:at\s)?{_SECONDS}"
_UNIT = r"(?:seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w|months?|mo|years?|yrs?|y)"
_AGO = (
    rf"(?:about\s)?(?:[0-9]+|an?|a\sfew)\s?{_UNIT}(?:\s(?:and\s)?[0-9]+\s?{_UNIT})?\sago\b|\bjust\snow\b|\bmoments?\sago\b|"
    r"\bvor\s(?:[0-9]+|einer|einem)\s(?:sekunde|minute|stunde|tag|woche|monat|jahr)[a-z]{0,2}\b|"
    r"\b(?:il\sy\sa|hace)\s(?:[0-9]+|une?|una?)\s\w{1,12}|"
    r"[0-9]+\s?(?:초|분|시간|일|주|개월|년)\s?전|[0-9]+\s?(?:秒|分钟|分|小时|時間|天|日|週間|周|ヶ月|个月|年)前"
)
_TOOK = r"\b(?:in|took|within)\s[0-9]+(?:[.,][0-9]+)?\s?(?:ms|milliseconds?|s|secs?|seconds?)\b"
_NUMBER = r"[0-9]+(?:[.,'\x{00a0}\x{202f}][0-9]{3})*(?:\.[0-9])?[kmb]?"
_COUNTED = (
    r"(?:page\s?)?(?:views?|visits?|visitors?|hits?|impressions?|clicks?)|likes?|comments?|replies|reactions?|"
    r"followers?|subscribers?|upvotes?|online|guests?|watching|viewing|"
    r"(?:seiten)?aufrufe|besucher|zugriffe|klicks|kommentare?|visites?|vues?|visitas|vistas|"
    r"조회수?|방문자?수?|閲覧数?|访问量?|浏览量?|点击量?|просмотр\p{Cyrillic}{0,3}"
)
_LINK = r"(?:(?:unique|total|new|people|users?|members?|persons?|are|is|currently|other|now)\s){0,4}"
_COUNTER = (
    rf"{_NUMBER}\s?{_LINK}(?:{_COUNTED})|"
    rf"(?:{_COUNTED})(?:\s(?:today|online|total|number|counter|count|no\.|nr\.|so\sfar|since\s[0-9]{{4}}))?\s?[:#=(]?\s?{_NUMBER}"
)
_RANDOM = r"[0-9a-z][0-9a-z_-]{15,}={0,2}"
_COPYRIGHT = r"(?:©|\(c\)|copyright)[^0-9]{0,30}[0-9]{4}(?:\s?[-–]\s?[0-9]{4})?"
_MOVING = f"{_STAMP}|{_SECONDS}|{_AGO}|{_TOOK}|{_COPYRIGHT}|{_COUNTER}|{_RANDOM}"
_ANY_NUMBER = r"[0-9]+(?:[.,'\x{00a0}\x{202f}][0-9]+)*"
_COUNT_ALONE = r"[#(\[]?(?:[0-9]{1,3}(?:[.,'\x{00a0}\x{202f}][0-9]{3}){1,5}|[0-9]{1,15})[)\]]?"
_NOT_COUNTED = "%‰€$£¥₩₹°"  # signs behind a number that make it something else
# The words that a line with a clock has around it. In any other company a date says when something is.
_CLOCK_WORDS = frozenset({
    "it", "is", "the", "date", "time", "now", "today", "current", "currently", "local", "server", "system", "page",
    "last", "updated", "update", "modified", "changed", "edited", "generated", "rendered", "retrieved", "refreshed",
    "checked", "accessed", "as", "of", "on", "at", "by", "in", "and", "since", "am", "pm", "a", "m", "p", "monday",
    "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "mon", "tue", "tues", "wed", "thu", "thurs",
    "fri", "sat", "sun", "montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag", "heute",
    "datum", "uhrzeit", "stand", "aktualisiert", "zuletzt", "um", "uhr", "lundi", "mardi", "mercredi", "jeudi",
    "vendredi", "samedi", "dimanche", "aujourd", "hui", "mis", "à", "jour", "le", "lunes", "martes", "miércoles",
    "jueves", "viernes", "sábado", "domingo", "hoy", "actualizado", "el", "오늘", "현재", "시간", "시각", "업데이트",
    "최종", "수정",
    "월", "화", "수", "목", "금", "토", "일", "오전", "오후", "utc", "gmt",
})  # fmt: skip


def mask_noise(line: str) -> str:
    """Return the line with clocks, counters and tokens masked."""
    if _pattern(_COUNT_ALONE).fullmatch(line):
        return MASK
    masked = _replace(_MOVING, _mask, line)
    bare = _replace(f"{_DATE}|{_CLOCK}|{MASK}", " ", masked)
    is_clock = bare != line and not _has_digit(bare) and _CLOCK_WORDS.issuperset(_WORDS.findall(bare.lower()))
    return _WORDS.sub("", bare) + MASK if is_clock else masked


def mask_dates(line: str) -> str:
    """Return the line with all dates and times masked."""
    return _replace(f"{_AGO}|{_DATE}|{_CLOCK}", MASK, line)


def mask_numbers(line: str) -> str:
    """Return the line with all numbers masked."""
    return _replace(_ANY_NUMBER, MASK, line)


def _mask(match: re2._Match) -> str:
    text: str = match[0]
    behind = match.string[match.end() : match.end() + 2].strip()[:1]
    if behind and behind in _NOT_COUNTED:
        return text
    could_be_token = len(text) >= 16 and " " not in text and ":" not in text
    return text if could_be_token and not (len(text) <= LONGEST_TOKEN and _is_random(text)) else MASK


def _is_random(text: str) -> bool:
    """Return whether letters and digits alternate as in no name or number that people give."""
    kinds = [character.isdigit() for character in text if character.isalnum()]
    return sum(before != after for before, after in pairwise(kinds)) >= 4


def _replace(pattern: str, by: str | Callable[[re2._Match], str], line: str) -> str:
    return str(_pattern(pattern).sub(by, line))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


@cache
def _pattern(text: str) -> re2._Regexp:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    return re2.compile(text, options)
