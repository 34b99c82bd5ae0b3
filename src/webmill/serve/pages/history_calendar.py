"""A year of captures as twelve tables of weeks."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Mapping

import msgspec

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
HEATS = 4
_calendar = calendar.Calendar()  # weeks begin on Monday


class CalendarDay(msgspec.Struct, frozen=True):
    """`number` 0 is a day of another month. `heat` 0: no capture."""

    number: int
    count: int = 0
    heat: int = 0
    address: str = ""
    name: str = ""


class CalendarMonth(msgspec.Struct, frozen=True):
    name: str
    count: int
    weeks: list[list[CalendarDay]]


def calendar_of(year: str, days: Mapping[str, int], address_of: Callable[[str], str]) -> list[CalendarMonth]:
    """`days`: captures by day, 20240131. Empty for what is no year of the calendar."""
    if not (len(year) == 4 and year.isascii() and year.isdigit() and int(year) > 0):
        return []

    def day(month: int, number: int) -> CalendarDay:
        key = f"{year}{month:02d}{number:02d}"
        count = days.get(key, 0) if number else 0
        if not count:
            return CalendarDay(number)
        return CalendarDay(number, count, heat_of(count), address_of(key), f"{number} {MONTHS[month - 1]} {year}")

    months = []
    for month, name in enumerate(MONTHS, 1):
        weeks = [[day(month, number) for number in week] for week in _calendar.monthdayscalendar(int(year), month)]
        months.append(CalendarMonth(name, sum(each.count for week in weeks for each in week), weeks))
    return months


def heat_of(count: int) -> int:
    """1, 2 to 3, 4 to 7, 8 and more."""
    return min(HEATS, count.bit_length())


def period_name(period: str) -> str:
    """`20240131` as `31 January 2024`."""
    if len(period) < 6 or not 1 <= int(period[4:6]) <= len(MONTHS):
        return period
    month = f"{MONTHS[int(period[4:6]) - 1]} {period[:4]}"
    return f"{int(period[6:8])} {month}" if len(period) == 8 else month
