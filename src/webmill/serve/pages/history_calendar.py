"""The calendar of a year of captures."""

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
    """A cell of the calendar. `number` 0: a day of another month; `heat` 0: no captures."""

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
    """Return the months of a year. `days`: captures by day (20240131). Empty if `year` is not a valid year."""
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


def empty_months(months: list[CalendarMonth]) -> str:
    """Return the months without captures: `January to March, June`."""
    numbers = [number for number, month in enumerate(months) if not month.count]
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{MONTHS[run[0]]} to {MONTHS[run[-1]]}" if run[1:] else MONTHS[run[0]] for run in runs)


def heat_of(count: int) -> int:
    """Return 1 for one capture, 2 for 2 or 3, 3 for 4 to 7, 4 for more."""
    return min(HEATS, count.bit_length())


def period_name(period: str) -> str:
    """Return `20240131` as `31 January 2024`."""
    if len(period) < 6 or not 1 <= int(period[4:6]) <= len(MONTHS):
        return period
    month = f"{MONTHS[int(period[4:6]) - 1]} {period[:4]}"
    return f"{int(period[6:8])} {month}" if len(period) == 8 else month
