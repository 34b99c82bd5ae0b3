"""Parse the dates of boards: `2024.05.01`, `24-05-01`, `2024년 5월 1일`, `05.01`, `14:30`, `3시간 전`, `May 1, 2024`.

    read_day("2024. 5. 1. (수)", now=now)     # Day("2024-05-01")
    read_day("1, 3학년", now=now)             # None: it is not a date

`now` is aware and in the zone of the board: a missing year, day or zone is taken from it. Of two dates (a period) the
first counts. `01/05/2024` is not accepted: it may be the first of May or the fifth of January.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from msgspec import Struct

MAX_TEXT = 300  # characters that are parsed
FIRST_YEAR = 1970
AHEAD = timedelta(days=400)  # notices announce future events; later dates are implausible

_SEPARATOR = r"\s*[-./・‐–]\s*"
_YEAR = r"(?<![0-9])((?:19|20)[0-9]{2})"
_END = r"(?![0-9])"
_ISO = re.compile(
    _YEAR + r"-([0-9]{2})-([0-9]{2})[t ]([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?(?:\.[0-9]+)?\s?(z|[+-][0-9]{2}:?[0-9]{2})"
)
_FULL = re.compile(
    _YEAR + rf"(?:{_SEPARATOR}|\s*[년年]\s*)([0-9]{{1,2}})(?:{_SEPARATOR}|\s*[월月]\s*)([0-9]{{1,2}})" + _END
)
_COMPACT = re.compile(_YEAR + r"([01][0-9])([0-3][0-9])" + _END)
_SHORT = re.compile(
    rf"(?<![0-9.,/-])([0-9]{{2}})(?:{_SEPARATOR}|\s*[년年]\s*)([0-9]{{1,2}})(?:{_SEPARATOR}|\s*[월月]\s*)([0-9]{{1,2}})(?![0-9/])"
)
_MONTH_DAY = re.compile(
    r"(?<![0-9.,/-])([0-9]{1,2})(?:[-./]\s?|\s*[월月]\s*)([0-9]{1,2})\s*[일日.]?(?:\s+[0-9]{1,2}:[0-9]{2})?(?:\s*\([^)]{1,5}\))?"
)
_TIME = re.compile(r"(?:(오전|오후|am|pm)\s*)?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?:\s*(am|pm))?")
_AGO = re.compile(
    r"(약\s*|about\s+)?([0-9]{1,4}|an?|한)\s*"
    r"(초|분|시간|일|주일?|개월|달|년|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|weeks?|months?|years?|[smhdwy])\s*(전|ago)"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DAY_MONTH_YEAR = re.compile(
    rf"(?<![0-9])([0-9]{{1,2}})(?:st|nd|rd|th)?[\s-]+(?:of\s+)?{_MONTH},?[\s-]+([0-9]{{4}}){_END}"
)
_MONTH_DAY_YEAR = re.compile(rf"\b{_MONTH}\s+([0-9]{{1,2}})(?:st|nd|rd|th)?,?\s+([0-9]{{4}}){_END}")
_GMT = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})\s+(?:gmt|utc|([+-][0-9]{4}))$")
_NAMED = {
    "오늘": 0, "today": 0, "방금": 0, "방금 전": 0, "지금": 0, "just now": 0, "now": 0,
    "어제": 1, "yesterday": 1, "그저께": 2, "그제": 2, "엊그제": 2,
}  # fmt: skip
# Labels before a date in its own cell.
_LABEL = re.compile(r"^(?:등록일자?|작성일자?|게시일자?|날짜|일자|date|posted(?: on)?|published(?: on)?)\s*[:：]?\s*")


class ParsedDay(Struct, frozen=True):
    """A parsed day. `is_approximate`: completed from the current date, so it may differ the next time."""

    text: str  # YYYY-MM-DD
    is_approximate: bool = False


def parse_day(text: str, *, now: datetime) -> ParsedDay | None:
    """Return the day, or None if the text is not a date, or not an existing one."""
    text = _LABEL.sub("", " ".join(text[:MAX_TEXT].lower().split()))
    if not text:
        return None
    for read in (_moment, _full, _english, _short):
        if (found := read(text, now)) is not None:
            return ParsedDay(found.isoformat()) if _is_likely(found, now) else None
    completed = _relative(text, now) or _month_day(text, now)
    return ParsedDay(completed.isoformat(), is_approximate=True) if completed else None


def _moment(text: str, now: datetime) -> date | None:
    """Parse a date with a zone and return the day in the zone of the board."""
    if found := _ISO.search(text):
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
        return _in_zone(year, month, day, (hour, minute, second), found[7], now)
    gmt, written = _GMT.search(text), _DAY_MONTH_YEAR.search(text)
    if gmt and written:  # Wed, 01 May 2024 20:00:00 GMT
        clock = (int(gmt[1]), int(gmt[2]), int(gmt[3]))
        return _in_zone(int(written[3]), _month_of(written[2]), int(written[1]), clock, gmt[4] or "z", now)
    return None


def _in_zone(year: int, month: int, day: int, clock: tuple[int, int, int], zone: str, now: datetime) -> date | None:
    try:
        moment = datetime(year, month, day, *clock, tzinfo=UTC) - _offset(zone)
        return moment.astimezone(now.tzinfo).date()
    except (ValueError, OverflowError):
        return None


def _offset(zone: str) -> timedelta:
    if zone == "z":
        return timedelta()
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timedelta(minutes=-minutes if zone[0] == "-" else minutes)


def _full(text: str, now: datetime) -> date | None:  # noqa: ARG001
    found = _FULL.search(text) or _COMPACT.search(text)
    return _date(int(found[1]), int(found[2]), int(found[3])) if found else None


def _english(text: str, now: datetime) -> date | None:  # noqa: ARG001
    if found := _DAY_MONTH_YEAR.search(text):
        return _date(int(found[3]), _month_of(found[2]), int(found[1]))
    if found := _MONTH_DAY_YEAR.search(text):
        return _date(int(found[3]), _month_of(found[1]), int(found[2]))
    return None


def _relative(text: str, now: datetime) -> date | None:
    if (days := _NAMED.get(text)) is not None:
        return (now - timedelta(days=days)).date()
    if found := _AGO.fullmatch(text):
        count = int(found[2]) if found[2].isdigit() else 1
        return _before(now, count, found[3])
    found = _TIME.fullmatch(text)
    if not found or int(found[2]) > 23 or int(found[3]) > 59:
        return None
    return _last_time(int(found[2]), int(found[3]), found[1] or found[5] or "", now)


def _last_time(hour: int, minute: int, half: str, now: datetime) -> date:
    """Return the last day with this time: at 00:10, a notice of 23:50 is from yesterday."""
    if half in ("오후", "pm") and hour < 12:
        hour += 12
    if half in ("오전", "am") and hour == 12:
        hour = 0
    later = (hour, minute) > (now.hour, now.minute + 5)  # clocks differ a little
    return (now - timedelta(days=1)).date() if later else now.date()


_SECONDS = {
    "초": 1, "s": 1, "분": 60, "m": 60, "시": 3600, "h": 3600, "일": 86400, "d": 86400, "주": 604800, "w": 604800,
    "개": 30 * 86400, "달": 30 * 86400, "년": 365 * 86400, "y": 365 * 86400,
}  # fmt: skip


def _before(now: datetime, count: int, unit: str) -> date | None:
    seconds = 30 * 86400 if unit.startswith("month") else _SECONDS[unit[0]]
    try:
        return (now - timedelta(seconds=seconds * count)).date()
    except OverflowError:
        return None


def _short(text: str, now: datetime) -> date | None:
    """Parse `24.05.01`: the year is first, as always on these boards if it has two digits."""
    found = _SHORT.match(text)
    if not found:
        return None
    year = now.year - now.year % 100 + int(found[1])
    return _date(year if year <= now.year + 1 else year - 100, int(found[2]), int(found[3]))


def _month_day(text: str, now: datetime) -> date | None:
    """Parse `05.01`: of this year, or of the last one if that is in the future."""
    found = _MONTH_DAY.fullmatch(text)
    if not found:
        return None
    day = _date(now.year, int(found[1]), int(found[2]))
    if day is None or day > now.date() + timedelta(days=1):
        return _date(now.year - 1, int(found[1]), int(found[2]))
    return day


def _month_of(name: str) -> int:
    return _MONTHS.index(name[:3]) + 1


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _is_likely(day: date, now: datetime) -> bool:
    return day.year >= FIRST_YEAR and day <= (now + AHEAD).date()
