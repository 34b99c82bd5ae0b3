"""Timestamps of index lines (14 digits of UTC: `20240131235959`), dates of WARC records, and partial dates."""

from __future__ import annotations

import calendar
import math
import re
from datetime import UTC, datetime

from webmill.errors import BadInput

_DIGITS = re.compile(rb"[0-9]{14}")
_ISO = re.compile(
    r"([0-9]{4})(?:-?([0-9]{2})(?:-?([0-9]{2})(?:[T ]?([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(?:\.[0-9]+)?)?)?)?)?)?"
    r"(?:Z|\+00:?00)?"
)


def is_timestamp(text: bytes) -> bool:
    """Return whether this is 14 digits, which need not be an existing date."""
    return _DIGITS.fullmatch(text) is not None


def earliest(period: str) -> str:
    """Return the first second of a period: `2021`, `2021-03`, `20210304`… Raise BadInput (bad_timestamp)."""
    year, *rest = _parts(period)
    month, day, hour, minute, second = (
        part or low for part, low in zip(rest, ("01", "01", "00", "00", "00"), strict=True)
    )
    return _checked(year + month + day + hour + minute + second)


def latest(period: str) -> str:
    """Return the last second of a period, so that up to `2021` includes all of 2021. Raise BadInput (bad_timestamp)."""
    year, month, day, hour, minute, second = _parts(period)
    month = month or "12"
    day = day or _last_day(year, month)
    return _checked(year + month + day + (hour or "23") + (minute or "59") + (second or "59"))


def to_datetime(timestamp: str) -> datetime:
    """Return the datetime of a timestamp. Raise BadInput (bad_timestamp) if it is not a date."""
    if len(timestamp) != 14 or not (timestamp.isascii() and timestamp.isdigit()):
        raise _bad(timestamp)
    month, day, hour, minute, second = (int(timestamp[at : at + 2]) for at in range(4, 14, 2))
    try:
        return datetime(int(timestamp[:4]), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise _bad(timestamp) from error


def seconds_between(timestamp: str, moment: datetime) -> float:
    """Return the seconds between a timestamp and a moment; infinity if the timestamp is not a date."""
    try:
        return abs((to_datetime(timestamp) - moment).total_seconds())
    except BadInput:
        return math.inf


def from_datetime(moment: datetime) -> str:
    """Return the timestamp of an aware datetime, without fractions of a second."""
    return moment.astimezone(UTC).strftime("%Y%m%d%H%M%S").rjust(14, "0")


def from_warc_date(date: str) -> str:
    """Return the timestamp of a WARC-Date, at any precision that WARC 1.1 allows."""
    return earliest(date)


def to_warc_date(timestamp: str) -> str:
    return to_datetime(timestamp).isoformat().replace("+00:00", "Z")


def _parts(period: str) -> list[str]:
    found = _ISO.fullmatch(period)
    if not found:
        raise _bad(period)
    return list(found.groups(""))


def _last_day(year: str, month: str) -> str:
    if not (1 <= int(month) <= 12 and int(year) >= 1):
        raise _bad(year + month)
    return f"{calendar.monthrange(int(year), int(month))[1]:02}"


def _checked(timestamp: str) -> str:
    to_datetime(timestamp)
    return timestamp


def _bad(text: str) -> BadInput:
    return BadInput(f"not a date: {text[:80]!r}", reason="bad_timestamp")
