"""One pace for all processes of a machine that ask the same server.

    limiter = Limiter(path, rate=5, burst=5)      # requests a second; the same path in every process
    with limiter.turn():
        storage.read(key)                         # its error, if any, is noted: see `origin.answer_of`

The rules are in `pace.py`. The state is one small file, locked for some microseconds at a time; the kernel frees the
lock of whoever dies. It is opened anew each time (5 µs in all), so that threads and forks share nothing but the file.
It must be on a local disk: its times are those of `time.monotonic`, one clock for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import struct
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.errors import Misconfigured, Unavailable
from webmill.infra import lock
from webmill.infra.files import os_errors, read_at, write_at
from webmill.infra.log import TOLD
from webmill.infra.origin import Answer, answer_of
from webmill.infra.pace import NEVER, Manners, Pace, Turn, at, blocked, careful, fresh, note, spend, take

log = logging.getLogger(__name__)

LOCK_PATIENCE = 10.0
LONGEST_SLEEP = 0.5  # a breaker may be closed, and a stop be asked for, at any time
SHORTEST_SLEEP = 0.001
SUFFIX = ".limit"
_FORM = struct.Struct("<4s7d5Q2?")
_MAGIC = b"wml1"


class Turns(Protocol):
    """What paces requests: a `Limiter`, or `NoLimit`."""

    def wait(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Turn:
        """Returns when it is our turn to ask once. `Unavailable` when that takes longer than `patience` seconds, at
        once where it is known, and when `stop` is set. Whoever has a turn and asks must `note` what came of it.
        """
        ...

    def note(self, turn: Turn, answer: Answer, *, retry_after: float | None = None) -> None:
        """What came of the turn; of a stream this may be said twice, when it stands and when it breaks."""
        ...

    def spend(self) -> None:
        """For a request more within a turn, such as a redirect: it does not wait, those who come later do."""
        ...

    @contextmanager
    def turn(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Iterator[Turn]:
        """`wait`, and `note` by the error that leaves the block, or by its absence."""
        ...


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """For gauges and people."""

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
        manners: Manners | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not (0 < rate < float("inf")) or not (1 <= burst < float("inf")):
            raise Misconfigured(f"a rate of {rate} with bursts of {burst}: the rate is above 0, a burst at least 1")
        self.path = path
        self._server = path.name.removesuffix(SUFFIX).removesuffix(":https").removesuffix(":http")
        self._rate, self._burst = rate, burst
        self._manners = manners or Manners()
        self._clock, self._sleep = clock, sleep
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._told = NEVER  # until when the breaker is open, as we said last

    def wait(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Turn:
        end = None if patience is None else self._clock() + patience
        given = self._try(end, stop)
        if isinstance(given, Turn):
            return given
        gate = self._gate()
        while not gate.acquire(timeout=LONGEST_SLEEP):
            self._check(end, stop)
        try:
            while not isinstance(given := self._try(end, stop), Turn):
                _ = stop.wait(given) if stop else self._sleep(given)
            return given
        finally:
            gate.release()

    def note(self, turn: Turn, answer: Answer, *, retry_after: float | None = None) -> None:
        with self._held() as state:
            before = state.pace
            state.pace = note(before, state.now, turn, answer, retry_after=retry_after, manners=self._manners)
            is_news = self._is_news(state)
        if is_news:
            self._tell("breaker_opened", state)
        elif before.open and not state.pace.open:
            log.warning("breaker_closed", extra={"path": str(self.path), TOLD: f"{self._server} answers again"})

    def spend(self) -> None:
        with self._held() as state:
            state.pace = spend(state.pace)

    @contextmanager
    def turn(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Iterator[Turn]:
        turn = self.wait(stop=stop, patience=patience)
        with noting(self, turn):
            yield turn

    @asynccontextmanager
    async def turn_async(self, *, patience: float | None = None) -> AsyncIterator[Turn]:
        """For an event loop, whose tasks are stopped by cancelling them."""
        end = None if patience is None else self._clock() + patience
        while not isinstance(given := self._try(end), Turn):
            await asyncio.sleep(given)
        with noting(self, given):
            yield given

    def look(self) -> Look:
        with self._held() as state:
            pace = state.pace
            wait = blocked(pace, state.now, manners=self._manners)
            return Look(rate=self._rate * pace.share, blocked_for=wait, refused=pace.open and pace.refused)

    def _gate(self) -> threading.Lock:
        """One thread of a process looks for the next turn, the others wait here, which costs nothing. After a fork
        the lock is a new one: a thread that is not here any more may have held the old.
        """
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), threading.Lock()
        return self._lock

    def _check(self, end: float | None, stop: threading.Event | None) -> None:
        if stop and stop.is_set():
            raise Unavailable(f"{self._server}: told to stop while waiting for a turn")
        if end is not None and self._clock() > end:
            raise Unavailable(f"{self._server}: no turn in time, others of this process wait too")

    def _try(self, end: float | None, stop: threading.Event | None = None) -> Turn | float:
        """A turn, or how long to sleep before the next try."""
        self._check(None, stop)
        with self._held() as state:
            state.pace, given = take(state.pace, state.now, rate=self._rate, burst=self._burst, manners=self._manners)
            is_news = self._is_news(state)
        if isinstance(given, Turn):
            return given
        known = 0.0 if state.pace.probe else given  # a probe may be answered at any moment
        if end is not None and state.now + known > end:
            raise Unavailable(f"{self._server}: {_why(state.pace, known, self.path)}", retry_after=known)
        if is_news:  # somebody else's: we wait without having asked
            self._tell("breaker_open", state)
        return min(max(given, SHORTEST_SLEEP), LONGEST_SLEEP)

    @contextmanager
    def _held(self) -> Iterator[_State]:
        """The state, alone; written back when the block ends well. Nothing is logged inside: a log may be slow."""
        with os_errors(str(self.path)):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            _lock(fd, self.path)
            with os_errors(str(self.path)):
                state = self._read(fd)
                yield state
                write_at(fd, _encode(state.pace), 0)
        finally:
            lock.unlock(fd)  # else a fork of this moment, which has the file open too, holds on
            os.close(fd)
        if state.lost:
            log.warning("limiter_state_lost", extra={"path": str(self.path)})

    def _read(self, fd: int) -> _State:
        now = self._clock()
        data = read_at(fd, _FORM.size + 4, 0)
        if not data:
            return _State(fresh(now), now)
        pace = _decode(data)
        return _State(at(pace, now), now) if pace else _State(careful(now, manners=self._manners), now, lost=True)

    def _is_news(self, state: _State) -> bool:
        """Whether nobody may ask, and we have not said so. To be called while the state is held: one thread tells."""
        before, self._told = self._told, state.pace.open_until
        return state.pace.open and before != state.pace.open_until > state.now

    def _tell(self, event: str, state: _State) -> None:
        pace, wait = state.pace, state.pace.open_until - state.now
        why = "refuses us (403)" if pace.refused else f"did not answer {pace.failures} times in a row"
        told = f"{self._server} {why}; asked again in {_span(wait)}"
        log.warning(event, extra={"path": str(self.path), "refused": pace.refused, "seconds": wait, TOLD: told})


class NoLimit:
    """Everybody's turn, always."""

    def wait(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Turn:  # noqa: ARG002
        return Turn(0)

    def note(self, turn: Turn, answer: Answer, *, retry_after: float | None = None) -> None:
        pass

    def spend(self) -> None:
        pass

    @contextmanager
    def turn(self, *, stop: threading.Event | None = None, patience: float | None = None) -> Iterator[Turn]:
        yield self.wait(stop=stop, patience=patience)


@contextmanager
def noting(limiter: Turns, turn: Turn) -> Iterator[None]:
    """Whether the block went well, or how not."""
    try:
        yield
    except BaseException as error:
        note_error(limiter, turn, error)
        raise
    limiter.note(turn, "ok")


def note_error(limiter: Turns, turn: Turn, error: BaseException) -> None:
    limiter.note(turn, answer_of(error), retry_after=error.retry_after if isinstance(error, Unavailable) else None)


def limiter_at(path: Path, *, rate: float | None, burst: float = 1.0, manners: Manners | None = None) -> Turns:
    """A rate of 0 or None is no limit."""
    return Limiter(path, rate=rate, burst=burst, manners=manners) if rate else NoLimit()


class _State:
    def __init__(self, pace: Pace, now: float, *, lost: bool = False) -> None:
        self.pace = pace
        self.now = now
        self.lost = lost


def _lock(fd: int, path: Path) -> None:
    """Not for ever: a process that was stopped while it held the lock holds it still."""
    try:
        is_locked = lock.try_lock(fd, patience=LOCK_PATIENCE, interval=SHORTEST_SLEEP)
    except OSError as error:
        raise Misconfigured(f"{path}: no locks here ({error.strerror}); choose a folder on a local disk") from error
    if not is_locked:
        raise Unavailable(f"{path} is locked by a process that does not go on: find and end it")


def _encode(pace: Pace) -> bytes:
    data = _FORM.pack(_MAGIC, *msgspec.structs.astuple(pace))
    return data + struct.pack("<I", zlib.crc32(data))


def _decode(data: bytes) -> Pace | None:
    """None unless it is what we wrote."""
    body = data[: _FORM.size]
    if data[_FORM.size :] != struct.pack("<I", zlib.crc32(body)) or body[:4] != _MAGIC:
        return None
    return Pace(**dict(zip(Pace.__struct_fields__, _FORM.unpack(body)[1:], strict=True)))


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _why(pace: Pace, wait: float, path: Path) -> str:
    pause = (
        f"no process of this machine asks for {wait:.0f} s"
        if wait
        else "one request is out to see whether it does again"
    )
    if pace.open and pace.refused:
        return f"the server refuses us (status 403), {pause}; look at the rate and the User-Agent meanwhile"
    if pace.open:
        return f"the server did not answer {pace.failures} times in a row, {pause}; remove {path} to ask at once"
    return f"no turn within {wait:.1f} s"
