"""Waiting for some time. `time.sleep` is not used (`make lint` sees to that): it does not work under libfaketime.

Python asks the system to sleep until a moment of the monotonic clock. libfaketime, with which people try programs at
another date, leaves that clock alone when it is told to, and then refuses such a sleep (EINVAL); when it is not, every
wait for a lock with a time limit lasts for ever, in any program in Python. So it has to be told to.
"""

from __future__ import annotations

import select
import time

MOST = 1.0  # seconds in one call: a signal that comes just before the system's call is seen only behind it


def sleep(seconds: float) -> None:
    """Return after so many seconds, whatever somebody does to the wall clock. A signal may end it by its handler."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > MOST:
        select.select((), (), (), MOST)
    select.select((), (), (), max(0.0, left))
