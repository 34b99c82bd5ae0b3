"""The files of the package that are executed, in the order of their first function call, in all threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import webmill

PACKAGE = Path(webmill.__file__).parent


@contextmanager
def traced() -> Iterator[dict[str, int]]:
    """Yield a dict that fills with files, relative to the package, and the number of calls into each.

    What runs because a module is imported does not count.
    """
    calls: dict[str, int] = {}
    prefix = f"{PACKAGE}/"

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(prefix):
            name = frame.f_code.co_filename.removeprefix(prefix)
            if name in calls:
                calls[name] += 1
            elif not is_importing(frame):
                calls[name] = 1

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
