"""The ledger of a dataset. Its clock is the round: it stands still while tasks run, and goes on between rounds.

Only one run is at a dataset at a time (a lock of the kernel sees to that), so a claim needs no heartbeat: it holds for
as long as the round lasts. What an earlier run left unsettled when it was killed is due in the next round, at once.
How often a task may fail is counted in rounds and by the executor; being in a run that is killed is no failure.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.infra.ledger import Claim, Ledger, State

LEASE = 0.001  # until the next round; the clock stands still, so it is not the length that counts


class Rounds:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = 0.0
        self._clock = clock

    def __call__(self) -> float:
        return self.now

    def begin(self, *, after: Iterable[float]) -> None:
        """Later than anything that was noted before, also on a machine whose clock was set back since."""
        self.now = max([self._clock(), self.now, *after]) + 2 * LEASE


class RunLedger:
    """For the one run that holds the lock."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._rounds = Rounds(clock)
        self.ledger = Ledger(path, max_attempts=sys.maxsize, clock=self._rounds)

    def close(self) -> None:
        self.ledger.close()

    def unsettled(self) -> int:
        """Neither done nor failed."""
        counts = self.ledger.counts()
        return counts.planned + counts.running

    def round(self, worker: str) -> Iterator[Claim]:
        """Everything that is to be done now, once."""
        self._rounds.begin(after=self._times("running"))
        claim = self.ledger.claim(worker, lease=LEASE)
        if claim is None and self.unsettled():  # planned for a moment that our clock has not reached: set back
            self._rounds.begin(after=self._times("planned"))
            claim = self.ledger.claim(worker, lease=LEASE)
        while claim:
            yield claim
            claim = self.ledger.claim(worker, lease=LEASE)

    def _times(self, state: State) -> list[float]:
        return [entry.changed for entry in self.ledger.entries(state)]

    def failed(self, claim: Claim, reason: str, *, again: bool) -> None:
        """`again`: in the next round."""
        self.ledger.failed(claim, reason, retryable=again, delay=LEASE)


@contextmanager
def looking(path: Path) -> Iterator[Ledger]:
    """For those who only look: at the beginning of time no lease is over, so nothing is changed."""
    ledger = Ledger(path, max_attempts=sys.maxsize, clock=lambda: 0.0)
    try:
        yield ledger
    finally:
        ledger.close()
