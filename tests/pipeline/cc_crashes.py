"""A parser that one page kills."""

from __future__ import annotations

import ctypes

from webmill.pipeline.extract.page import Reading


def crash(stored: bytes, *, offset: int, **_: object) -> Reading:
    if offset == 0:
        ctypes.string_at(0)
    return Reading(record="response", extraction="not_html")
