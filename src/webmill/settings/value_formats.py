"""Formats of values that TOML has no form for: 90s, 64M, lists with commas, HOST=ADDRESS:PORT.

A format is part of a type: `delay: Annotated[Duration, setting("…")]` holds seconds, and is written `70s` on the
command line, in a variable and in webmill.toml.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Annotated, Any

import msgspec

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


class ValueFormat(msgspec.Struct, frozen=True):
    """How a value is written. `parse` raises ValueError with a sentence for people; `write` is its inverse."""

    metavar: str
    parse: Callable[[Any], Any]
    write: Callable[[Any], Any]
    none: str = ""  # how no value is written


def parse_duration(written: object) -> float:
    """Return the seconds of `90s`, `20m`, `8h`, `7d`, or of a plain number."""
    found = _DURATION.fullmatch(str(written).strip())
    if not found or not math.isfinite(seconds := float(found[1]) * _SECONDS[found[2].lower()]):
        raise ValueError(f"{written!r} is not a duration; write 90s, 20m, 8h or 7d")
    return seconds


def parse_pace(written: object) -> float | None:
    """Return the seconds of a duration, or None for `auto`."""
    return None if str(written).strip().lower() == "auto" else parse_duration(written)


def write_duration(seconds: float) -> str:
    """Return `70s`, `20m`, `8h`: a whole number of the largest possible unit."""
    for unit in ("d", "h", "m"):
        if seconds and not seconds % _SECONDS[unit]:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}" if unit != "m" or seconds > 60 else "60s"
    return f"{seconds:g}s"


def parse_size(written: object) -> int:
    """Return the bytes of `500K`, `64M`, `20G`, or of a plain number."""
    found = _SIZE.fullmatch(str(written).strip())
    if not found or not (size := int(float(found[1]) * _BYTES[found[2].lower()])):
        raise ValueError(f"{written!r} is not a size; write 500K, 64M or 20G")
    return size


def parse_size_or_zero(written: object) -> int:
    """Return the bytes of a size that may be 0."""
    return 0 if str(written).strip() == "0" else parse_size(written)


def write_size(size: int) -> str:
    if not size:
        return "0"
    for unit in ("t", "g", "m", "k"):
        if not size % _BYTES[unit]:
            return f"{size // _BYTES[unit]}{unit.upper()}"
    return str(size)


def parse_list(written: object) -> tuple[str, ...]:
    """Return a list unchanged, or the parts of a text with commas."""
    if isinstance(written, str):
        return tuple(word.strip() for word in written.split(",") if word.strip())
    if isinstance(written, list | tuple) and all(isinstance(word, str) for word in written):
        return tuple(written)
    raise ValueError(f'{written!r} is not a list of texts; write ["a", "b"], or a,b on the command line')


def parse_patterns(written: object) -> tuple[str, ...]:
    """Return a list unchanged, or a text as a list of one: patterns may contain commas."""
    return (written,) if isinstance(written, str) and written else parse_list(written)


def parse_addresses(written: object) -> dict[str, tuple[str, int]]:
    """Return {host: (address, port)} for `HOST=ADDRESS:PORT` or a list of them."""
    if isinstance(written, Mapping):
        return {host: (str(ip), int(port)) for host, (ip, port) in written.items()}
    return dict(map(_parse_address, parse_list(written)))


def _parse_address(written: str) -> tuple[str, tuple[str, int]]:
    host, equals, address = written.partition("=")
    ip, colon, port = address.rpartition(":")
    ip = ip.removeprefix("[").removesuffix("]")
    try:
        if not (equals and host and colon and re.fullmatch("[0-9]{1,5}", port) and int(port) < 1 << 16):
            raise ValueError(written)
        ip_address(ip)
    except ValueError:
        raise ValueError(f"{written!r} is not HOST=ADDRESS:PORT, such as example.org=127.0.0.1:8080") from None
    return host.lower(), (ip, int(port))


def _write_addresses(fixed: dict[str, tuple[str, int]]) -> list[str]:
    return [f"{host}={f'[{ip}]' if ':' in ip else ip}:{port}" for host, (ip, port) in fixed.items()]


Duration = Annotated[float, ValueFormat("TIME", parse_duration, write_duration)]
Pace = Annotated[float | None, ValueFormat("TIME|auto", parse_pace, write_duration, none="auto")]
Size = Annotated[int, ValueFormat("SIZE", parse_size, write_size)]
SizeOrZero = Annotated[int, ValueFormat("SIZE", parse_size_or_zero, write_size)]
LIST_FORMAT = ValueFormat("TEXT", parse_list, list)
TextList = Annotated[tuple[str, ...], LIST_FORMAT]
PatternList = Annotated[tuple[str, ...], ValueFormat("TEXT", parse_patterns, list)]
FixedAddresses = Annotated[
    dict[str, tuple[str, int]], ValueFormat("HOST=ADDRESS:PORT", parse_addresses, _write_addresses)
]
