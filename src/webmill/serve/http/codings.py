"""Content codings: which one a client accepts, and how to encode with it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import lru_cache

import brotli
import zstandard

IDENTITY = ""
SMALLEST = 512  # bytes; below this a coding saves less than its header
CODINGS: dict[str, Callable[[bytes], bytes]] = {  # best first; levels that a first request can wait for
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": lambda data: zstandard.ZstdCompressor(level=3).compress(data),
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
}


@lru_cache(maxsize=512)
def choose_coding(accepted: bytes) -> str:
    """Return the coding that Accept-Encoding prefers; among equals, the best compression."""
    weights = _weights(accepted)
    weight, _, name = max((weights[name], -place, name) for place, name in enumerate(CODINGS))
    return name if weight > 0 else IDENTITY


def accepts_coding(accepted: bytes, coding: str) -> bool:
    return _weights(accepted)[coding] > 0


def _weights(accepted: bytes) -> dict[str, float]:
    """Return the weight of each coding that we know."""
    stated: dict[str, float] = {}
    for part in accepted[:256].decode("latin-1").lower().split(","):
        name, _, parameter = part.partition(";")
        stated[name.strip()] = _weight(parameter)
    return {name: stated.get(name, stated.get("*", 0.0)) for name in CODINGS}


def _weight(parameter: str) -> float:
    key, _, value = parameter.strip().partition("=")
    if key.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
