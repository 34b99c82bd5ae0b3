"""Times and sizes on the command line, as people write them: 90s, 20m, 8h, 7d; 500K, 64M, 20G."""

from __future__ import annotations

import math
import re

import click

_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)", re.IGNORECASE)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


class Duration(click.ParamType[float]):
    """Seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _DURATION.fullmatch(str(value).strip())
        if not found or not math.isfinite(seconds := float(found[1]) * _SECONDS[found[2].lower()]):
            self.fail(f"{value!r} is no time: write 90s, 20m, 8h or 7d", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """Bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _SIZE.fullmatch(str(value).strip())
        if not found or not (size := int(float(found[1]) * _BYTES[found[2].lower()])):
            self.fail(f"{value!r} is no size: write 500K, 64M or 20G", param, ctx)
        return size


DURATION = Duration()
SIZE = Size()
