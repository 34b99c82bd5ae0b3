"""Supervise processes: start them, take their messages, learn of their exits, and stop them without leaving any behind.

    def main(number: int, parent: Connection) -> None:    # in the child; it ends when `parent` hangs up
        interrupts.ignore()
        parent.send("ready")

    restarts = Restarts(RestartPolicy(max_deaths=5))
    with closing(ProcessGroup[SpawnedProcess]()) as group:
        group.add(SpawnedProcess("worker-0", main, 0))
        while is_wanted():
            for process in group.wait(0.1):               # those that spoke or ended
                for message in process.receive():
                    restarts.mark_healthy()               # the caller decides what counts as progress
                if process.has_ended:
                    group.reap(process, grace=60)
                    restarts.on_exit(lived=process.lived)
                    if restarts.are_exhausted:
                        raise Misconfigured(…)
                    group.add(SpawnedProcess("worker-0", main, 0))
        group.stop(grace=60)                              # hang up, wait, kill who is late

Guarantees
- A process whose exit is reported has been heard to its last message: `receive` reads before `has_ended` is true.
- `wait` reports every process that spoke, hung up, ended or passed its deadline, however quietly it died.
- After `reap`, `stop` or `close` a process is gone: no zombie, no open file.

Not for two threads at once. Processes that run one untrusted or heavy call after the other are `infra.child`, which a
`ProcessGroup` watches as well.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from multiprocessing import connection
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from webmill.infra import interrupts

log = logging.getLogger(__name__)

CHECK_INTERVAL = 1.0  # seconds between two checks for processes that died without a sign on their pipes


class SupervisedProcess(Protocol):
    """One process, already started."""

    @property
    def deadline(self) -> float | None:
        """The `time.monotonic()` at which `wait` reports it though it is silent; None: never."""
        ...

    def waitables(self) -> Iterable[Any]:
        """Return what becomes readable when the process speaks or ends: file descriptors, or objects with a fileno."""
        ...

    def is_alive(self) -> bool: ...

    def hang_up(self) -> None:
        """Close our end of its pipe, which asks it to end."""
        ...

    def kill(self) -> None:
        """Kill it at once. Safe in a signal handler, and when it is gone already."""
        ...

    def reap(self, grace: float) -> None:
        """Hang up, give it `grace` seconds to end, kill it if it does not, and free what it held."""
        ...


P = TypeVar("P", bound=SupervisedProcess)


class SpawnedProcess:
    """One run of `main(*arguments, pipe)` in a fresh interpreter, with our end of a duplex pipe to it."""

    deadline = None

    def __init__(self, name: str, main: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.has_ended = False  # set by `receive`: no message will come any more
        self.exit_code: int | None = None  # set by `reap`; negative: the signal that killed it
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(*arguments, theirs), name=name)
        self._started, self._reaped = time.monotonic(), 0.0
        with closing(theirs):
            try:
                with interrupts.held_back():
                    self._process.start()
            except BaseException:
                self._pipe.close()
                raise

    @property
    def pid(self) -> int | None:
        return None if self._reaped else self._process.pid

    @property
    def lived(self) -> float:
        """Seconds from its start until now, or until it was reaped."""
        return (self._reaped or time.monotonic()) - self._started

    def waitables(self) -> Iterator[Any]:
        if not self._reaped:
            yield self._process.sentinel
        if not self._pipe.closed and not self.has_ended:
            yield self._pipe

    def is_alive(self) -> bool:
        return not self._reaped and self._process.is_alive()

    def send(self, message: object) -> None:
        """Send a message; one to a process that is gone is dropped, since `wait` reports that end anyway."""
        try:
            if not self._pipe.closed:
                self._pipe.send(message)
        except OSError:
            pass

    def receive(self) -> list[Any]:
        """Return the messages that have come, without waiting, and note in `has_ended` whether they were the last."""
        is_alive = self.is_alive()  # before reading: what it said before it died is in the pipe
        messages = []
        try:
            while not self._pipe.closed and self._pipe.poll():
                messages.append(self._pipe.recv())
        except (EOFError, OSError):
            self.has_ended = True
        self.has_ended = self.has_ended or not is_alive
        return messages

    def hang_up(self) -> None:
        self._pipe.close()

    def kill(self) -> None:
        if self.is_alive():
            self._process.kill()

    def reap(self, grace: float) -> None:
        self.hang_up()
        if self._reaped:
            return
        self._process.join(grace)
        if self._process.is_alive():
            log.error("killed a process that did not end in time", extra={"worker": self.name, "seconds": grace})
            self._process.kill()
            self._process.join()
        self.exit_code, self._reaped = self._process.exitcode, time.monotonic()
        self._process.close()


class ProcessGroup(Generic[P]):
    """The processes of one parent."""

    def __init__(self) -> None:
        self._processes: list[P] = []
        self._checked = time.monotonic()

    def __iter__(self) -> Iterator[P]:
        return iter(list(self._processes))

    def __len__(self) -> int:
        return len(self._processes)

    def add(self, process: P) -> P:
        self._processes.append(process)
        return process

    def wait(self, timeout: float, *wakers: Any) -> list[P]:
        """Return the processes that have something to report, as soon as there are any or a waker is readable."""
        now = time.monotonic()
        watched = {waitable: process for process in self._processes for waitable in process.waitables()}
        deadlines = [process.deadline for process in self._processes if process.deadline is not None]
        ready = connection.wait([*watched, *wakers], max(0.0, min([now + timeout, *deadlines]) - now))
        found = {id(watched[waitable]) for waitable in ready if waitable in watched}
        now = time.monotonic()
        is_due = now - self._checked >= CHECK_INTERVAL
        self._checked = now if is_due else self._checked
        return [
            process
            for process in self._processes
            if id(process) in found
            or (process.deadline is not None and process.deadline <= now)
            or (is_due and not process.is_alive())
        ]

    def reap(self, process: P, grace: float = 0.0) -> None:
        """Remove a process that has ended, or should have: it is given `grace` seconds, then killed."""
        try:
            process.reap(grace)
        finally:
            self._processes.remove(process)

    def kill(self) -> None:
        """Kill all at once; they are still to be reaped. Safe in a signal handler."""
        for process in self:
            process.kill()

    def stop(self, grace: float) -> None:
        """Hang up on all, give them `grace` seconds together, kill who is late, and reap them."""
        end = time.monotonic() + grace
        for process in self:
            process.hang_up()
        for process in self:
            self.reap(process, max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """Kill and reap whatever is left."""
        self.kill()
        for process in self:
            self.reap(process, CHECK_INTERVAL)  # a killed process needs a moment to be gone


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a process that died is started again. A pause doubles with every death in a row."""

    max_deaths: int  # in a row, without a sign of health between them
    first_pause: float = 0.0  # seconds
    longest_pause: float = 0.0
    stable_after: float = float("inf")  # seconds: what lived longer is started again without a pause


class Restarts:
    """The deaths in a row of one place in a group, whichever process has it, and when the next may start."""

    def __init__(self, policy: RestartPolicy, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy, self._clock = policy, clock
        self.deaths = 0
        self._next = 0.0

    @property
    def are_exhausted(self) -> bool:
        return self.deaths > self._policy.max_deaths

    @property
    def are_due(self) -> bool:
        return self._clock() >= self._next

    def mark_healthy(self) -> None:
        """Forget the deaths so far: the process does what it is for."""
        self.deaths = 0

    def on_exit(self, *, lived: float) -> None:
        """Count a death after `lived` seconds, and set when the next process may start."""
        policy = self._policy
        pause = min(policy.first_pause * 2.0 ** min(self.deaths, 32), policy.longest_pause)
        self.deaths += 1
        self._next = self._clock() + (0.0 if lived > policy.stable_after else pause)
