"""Hundreds of HTTP clients in one process, at little cost: generators on an epoll loop, no asyncio, no HTTP library.

A client is a generator. It yields `Wait` objects (a socket that can be read or written, or a time), and the loop
resumes it. So a request costs some ten system calls and little else, which matters on a machine that the clients share
with the server under test.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import re
import select
import socket
import time
from collections.abc import Generator

from msgspec import Struct

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
MOST_READ = 1 << 18
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close\r\n", re.IGNORECASE)


class Wait(Struct, frozen=True):
    """What a client waits for: events of a socket, or only `until` a time; `until` is a deadline for a socket."""

    fd: int
    events: int
    until: float


class TimedOut(Exception):
    """The deadline of a wait has passed."""


Client = Generator[Wait, None, None]


class ClientLoop:
    """Runs clients until a time."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waiting: dict[int, tuple[Client, int]] = {}  # by fd, with the number of the wait
        self._timers: list[tuple[float, int, int, Client]] = []
        self._numbers = itertools.count()

    def run(self, clients: list[Client], *, until: float) -> None:
        """Run `clients` until `until` (of time.monotonic()), then close all that are left."""
        for client in clients:
            self._resume(client)
        while (now := time.monotonic()) < until:
            timeout = min(until, self._timers[0][0] if self._timers else until) - now
            for fd, _ in self._epoll.poll(max(0.0, timeout)):
                if fd in self._waiting:
                    client, _ = self._waiting.pop(fd)
                    self._resume(client)
            self._expire(time.monotonic())
        for client in clients:
            client.close()
        self._epoll.close()

    def _resume(self, client: Client, error: Exception | None = None) -> None:
        try:
            wait = client.throw(error) if error else next(client)
        except StopIteration:
            return
        number = next(self._numbers)
        if wait.fd >= 0:
            self._arm(wait)
            self._waiting[wait.fd] = (client, number)
        heapq.heappush(self._timers, (wait.until, number, wait.fd, client))

    def _arm(self, wait: Wait) -> None:
        """Ask for one event; sockets that were closed have left the epoll by themselves."""
        try:
            self._epoll.modify(wait.fd, wait.events | select.EPOLLONESHOT)
        except FileNotFoundError:
            self._epoll.register(wait.fd, wait.events | select.EPOLLONESHOT)

    def _expire(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, number, fd, client = heapq.heappop(self._timers)
            if fd < 0:
                self._resume(client)
            elif self._waiting.get(fd, (None, -1))[1] == number:
                del self._waiting[fd]
                self._resume(client, TimedOut())


def sleep(seconds: float) -> Generator[Wait, None, None]:
    yield Wait(-1, 0, time.monotonic() + seconds)


def connect(address: tuple[str, int], source: str, *, deadline: float) -> Generator[Wait, None, socket.socket]:
    """Return a connection from `source`, an address of this machine (all of 127.0.0.0/8 are)."""
    one = socket.socket()
    one.setblocking(False)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    try:
        one.bind((source, 0))
        code = one.connect_ex(address)
        if code == errno.EINPROGRESS:
            yield Wait(one.fileno(), WRITE, deadline)
            code = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
    except BaseException:
        one.close()
        raise
    return one


IP_BIND_ADDRESS_NO_PORT = 24  # lets the kernel choose the port when it knows both ends: more connections


def send(one: socket.socket, data: bytes, *, deadline: float) -> Generator[Wait, None, None]:
    while data:
        try:
            data = data[one.send(data) :]
        except BlockingIOError:
            yield Wait(one.fileno(), WRITE, deadline)


def receive(one: socket.socket, *, deadline: float, size: int = MOST_READ) -> Generator[Wait, None, bytes]:
    while True:
        try:
            return one.recv(size)
        except BlockingIOError:
            yield Wait(one.fileno(), READ, deadline)


class Reply(Struct, frozen=True):
    status: int
    size: int  # bytes of head and body as sent
    keep_alive: bool


def read_reply(one: socket.socket, *, deadline: float) -> Generator[Wait, None, Reply]:
    """Read one answer to its end. `ConnectionError`: it ended before; the number of bytes that came is its argument."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data = yield from _read_more(one, data, deadline)
    head = data[: end + 2]
    found = _STATUS.match(head)
    status = int(found[1]) if found else 0
    length = _LENGTH.search(head)
    size = len(data)
    if length and status != 304:
        size = yield from _read_length(one, size, end + 4 + int(length[1]), deadline)
    elif _CHUNKED.search(head):
        size = yield from _read_chunks(one, data[end:], size, deadline)
    return Reply(status, size, not _CLOSE.search(head))


def _read_more(one: socket.socket, data: bytes, deadline: float) -> Generator[Wait, None, bytes]:
    more = yield from receive(one, deadline=deadline)
    if not more:
        raise ConnectionError(len(data))
    return data + more


def _read_length(one: socket.socket, size: int, whole: int, deadline: float) -> Generator[Wait, None, int]:
    while size < whole:
        more = yield from receive(one, deadline=deadline)
        if not more:
            raise ConnectionError(size)
        size += len(more)
    return size


def _read_chunks(one: socket.socket, tail: bytes, size: int, deadline: float) -> Generator[Wait, None, int]:
    """Read to the last chunk: no other text ends as it does, as we ask for one answer at a time."""
    while not tail.endswith(b"\r\n0\r\n\r\n"):
        more = yield from receive(one, deadline=deadline)
        if not more:
            raise ConnectionError(size)
        size += len(more)
        tail = (tail + more)[-16:]
    return size
