"""URLs that a site makes without end: loops in paths, permuted queries, session ids, calendars.

    traps = Traps(TrapRules(), year=2024)
    traps.find("https://example.com/a/b/a/b/a/b/")   # "trap_repeat"

| code | the URL | switched off by |
|---|---|---|
| trap_repeat | has a run of segments three times in a row, `/a/b/a/b/a/b`, or one segment five times | repeats=0 |
| trap_path | has more than 30 segments | segments=0 |
| trap_query | has more than 30 parameters, or the same `name=value` three times | parameters=0 |
| trap_variants | differs from three others of its host only in the order of its query or in a session id | variants=0 |
| trap_calendar | names a month more than 3 years ahead, or 150 back (10 in `/calendar/`) | calendar=False |

All but one look at the URL alone. Variants are remembered: the last 100,000 pages that may have some, at most three
of each (31 MB at worst, in each process). What is forgotten, by that or by a restart, lets a few more through.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from urllib.parse import unquote

import msgspec

# Names alone prove nothing (`sid=29` may be a page): the value must look random, too.
_SESSION = (
    "(?:jsessionid|phpsessid|aspsessionid[a-z]*|session_?id|sessid|sid|cfid|cftoken|zenid|oscsid)"
    "=(?=[^&;/]*[0-9])[a-z0-9.,_!~-]{16,}(?![^&;/])"
)
SESSION_IN_PATH = re.compile(rf";{_SESSION}|/\([a-z]\([a-z0-9]{{24}}\)\)", re.IGNORECASE)
SESSION_PARAMETER = re.compile(_SESSION, re.IGNORECASE)
# A number is a year where a month follows, `/2031/07`, `?on=2031-07-01`, or where its name says so: `date=203107`.
_YEAR = "(?:1[5-9]|2[0-9])[0-9]{2}"
_MONTH_IN_PATH = re.compile(rf"(?<![0-9])/({_YEAR})(?:/(?:1[0-2]|0?[1-9])|-(?:1[0-2]|0[1-9]))(?=[/-]|\Z)")
_MONTH_IN_QUERY = re.compile(rf"=({_YEAR})-(?:1[0-2]|0[1-9])(?=[&T-]|\Z)")
_DATE_IN_QUERY = re.compile(
    rf"(?:date|day|month|year)=({_YEAR})(?:(?:1[0-2]|0[1-9])(?:[0-3][0-9])?)?+(?=&|\Z)", re.IGNORECASE
)
_CALENDAR = re.compile(r"/(?:calendar|calendario|calendrier|kalender|agenda|events?)(?=[/.]|\Z)", re.IGNORECASE)


class TrapRules(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of each guard. Zero or False switches a guard off."""

    repeats: int = 3  # of a run of segments, one after the other; a single segment may come two times more
    segments: int = 30
    parameters: int = 30
    variants: int = 3
    remembered: int = 100_000  # pages that may have variants
    calendar: bool = True
    years_ahead: int = 3
    years_back: int = 150  # newspapers are that old
    calendars_back: int = 10  # what calls itself a calendar in its path


class Traps:
    """Finds URLs that a trap makes without end. `year` is the present one."""

    def __init__(self, rules: TrapRules, *, year: int) -> None:
        self._rules = rules
        self._year = year
        self._variants: OrderedDict[int, tuple[int, ...]] = OrderedDict()

    def find(self, url: str) -> str | None:
        """Return the code of the trap that a normalised URL falls into, or None."""
        address, _, query = url.partition("?")
        path = address[address.find("/", 8) :]  # behind `https://`
        return (
            self._in_path(path)
            or self._in_query(query)
            or self._in_calendar(path, query)
            or self._in_variants(address, query)
        )

    def _in_path(self, path: str) -> str | None:
        count, repeats = path.count("/"), self._rules.repeats
        if self._rules.segments and count > self._rules.segments:
            return "trap_path"
        if repeats and count >= min(repeats * 2, repeats + 2) and _repeats(path, repeats):
            return "trap_repeat"
        return None

    def _in_query(self, query: str) -> str | None:
        limit = self._rules.parameters
        if not limit or "&" not in query:
            return None
        pairs = [pair for pair in query.split("&") if "=" in pair]
        if len(pairs) > limit or (len(pairs) > 2 and max(Counter(pairs).values()) > 2):
            return "trap_query"
        return None

    def _in_calendar(self, path: str, query: str) -> str | None:
        if not self._rules.calendar:
            return None
        found = _MONTH_IN_PATH.findall(path)
        if query:
            found += _MONTH_IN_QUERY.findall(query) + _DATE_IN_QUERY.findall(query)
        if not found:
            return None
        back = self._rules.calendars_back if _CALENDAR.search(path) else self._rules.years_back
        far = any(not self._year - back <= int(year) <= self._year + self._rules.years_ahead for year in found)
        return "trap_calendar" if far else None

    def _in_variants(self, address: str, query: str) -> str | None:
        page = _page_of(address, query) if self._rules.variants else None
        if page is None:
            return None
        key, variant = hash(page), hash((address, query))
        known = self._variants.pop(key, ())
        if variant not in known and len(known) >= self._rules.variants:
            self._variants[key] = known
            return "trap_variants"
        self._variants[key] = known if variant in known else (*known, variant)
        if len(self._variants) > self._rules.remembered:
            self._variants.popitem(last=False)
        return None


def _repeats(path: str, times: int) -> bool:
    """Tell whether a run of segments stands `times` in a row, for runs of every length."""
    segments = [unquote(segment) for segment in path.split("/")[1:]]
    for length in range(1, len(segments) // times + 1):
        wanted = length * (times - 1) if length > 1 else times + 1
        in_a_row = 0
        for place in range(length, len(segments)):
            in_a_row = in_a_row + 1 if segments[place] == segments[place - length] else 0
            if in_a_row >= wanted:
                return True
    return False


def _page_of(address: str, query: str) -> tuple[str, ...] | None:
    """Return what all variants of a page have in common; None for a URL that has none."""
    path = SESSION_IN_PATH.sub("", address) if ";" in address or "(" in address else address
    if "&" not in query:
        is_session = bool(query and SESSION_PARAMETER.match(query))
        return (path, *([] if is_session else [query])) if is_session or path != address else None
    return (path, *sorted(pair for pair in query.split("&") if not SESSION_PARAMETER.match(pair)))
