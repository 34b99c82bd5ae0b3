"""A parser that one page kills."""

from __future__ import annotations

import ctypes

from webmill.extract.recipe import CaptureInput, ExtractResult
from webmill.model import Document


def crash(stored: bytes, *, capture: CaptureInput) -> ExtractResult:
    if capture.ref.offset == 0:
        ctypes.string_at(0)
    ref = capture.ref
    document = Document(id=f"{ref.filename}#{ref.offset}", url=ref.url, outcome="other_type")
    return ExtractResult(document=document, kind="other")
