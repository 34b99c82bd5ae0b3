"""The parent of a server's processes: opens the sockets, starts what serves, starts again what died, and stops all."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

from webmill.errors import Misconfigured, Unavailable
from webmill.infra import interrupts

log = logging.getLogger(__name__)

TICK = 1.0
PATIENCE = 45.0  # for a process to end by itself: longer than it gives to its own answers
PAUSE = 1.0  # before a process that died at once is started again; doubled up to
LONGEST_PAUSE = 30.0
MOST_STILLBORN = 3
WELL = 30.0  # seconds after which a start has succeeded


class Member:
    """One process, and those that take its place. `main` gets our end of a pipe last: it ends when that hangs up."""

    def __init__(self, name: str, main: Callable[..., None], *arguments: Any) -> None:
        self.name, self._main, self._arguments = name, main, arguments
        self._pause, self._next, self._began = PAUSE, 0.0, 0.0
        self.is_ready = False
        self.stillborn = 0  # starts in a row that came to nothing
        self.pipe: Connection | None = None
        self.process: SpawnProcess | None = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=self._main, args=(*self._arguments, theirs), name=f"webmill-{self.name}")
        with interrupts.held_back():
            self.process.start()
        self._began = time.monotonic()
        theirs.close()

    def listen(self) -> str:
        """What it has said that ends it, in words; empty while all is well."""
        try:
            while self.pipe and self.pipe.poll():
                word = self.pipe.recv()
                if word != "ready":
                    return str(word)
                self.is_ready = True
        except (EOFError, OSError):
            pass  # its death is seen by its sentinel
        return ""

    def mourn(self) -> None:
        """It is dead: when may there be another?"""
        assert self.process
        code = self.process.exitcode
        lived = time.monotonic() - self._began
        self._pause = PAUSE if lived > WELL or self.is_ready else min(2 * self._pause, LONGEST_PAUSE)
        self._next = time.monotonic() + (0 if lived > WELL else self._pause)
        self.stillborn = 0 if self.is_ready else self.stillborn + 1
        self.is_ready = False
        log.error("a process of the server died and is started again", extra={"member": self.name, "exit": code})
        self.bury()

    def may_start(self) -> bool:
        return self.process is None and time.monotonic() >= self._next

    def hang_up(self) -> None:
        if self.pipe:
            self.pipe.close()
            self.pipe = None

    def kill(self) -> None:
        if self.process:
            self.process.kill()

    def bury(self, patience: float = PATIENCE) -> None:
        self.hang_up()
        if self.process:
            self.process.join(patience)
            if self.process.is_alive():
                log.error("a process of the server did not end and was killed", extra={"member": self.name})
                self.process.kill()
                self.process.join()
            self.process.close()
            self.process = None


class Supervisor:
    def __init__(self, members: list[Member], *, ready: Callable[[], None], stopping: Callable[[], None]) -> None:
        """`ready` is called once, when all answer; `stopping` before they are told to end."""
        self._members, self._ready, self._stopping = members, ready, stopping
        self._is_stopping = False
        self._was_ready = False

    def run(self) -> None:
        """Until SIGTERM or SIGINT; then all finish what they do. `Misconfigured` when one says that it cannot work."""
        with self._signals():
            try:
                while not self._is_stopping:
                    self._look()
            finally:
                self._stopping()
                for member in self._members:
                    member.hang_up()
                for member in self._members:
                    member.bury()

    def _look(self) -> None:
        for member in self._members:
            if member.process and not member.process.is_alive():
                member.mourn()
                if member.stillborn >= MOST_STILLBORN and not self._was_ready:
                    raise Unavailable("the server's processes die as soon as they are started: the log above says why")
            if member.may_start():
                member.start()
        for member in self._members:
            complaint = member.listen()
            if complaint:
                raise Misconfigured(complaint)
        if not self._was_ready and all(member.is_ready for member in self._members):
            self._was_ready = True
            self._ready()
        wait([watched for one in self._members for watched in _watched(one)] + [self._wake], timeout=TICK)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        self._wake, waker = socket.socketpair()
        waker.setblocking(False)

        def stop(_signal: int, _frame: FrameType | None) -> None:
            if self._is_stopping:  # twice: at once
                for member in self._members:
                    member.kill()
            self._is_stopping = True
            waker.send(b"!")

        before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            self._wake.close()
            waker.close()


def _watched(member: Member) -> Iterator[Any]:
    if member.process:
        yield member.process.sentinel
    if member.pipe and not member.is_ready:
        yield member.pipe


def listen(host: str, port: int, *, flag: str) -> socket.socket:
    """Port 0 takes a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        one = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Misconfigured(
            f"there is no address {host} here ({error.strerror}): choose another with --host"
        ) from error
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(address)
        one.listen(2048)
    except (OSError, OverflowError) as error:
        one.close()
        why = "is taken" if getattr(error, "errno", None) == errno.EADDRINUSE else f"cannot be used ({error})"
        raise Misconfigured(f"port {port} of {host} {why}: choose another with {flag}") from error
    one.set_inheritable(True)
    return one
