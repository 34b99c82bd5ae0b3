"""How values are written that TOML has no form for: 90s, 64M, lists with commas, HOST=ADDRESS:PORT.

A kind is part of a type: `delay: Annotated[Duration, setting("…")]` holds seconds, and is written `70s` on the command
line, in a variable and in webmill.toml.
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


class Kind(msgspec.Struct, frozen=True):
    """`parse` takes what was written and raises ValueError with a sentence; `write` is the way back."""

    metavar: str
    parse: Callable[[Any], Any]
    write: Callable[[Any], Any]


def parse_duration(written: object) -> float:
    """Return the seconds of `90s`, `20m`, `8h`, `7d`, or of a plain number."""
    found = _DURATION.fullmatch(str(written).strip())
    if not found or not math.isfinite(seconds := float(found[1]) * _SECONDS[found[2].lower()]):
        raise ValueError(f"{written!r} is not a duration; write 90s, 20m, 8h or 7d")
    return seconds


def write_duration(seconds: float) -> str:
    """Return `70s`, `20m`, `8h`: in the largest unit that it is a whole number of."""
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


def write_size(size: int) -> str:
    for unit in ("t", "g", "m", "k"):
        if not size % _BYTES[unit]:
            return f"{size // _BYTES[unit]}{unit.upper()}"
    return str(size)


def parse_words(written: object) -> tuple[str, ...]:
    """Return a list as it is, and the parts of a text with commas."""
    if isinstance(written, str):
        return tuple(word.strip() for word in written.split(",") if word.strip())
    if isinstance(written, list | tuple) and all(isinstance(word, str) for word in written):
        return tuple(written)
    raise ValueError(f"{written!r} is not a list of texts")


def parse_texts(written: object) -> tuple[str, ...]:
    """Return a list as it is, and a text as a list of one: patterns have commas of their own."""
    return (written,) if isinstance(written, str) and written else parse_words(written)


def parse_addresses(written: object) -> dict[str, tuple[str, int]]:
    """Return host -> (address, port) of `HOST=ADDRESS:PORT` or a list of them."""
    if isinstance(written, Mapping):
        return {host: (str(ip), int(port)) for host, (ip, port) in written.items()}
    return dict(map(_address, parse_words(written)))


def _address(written: str) -> tuple[str, tuple[str, int]]:
    host, equals, address = written.partition("=")
    ip, colon, port = address.rpartition(":")
    ip = ip.removeprefix("[").removesuffix("]")
    try:
        if not (equals and host and colon and re.fullmatch("[0-9]{1,5}", port) and int(port) < 1 << 16):
            raise ValueError(written)
        ip_address(ip)
    except ValueError:
        raise ValueError(f"{written!r} is not HOST=ADDRESS:PORT") from None
    return host.lower(), (ip, int(port))


def _write_addresses(fixed: dict[str, tuple[str, int]]) -> list[str]:
    return [f"{host}={f'[{ip}]' if ':' in ip else ip}:{port}" for host, (ip, port) in fixed.items()]


Duration = Annotated[float, Kind("TIME", parse_duration, write_duration)]
Size = Annotated[int, Kind("SIZE", parse_size, write_size)]
WORDS = Kind("TEXT", parse_words, list)
Words = Annotated[tuple[str, ...], WORDS]
Texts = Annotated[tuple[str, ...], Kind("TEXT", parse_texts, list)]
FixedAddresses = Annotated[dict[str, tuple[str, int]], Kind("HOST=ADDRESS:PORT", parse_addresses, _write_addresses)]
