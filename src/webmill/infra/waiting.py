"""Waiting for some time. `time.sleep` is not used (`make lint` sees to that): it does not work under libfaketime.

Python asks the system to sleep until a moment of the monotonic clock. libfaketime, with which people try programs at
another date, leaves that clock alone when it is told to, and then refuses such a sleep (EINVAL); when it is not, every
wait for a lock with a time limit lasts for ever, in any program in Python. So it has to be told to.
"""

from __future__ import annotations

import select


def sleep(seconds: float) -> None:
    """Return after so many seconds, whatever somebody does to the clock. A signal's handler may raise out of it."""
    select.select((), (), (), seconds)
