"""The ledger of a dataset. Its clock is the round: it stands still while tasks run, and goes on between rounds.

Only one run is at a dataset at a time (a lock of the kernel sees to that), so a claim needs no heartbeat: it holds for
as long as the round lasts. What an earlier run left unsettled when it was killed is due in the next round, at once.
How often a task may fail is counted in rounds and by the executor; being in a run that is killed is no failure.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.infra.ledger import Claim, Ledger

LEASE = 0.5


class Rounds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def begin(self) -> None:
        self.now = max(time.time(), self.now + 1.0)

    def begin_after(self, moments: Iterable[float]) -> None:
        """For a machine whose clock was set back since."""
        self.now = max([self.now, *moments]) + 1.0


class RunLedger:
    """For the one run that holds the lock."""

    def __init__(self, path: Path) -> None:
        self._rounds = Rounds()
        self.ledger = Ledger(path, max_attempts=sys.maxsize, clock=self._rounds)

    def close(self) -> None:
        self.ledger.close()

    def round(self, worker: str) -> Iterator[Claim]:
        """Everything that is to be done now, once."""
        self._rounds.begin()
        counts = self.ledger.counts()
        claim = self.ledger.claim(worker, lease=LEASE)
        if claim is None and counts.planned + counts.running:
            self._rounds.begin_after(entry.changed + LEASE for entry in self.ledger.entries() if entry.state != "done")
            claim = self.ledger.claim(worker, lease=LEASE)
        while claim:
            yield claim
            claim = self.ledger.claim(worker, lease=LEASE)

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
