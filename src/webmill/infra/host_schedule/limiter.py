"""One rate limit for all processes of a machine that ask the same server.

    limiter = Limiter(path, rate=5, burst=5)      # requests a second; the same path in every process
    with limiter.request():
        storage.read(key)                         # its error, if any, is recorded: see `request_outcome.outcome_of`

The policy is in `adaptive_rate.py`, the file in `state_file.py`. It must be on a local disk: its times are those of
`time.monotonic`, one clock for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra import waiting
from webmill.infra.host_schedule import adaptive_rate
from webmill.infra.host_schedule.adaptive_rate import NEVER, LimiterPolicy, LimiterState, Permit
from webmill.infra.host_schedule.base import KeyStates
from webmill.infra.host_schedule.state_file import StateFile, StateFormat
from webmill.infra.log import SENTENCE
from webmill.infra.request_outcome import RequestOutcome, outcome_of

log = logging.getLogger("webmill.infra.limiter")  # as people know it from their logs

LONGEST_SLEEP = 0.5  # a breaker may be closed, and a stop be asked for, at any time
SHORTEST_SLEEP = 0.001
SUFFIX = ".limit"
STATE_FORMAT = StateFormat(LimiterState, magic=b"wml1", fields="7d5Q2?")


class RequestLimiter(Protocol):
    """What paces requests: a `Limiter`, or `NoLimit`."""

    def acquire(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Permit:
        """Wait for the right to send one request, whose outcome is then to be `record`ed.

        `Unavailable` when that takes longer than `patience` seconds, at once where it is known, and when `stop` is set.
        """
        ...

    def record(self, permit: Permit, outcome: RequestOutcome, *, retry_after: float | None = None) -> None:
        """Adapt to how the request ended; for a stream this is called again if it breaks later."""
        ...

    def spend(self) -> None:
        """Count one request more, such as a redirect: it does not wait, those who come later do."""
        ...

    @contextmanager
    def request(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Iterator[Permit]:
        """`acquire`, and `record` the error that leaves the block, or its absence."""
        ...


class LimiterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a limiter stands, for gauges and people."""

    rate: float  # requests a second, as of now
    blocked_for: float  # seconds
    refused: bool  # the breaker is open because of a 403


class Limiter:
    def __init__(
        self,
        path: Path,
        *,
        rate: float,
        burst: float = 1.0,
        policy: LimiterPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = waiting.sleep,
    ) -> None:
        if not (0 < rate < float("inf")) or not (1 <= burst < float("inf")):
            raise Misconfigured(f"a rate of {rate} with bursts of {burst}: the rate is above 0, a burst at least 1")
        self.path = path
        self._store = StateFile(path, STATE_FORMAT)
        self._server = path.name.removesuffix(SUFFIX).removesuffix(":https").removesuffix(":http")
        self._rate, self._burst = rate, burst
        self._policy = policy or LimiterPolicy()
        self._clock, self._sleep = clock, sleep
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._reported = NEVER  # until when the breaker is open, as we logged last

    def acquire(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Permit:
        end = None if patience is None else self._clock() + patience
        given = self._try(end, stop)
        if isinstance(given, Permit):
            return given
        waiting = self._waiting_lock()
        while not waiting.acquire(timeout=LONGEST_SLEEP):
            self._check(end, stop)
        try:
            while not isinstance(given := self._try(end, stop), Permit):
                _ = stop.wait(given) if stop else self._sleep(given)
            return given
        finally:
            waiting.release()

    def record(self, permit: Permit, outcome: RequestOutcome, *, retry_after: float | None = None) -> None:
        with self._locked_state() as locked:
            before = locked.state
            locked.state = adaptive_rate.record(
                before, locked.now, permit, outcome, retry_after=retry_after, policy=self._policy
            )
            is_news = self._is_news(locked)
        if is_news:
            self._log_breaker("breaker_opened", locked)
        elif before.open and not locked.state.open:
            log.warning("breaker_closed", extra={"path": str(self.path), SENTENCE: f"{self._server} answers again"})

    def spend(self) -> None:
        with self._locked_state() as locked:
            locked.state = adaptive_rate.spend(locked.state)

    @contextmanager
    def request(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Iterator[Permit]:
        permit = self.acquire(stop=stop, patience=patience)
        with recording_outcome(self, permit):
            yield permit

    @asynccontextmanager
    async def request_async(self, *, patience: float | None = None) -> AsyncIterator[Permit]:
        """For an event loop, whose tasks are stopped by cancelling them."""
        end = None if patience is None else self._clock() + patience
        while not isinstance(given := self._try(end), Permit):
            await asyncio.sleep(given)
        with recording_outcome(self, given):
            yield given

    def status(self) -> LimiterStatus:
        with self._locked_state() as locked:
            state = locked.state
            wait = adaptive_rate.blocked_for(state, locked.now, policy=self._policy)
            return LimiterStatus(rate=self._rate * state.share, blocked_for=wait, refused=state.open and state.refused)

    def _waiting_lock(self) -> threading.Lock:
        """Return the lock of the one thread of this process that polls the file; the others wait for it at no cost.

        After a fork the lock is a new one: a thread that is not here any more may have held the old.
        """
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), threading.Lock()
        return self._lock

    def _check(self, end: float | None, stop: threading.Event | None) -> None:
        if stop and stop.is_set():
            raise Unavailable(f"{self._server}: stopped while waiting to send a request")
        if end is not None and self._clock() > end:
            raise Unavailable(
                f"{self._server}: could not send a request in time: other threads of this process wait too"
            )

    def _try(self, end: float | None, stop: threading.Event | None = None) -> Permit | float:
        """Return a permit, or how long to sleep before the next try."""
        self._check(None, stop)
        with self._locked_state() as locked:
            locked.state, given = adaptive_rate.acquire(
                locked.state, locked.now, rate=self._rate, burst=self._burst, policy=self._policy
            )
            is_news = self._is_news(locked)
        if isinstance(given, Permit):
            return given
        known = 0.0 if locked.state.probe else given  # a probe may be answered at any moment
        if end is not None and locked.now + known > end:
            raise Unavailable(f"{self._server}: {_why(locked.state, known, self.path)}", retry_after=known)
        if is_news:  # somebody else's: we wait without having asked
            self._log_breaker("breaker_open", locked)
        return min(max(given, SHORTEST_SLEEP), LONGEST_SLEEP)

    @contextmanager
    def _locked_state(self) -> Iterator[_LockedState]:
        """Lock and read the state, and write it back when the block ends well. Log nothing inside: that may be slow."""
        with self._store.locked() as states:
            locked = self._read(states)
            yield locked
            states.put(self._server, locked.state)
        if locked.lost:
            log.warning("limiter_state_lost", extra={"path": str(self.path)})

    def _read(self, states: KeyStates[LimiterState]) -> _LockedState:
        now = self._clock()
        try:
            state = states.get(self._server)
        except BadInput:
            return _LockedState(adaptive_rate.cautious_state(now, policy=self._policy), now, lost=True)
        return _LockedState(adaptive_rate.correct_clock(state, now) if state else adaptive_rate.initial_state(now), now)

    def _is_news(self, locked: _LockedState) -> bool:
        """Return whether nobody may ask and we have not logged it. Called under the lock: one thread logs it."""
        before, self._reported = self._reported, locked.state.open_until
        return locked.state.open and before != locked.state.open_until > locked.now

    def _log_breaker(self, event: str, locked: _LockedState) -> None:
        state, wait = locked.state, locked.state.open_until - locked.now
        why = "refuses us (403)" if state.refused else f"did not answer {state.failures} times in a row"
        sentence = f"{self._server} {why}; asked again in {_format_seconds(wait)}"
        log.warning(
            event, extra={"path": str(self.path), "refused": state.refused, "seconds": wait, SENTENCE: sentence}
        )


class NoLimit:
    """A limiter that permits everything at once."""

    def acquire(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Permit:  # noqa: ARG002
        return Permit(0)

    def record(self, permit: Permit, outcome: RequestOutcome, *, retry_after: float | None = None) -> None:
        pass

    def spend(self) -> None:
        pass

    @contextmanager
    def request(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Iterator[Permit]:
        yield self.acquire(stop=stop, patience=patience)


@contextmanager
def recording_outcome(limiter: RequestLimiter, permit: Permit) -> Iterator[None]:
    """Record whether the block went well, or how it failed."""
    try:
        yield
    except BaseException as error:
        record_error(limiter, permit, error)
        raise
    limiter.record(permit, "ok")


def record_error(limiter: RequestLimiter, permit: Permit, error: BaseException) -> None:
    limiter.record(permit, outcome_of(error), retry_after=error.retry_after if isinstance(error, Unavailable) else None)


def limiter_at(
    path: Path, *, rate: float | None, burst: float = 1.0, policy: LimiterPolicy | None = None
) -> RequestLimiter:
    """Return the limiter of a file; a rate of 0 or None is no limit."""
    return Limiter(path, rate=rate, burst=burst, policy=policy) if rate else NoLimit()


class _LockedState:
    def __init__(self, state: LimiterState, now: float, *, lost: bool = False) -> None:
        self.state = state
        self.now = now
        self.lost = lost


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _why(state: LimiterState, wait: float, path: Path) -> str:
    pause = (
        f"no process of this machine asks for {wait:.0f} s"
        if wait
        else "one request is out to see whether it does again"
    )
    if state.open and state.refused:
        return f"the server refuses us (status 403), {pause}; look at the rate and the User-Agent meanwhile"
    if state.open:
        return f"the server did not answer {state.failures} times in a row, {pause}; remove {path} to ask at once"
    return f"the rate limit permits no request within {wait:.1f} s"
