"""Jinja filters for numbers, times and untrusted text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from unicodedata import category
from urllib.parse import urlsplit

from markupsafe import Markup

from webmill.errors import BadInput
from webmill.formats.timestamps import to_datetime

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\n\t\u200c\u200d"  # the last two are needed for Persian, Hindi and emoji


def format_count(number: float) -> str:
    """Return 12,345."""
    return f"{number:,.0f}"


def format_size(number: float) -> str:
    """Return 1.2 MB, in decimal units."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def format_minute(when: datetime | str | float, form: str = "%Y-%m-%d %H:%M UTC") -> str:
    """Return 2024-04-01 10:00 UTC; what is not a date is returned unchanged."""
    try:
        if isinstance(when, str):
            found = to_datetime(when) if when.isdigit() else datetime.fromisoformat(when)
        else:
            found = when if isinstance(when, datetime) else datetime.fromtimestamp(when, UTC)
    except (BadInput, ValueError, OverflowError, OSError):
        return str(when)
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime(form)


def format_second(when: datetime | str | float) -> str:
    """Return 2024-04-01 10:00:59 UTC."""
    return format_minute(when, "%Y-%m-%d %H:%M:%S UTC")


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit that fits: 3 minutes."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return pluralize(int(seconds // length), unit)
    return pluralize(max(0, int(seconds)), "second")


def pluralize(number: int, noun: str) -> str:
    """Return 1 file, 2 files."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


def format_share(share: float) -> str:
    """Return 12 %, or under 1 %."""
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else "under 1 %"


def safe_link(url: str) -> str:
    """Return the URL if it may be linked: only http and https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.netloc else ""


def strip_invisible(text: str) -> str:
    """Return untrusted text without control and bidi characters."""
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter in _JOINERS or category(letter) not in _HIDDEN)


def mark_code(text: str) -> Markup:
    """Return our own text with `code` marked up."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in enumerate(parts)
    )


FILTERS: dict[str, Callable[..., str]] = {
    "count": format_count,
    "share": format_share,
    "size": format_size,
    "moment": format_minute,
    "second": format_second,
    "ago": format_duration,
    "plural": pluralize,
    "web_link": safe_link,
    "plain": strip_invisible,
    "ticked": mark_code,
}
