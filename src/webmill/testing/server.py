"""The sockets: an HTTP/1.1 server on asyncio streams in a thread of its own, with control over every byte.

Nothing a site answers can hold the server: an answer ends when the client goes away, at the byte cap, at the time cap,
or at `close()`, whichever comes first.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from webmill.errors import Misconfigured
from webmill.model import Headers
from webmill.testing.exchange import Answer, Cut, Reply, Request, Wait, conclude, head_of
from webmill.testing.log import ServerLog, Visit

FALLBACK = "127.0.0.1"  # where only one loopback address is set up (macOS), the Host field alone tells hosts apart
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_NONSENSE = Request(method="", host="", path="", headers=Headers((("Connection", "close"),)))  # answered with 400
_GLANCE = 0.05  # seconds: how often a waiting answer looks whether its client is still there


class Limits(Struct, frozen=True, kw_only=True):
    """The hard ends of every answer and request."""

    answer_bytes: int = 64 << 20
    answer_seconds: float = 60.0
    idle_seconds: float = 30.0
    head_bytes: int = 64 << 10
    body_bytes: int = 1 << 20


class Asked(Struct, frozen=True, kw_only=True):
    """A request with where it came in; `Router` says which host it is for."""

    request: Request
    address: str


Router = Callable[[Asked], tuple[str, Answer]]


def listen(addresses: Sequence[str], *, port: int = 0) -> tuple[list[socket.socket], int]:
    """One port on all addresses, a free one for 0, or on 127.0.0.1 alone where the others cannot be had."""
    for _ in range(20):  # a port that is free on the first address may be taken on another
        try:
            return _listen_on(addresses, port)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL and tuple(addresses) != (FALLBACK,):
                addresses = (FALLBACK,)
            elif error.errno != errno.EADDRINUSE or port:
                raise Misconfigured(f"cannot listen on {addresses[0]}…: {error}") from error
    raise Misconfigured("no port is free on all addresses; give fewer `addresses`")


def _listen_on(addresses: Sequence[str], port: int) -> tuple[list[socket.socket], int]:
    bound: list[socket.socket] = []
    try:
        for address in addresses:
            bound.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            bound[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound[-1].bind((address, port))
            bound[-1].listen(512)
            port = bound[-1].getsockname()[1]
    except OSError:
        for each in bound:
            each.close()
        raise
    return bound, port


class Server:
    """Serves `route` on the given listening sockets until `close()`, which raises what went wrong inside."""

    def __init__(
        self, sockets: Sequence[socket.socket], route: Router, *, log: ServerLog, limits: Limits, pace: float
    ) -> None:
        self._sockets, self._route, self._log, self._limits, self._pace = sockets, route, log, limits, pace
        self._tasks: set[asyncio.Task[None]] = set()
        self._faults: list[BaseException] = []
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="webmill-test-web", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._faults:
            raise self._faults[0]

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        for each in self._sockets:
            each.setblocking(False)
            self._loop.add_reader(each, self._accept, each)
        self._ready.set()
        await self._stop.wait()
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _accept(self, listener: socket.socket) -> None:
        """By hand, because asyncio's own server drops a connection that it accepts in the moment of its closing."""
        try:
            connection, (_, client_port) = listener.accept()
        except OSError:
            return  # it went away before we looked
        task = asyncio.create_task(self._serve(connection, client_port))
        self._tasks.add(task)
        task.add_done_callback(partial(self._finished, connection))

    def _finished(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        connection.close()  # for the task that was ended before its first step
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._faults.append(error)

    async def _serve(self, connection: socket.socket, client_port: int) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=self._limits.head_bytes)
        try:
            while await self._exchange(reader, writer, client_port=client_port):
                pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client went away or fell silent: it is in the log as far as it came
        except asyncio.CancelledError:
            _abort(writer)
        finally:
            await _hang_up(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, client_port: int) -> bool:
        """One request and its answer; True when the connection can carry another."""
        address = writer.get_extra_info("sockname")[0]
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                request = await self._read(reader)
        except asyncio.LimitOverrunError:
            request = _NONSENSE
        started, wall = time.monotonic(), time.time()
        wire = _Wire(reader, writer, limits=self._limits, pace=self._pace)
        self._log.begin()
        host, status = request.host, 0
        try:
            host, answer = self._answer(request, address)
            if isinstance(answer, Reply):
                answer = conclude(answer, request)
            status = answer.status
            async with asyncio.timeout(self._limits.answer_seconds):
                return await wire.play(answer, request)
        finally:
            self._log.end(
                Visit(
                    started=started,
                    ended=time.monotonic(),
                    wall=wall,
                    host=host,
                    address=address,
                    client_port=client_port,
                    method=request.method,
                    path=request.target,
                    status=status,
                    user_agent=request.headers.get("user-agent", "") or "",
                    sent=wire.sent,
                )
            )

    def _answer(self, request: Request, address: str) -> tuple[str, Answer]:
        if request is _NONSENSE:
            return "", Reply(status=400, media_type="")
        return self._route(Asked(request=request, address=address))

    async def _read(self, reader: asyncio.StreamReader) -> Request:
        request = parse_head(await reader.readuntil(b"\r\n\r\n"))
        length = request.headers.get("content-length") or "0"
        if request is _NONSENSE or not length.isdecimal() or int(length) > self._limits.body_bytes:
            return _NONSENSE
        return replace(request, body=await reader.readexactly(int(length)))


def parse_head(head: bytes) -> Request:
    line, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    parts = line.split(" ")
    pairs = [field.partition(":") for field in rest]
    if len(parts) != 3 or not all(colon for _, colon, _ in pairs):
        return _NONSENSE
    method, target, protocol = parts
    headers = Headers((name, value.strip()) for name, _, value in pairs)
    host = headers.get("host") or ""
    if target.startswith("http://"):  # absolute form: what is sent to a proxy, and a server must take it too
        host, slash, rest_of_target = target.removeprefix("http://").partition("/")
        target = slash + rest_of_target or "/"
    if not target.startswith("/") or protocol not in ("HTTP/1.1", "HTTP/1.0"):
        return _NONSENSE
    if protocol == "HTTP/1.0":
        headers = headers.without("connection").adding(("Connection", "close"))
    path, _, query = target.partition("#")[0].partition("?")
    return Request(method=method, host=_bare_name(host), path=path, query=query, headers=headers)


def _bare_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


class _Wire:
    """The sending half of one exchange: counts what it sends and knows when to stop."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, limits: Limits, pace: float
    ) -> None:
        self._reader, self._writer, self._limits, self._pace = reader, writer, limits, pace
        self.sent = 0

    async def play(self, answer: Answer, request: Request) -> bool:
        if isinstance(answer, Reply):
            close = (request.headers.get("connection") or "").lower() == "close"
            body = b"" if request.method == "HEAD" else answer.body
            await self._send(head_of(answer, close=close) + body)
            return not close
        for step in answer.steps:
            if isinstance(step, Cut):
                self._prepare(step)
                return False
            if isinstance(step, Wait):
                await self._wait(step.beats * self._pace)
            else:
                await self._send(step)
            if self._client_is_gone() or self.sent >= self._limits.answer_bytes:
                return False
            await asyncio.sleep(0)  # a fast reader never makes drain() wait: let the other connections live
        return answer.reuse

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        self.sent += len(data)
        await self._writer.drain()

    async def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._client_is_gone():
            await asyncio.sleep(min(left, _GLANCE))

    def _client_is_gone(self) -> bool:
        return self._writer.transport.is_closing() or self._reader.at_eof()

    def _prepare(self, how: Cut) -> None:
        """The connection is closed right after: make that close a reset where one is wanted."""
        if how is Cut.RST:
            ours = self._writer.get_extra_info("socket")
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Close with a FIN; a client that does not take the rest within a second loses it."""
    writer.close()
    patience = asyncio.get_running_loop().call_later(1, _abort, writer)
    try:
        await writer.wait_closed()
    except OSError:
        pass  # it is closed all the same
    except asyncio.CancelledError:
        _abort(writer)
        await asyncio.sleep(0)  # the transport closes its socket in the next turn of the loop
    finally:
        patience.cancel()


def _abort(writer: asyncio.StreamWriter) -> None:
    # Aborting a transport that has just closed by itself is an AttributeError: it has forgotten its loop.
    with contextlib.suppress(AttributeError):
        writer.transport.abort()
