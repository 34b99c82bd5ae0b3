"""Retry what may work later: jittered exponential backoff, with a limit of attempts and one of time."""

from __future__ import annotations

import random as randomness
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from webmill.errors import Unavailable
from webmill.infra import waiting

T = TypeVar("T")


class BackoffPolicy(Struct, frozen=True, kw_only=True):
    """How often and how long to retry. Times are in seconds."""

    attempts: int = 5
    first_wait: float = 0.5
    longest_wait: float = 30.0
    longest_retry_after: float = 120.0  # a server that says "in a week" must not put us to sleep for a week
    deadline: float = 300.0  # from the first attempt; no wait is begun that would end after it

    def wait(self, failures: int, *, retry_after: float | None, random: float) -> float:
        """Return the wait after some failures, with full jitter, so that many clients do not come back together.

        What the server asked for is a floor; the jitter comes on top of it for the same reason.
        """
        ceiling = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 60))
        asked = retry_after if retry_after and retry_after > 0 else 0.0  # NaN compares false
        return min(asked, self.longest_retry_after) + random * ceiling


def retrying(
    call: Callable[[], T],
    *,
    policy: BackoffPolicy,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = waiting.sleep,
    random: Callable[[], float] = randomness.random,
) -> T:
    """Return what `call` returns, calling it again after `Unavailable` and only then. The last failure is raised."""
    began = clock()
    failures = 0
    while True:
        try:
            return call()
        except Unavailable as error:
            failures += 1
            wait = policy.wait(failures, retry_after=error.retry_after, random=random())
            if failures >= policy.attempts or clock() - began + wait > policy.deadline:
                raise
        sleep(wait)


def sleeping_until(stop: threading.Event) -> Callable[[float], None]:
    """Return a `sleep` for `retrying` that raises `Unavailable` when `stop` is set."""

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise Unavailable("stopped while waiting for the next try")

    return sleep
