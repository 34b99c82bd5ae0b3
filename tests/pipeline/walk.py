"""Which functions of the package are called, in the order of their first calls, in all threads of this process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import webmill

PACKAGE = f"{Path(webmill.__file__).parent}/"
Called = tuple[str, str]  # a file, relative to the package, and the qualified name of a function in it


@contextmanager
def traced() -> Iterator[dict[Called, None]]:
    """Yield a dict that fills with what is called. What runs because a module is imported does not count."""
    calls: dict[Called, None] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            called = code.co_filename.removeprefix(PACKAGE), code.co_qualname
            if called not in calls and not is_importing(frame):
                calls[called] = None

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def is_importing(frame: FrameType | None) -> bool:
    while frame:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__", "").startswith("webmill."):
            return True
        frame = frame.f_back
    return False
