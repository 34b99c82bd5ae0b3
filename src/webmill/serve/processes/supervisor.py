"""The parent of a server's processes: opens the sockets, starts what serves, restarts what died, and stops all."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.supervisor import ProcessGroup, RestartPolicy, Restarts, SpawnedProcess

log = logging.getLogger(__name__)

POLL_INTERVAL = 1.0
STOP_GRACE = 45.0  # for a process to end by itself: longer than it gives to its own answers
RESTART_POLICY = RestartPolicy(max_deaths=2, first_pause=1.0, longest_pause=30.0, stable_after=30.0)


class ServerProcess:
    """A process of the server and those that take its place. Each runs `main(*arguments, pipe)`, sends "ready" when it
    serves, or else why it cannot, and ends when the pipe hangs up.
    """

    def __init__(self, name: str, main: Callable[..., None], *arguments: Any) -> None:
        self.name, self._main, self._arguments = name, main, arguments
        self.restarts = Restarts(RESTART_POLICY)
        self.is_ready = False
        self.process: SpawnedProcess | None = None

    def start(self) -> SpawnedProcess:
        self.process = SpawnedProcess(f"webmill-{self.name}", self._main, *self._arguments)
        return self.process

    def receive(self) -> None:
        """Take its messages. `Misconfigured` with what it says when it cannot serve."""
        for message in self.process.receive() if self.process else []:
            if message != "ready":
                raise Misconfigured(str(message))
            self.is_ready = True
            self.restarts.mark_healthy()

    def on_exit(self) -> None:
        assert self.process
        self.restarts.on_exit(lived=self.process.lived)
        log.error(
            "a process of the server died and is started again",
            extra={"member": self.name, "exit": self.process.exit_code},
        )
        self.process, self.is_ready = None, False


class Supervisor:
    def __init__(
        self, members: list[ServerProcess], *, ready: Callable[[], None], stopping: Callable[[], None]
    ) -> None:
        """`ready` is called once, when all serve; `stopping` before they are asked to end."""
        self._members, self._ready, self._stopping = members, ready, stopping
        self._group: ProcessGroup[SpawnedProcess] = ProcessGroup()
        self._is_stopping = False
        self._was_ready = False

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; then let all finish what they do. `Misconfigured` when one cannot serve."""
        with self._signals(), closing(self._group):
            try:
                while not self._is_stopping:
                    self._start_missing()
                    self._group.wait(POLL_INTERVAL, self._wake)
                    self._check()
            finally:
                self._stopping()
                self._group.stop(STOP_GRACE)

    def _start_missing(self) -> None:
        for member in self._members:
            if member.process is None and member.restarts.are_due:
                self._group.add(member.start())

    def _check(self) -> None:
        for member in self._members:
            member.receive()
            if member.process and member.process.has_ended and not member.process.is_alive():
                self._group.reap(member.process)
                member.on_exit()
                if member.restarts.are_exhausted and not self._was_ready:
                    raise Unavailable("the server's processes die as soon as they are started: the log above says why")
        if not self._was_ready and all(member.is_ready for member in self._members):
            self._was_ready = True
            self._ready()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        self._wake, waker = socket.socketpair()
        waker.setblocking(False)

        def stop(_signal: int, _frame: FrameType | None) -> None:
            if self._is_stopping:  # twice: at once
                self._group.kill()
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


def listen(host: str, port: int, *, flag: str) -> socket.socket:
    """Return a listening socket that processes inherit; port 0 takes a free one."""
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
