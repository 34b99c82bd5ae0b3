"""What is wrong with how an input was taken."""

from __future__ import annotations

import signal
import time
import traceback
from pathlib import Path

from tests.fuzz.target import Target

HANGS = 20  # seconds for one input of at most 64 KiB
SLOW = 1.0  # seconds of a processor for one


class Hang(Exception):
    pass


def fault_of(target: Target, data: bytes) -> str:
    """Nothing, or what went wrong and where."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(HANGS)
    began = time.process_time()
    try:
        target.survives(data)
    except Exception as error:  # every kind of it is a fault
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
    finally:
        signal.alarm(0)
    return "slow" if time.process_time() - began > SLOW else ""


def _alarm(*_: object) -> None:
    raise Hang(f"{HANGS} seconds")
