"""Content codings: which of them a client takes, and how bytes are written in it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import lru_cache

import brotli
import zstandard

IDENTITY = ""
SMALLEST = 512  # bytes; below, what a coding saves is less than its header
CODINGS: dict[str, Callable[[bytes], bytes]] = {  # the better first; the strength is what a first request can wait for
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": lambda data: zstandard.ZstdCompressor(level=3).compress(data),
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
}


@lru_cache(maxsize=512)
def choose_coding(accepted: bytes) -> str:
    """By an Accept-Encoding: what the client likes most, of that the best for us."""
    weights = _weights(accepted)
    weight, _, name = max((weights[name], -place, name) for place, name in enumerate(CODINGS))
    return name if weight > 0 else IDENTITY


def accepts_coding(accepted: bytes, coding: str) -> bool:
    return _weights(accepted)[coding] > 0


def _weights(accepted: bytes) -> dict[str, float]:
    """Of the codings that we know."""
    said: dict[str, float] = {}
    for part in accepted[:256].decode("latin-1").lower().split(","):
        name, _, parameter = part.partition(";")
        said[name.strip()] = _weight(parameter)
    return {name: said.get(name, said.get("*", 0.0)) for name in CODINGS}


def _weight(parameter: str) -> float:
    key, _, value = parameter.strip().partition("=")
    if key.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
