"""An HTTP/1.1 server on asyncio streams in a thread of its own, with control over every byte.

No answer can block the server: it ends when the client disconnects, at the byte limit, at the time limit, or at
`close()`, whichever comes first.
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
from webmill.testing.exchange import Answer, Cut, HttpReply, ReceivedRequest, Wait, apply_conditions, format_head
from webmill.testing.server_log import LoggedVisit, ServerLog

FALLBACK = "127.0.0.1"  # used where only one loopback address exists (macOS); hosts differ by the Host header
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_BAD_REQUEST = ReceivedRequest(
    method="", host="", path="", headers=Headers((("Connection", "close"),))
)  # answered with 400
_POLL_INTERVAL = 0.05  # seconds between checks whether the client is still connected


class AnswerLimits(Struct, frozen=True, kw_only=True):
    """Hard limits of every request and answer."""

    answer_bytes: int = 64 << 20
    answer_seconds: float = 60.0
    idle_seconds: float = 30.0
    head_bytes: int = 64 << 10
    body_bytes: int = 1 << 20


class RoutedRequest(Struct, frozen=True, kw_only=True):
    """A request and the local address that received it; `Router` finds its host."""

    request: ReceivedRequest
    address: str


Router = Callable[[RoutedRequest], tuple[str, Answer]]


def listen(addresses: Sequence[str], *, port: int = 0) -> tuple[list[socket.socket], int]:
    """Listen on one port (0: a free one) of all addresses, or of 127.0.0.1 alone if the others do not exist."""
    for _ in range(20):  # a port that is free on the first address may be taken on another
        try:
            return _listen_on(addresses, port)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL and tuple(addresses) != (FALLBACK,):
                addresses = (FALLBACK,)
            elif error.errno != errno.EADDRINUSE or port:
                raise Misconfigured(f"cannot listen on {addresses[0]}…: {error}") from error
    raise Misconfigured("no port is free on all addresses; pass fewer `addresses`")


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


class WebServer:
    """Serves `route` on the given sockets until `close()`, which raises the first error of a connection."""

    def __init__(
        self, sockets: Sequence[socket.socket], route: Router, *, log: ServerLog, limits: AnswerLimits, pace: float
    ) -> None:
        self._sockets, self._route, self._log, self._limits, self._pace = sockets, route, log, limits, pace
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []
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
        if self._errors:
            raise self._errors[0]

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
        """Accept without asyncio's own server, which drops a connection accepted while it is closing."""
        try:
            connection, (_, client_port) = listener.accept()
        except OSError:
            return  # the client disconnected before we accepted
        task = asyncio.create_task(self._serve(connection, client_port))
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_connection_end, connection))

    def _on_connection_end(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        connection.close()  # for a task that was cancelled before its first step
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._errors.append(error)

    async def _serve(self, connection: socket.socket, client_port: int) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=self._limits.head_bytes)
        try:
            while await self._exchange(reader, writer, client_port=client_port):
                pass
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client disconnected or timed out: what it got is in the log
        except asyncio.CancelledError:
            _abort(writer)
        finally:
            await _close(writer)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, client_port: int) -> bool:
        """Handle one request; return True when the connection can carry another."""
        address = writer.get_extra_info("sockname")[0]
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                request = await self._read_request(reader)
        except asyncio.LimitOverrunError:
            request = _BAD_REQUEST
        started, wall = time.monotonic(), time.time()
        sender = _AnswerSender(reader, writer, limits=self._limits, pace=self._pace)
        self._log.begin()
        host, status = request.host, 0
        try:
            host, answer = self._answer(request, address)
            if isinstance(answer, HttpReply):
                answer = apply_conditions(answer, request)
            status = answer.status
            async with asyncio.timeout(self._limits.answer_seconds):
                return await sender.send(answer, request)
        finally:
            self._log.end(
                LoggedVisit(
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
                    sent=sender.sent,
                )
            )

    def _answer(self, request: ReceivedRequest, address: str) -> tuple[str, Answer]:
        if request is _BAD_REQUEST:
            return "", HttpReply(status=400, media_type="")
        return self._route(RoutedRequest(request=request, address=address))

    async def _read_request(self, reader: asyncio.StreamReader) -> ReceivedRequest:
        request = parse_head(await reader.readuntil(b"\r\n\r\n"))
        length = request.headers.get("content-length") or "0"
        if request is _BAD_REQUEST or not length.isdecimal() or int(length) > self._limits.body_bytes:
            return _BAD_REQUEST
        return replace(request, body=await reader.readexactly(int(length)))


def parse_head(head: bytes) -> ReceivedRequest:
    line, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    parts = line.split(" ")
    pairs = [field.partition(":") for field in rest]
    if len(parts) != 3 or not all(colon for _, colon, _ in pairs):
        return _BAD_REQUEST
    method, target, protocol = parts
    headers = Headers((name, value.strip()) for name, _, value in pairs)
    host = headers.get("host") or ""
    if target.startswith("http://"):  # absolute form, as sent to a proxy; servers must accept it too
        host, slash, rest_of_target = target.removeprefix("http://").partition("/")
        target = slash + rest_of_target or "/"
    if not target.startswith("/") or protocol not in ("HTTP/1.1", "HTTP/1.0"):
        return _BAD_REQUEST
    if protocol == "HTTP/1.0":
        headers = headers.without("connection").with_added(("Connection", "close"))
    path, _, query = target.partition("#")[0].partition("?")
    return ReceivedRequest(method=method, host=_bare_name(host), path=path, query=query, headers=headers)


def _bare_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


class _AnswerSender:
    """Sends one answer, counts its bytes and stops at the limits."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, limits: AnswerLimits, pace: float
    ) -> None:
        self._reader, self._writer, self._limits, self._pace = reader, writer, limits, pace
        self.sent = 0

    async def send(self, answer: Answer, request: ReceivedRequest) -> bool:
        if isinstance(answer, HttpReply):
            close = (request.headers.get("connection") or "").lower() == "close"
            body = b"" if request.method == "HEAD" else answer.body
            await self._send(format_head(answer, close=close) + body)
            return not close
        for step in answer.steps:
            if isinstance(step, Cut):
                self._prepare_close(step)
                return False
            if isinstance(step, Wait):
                await self._wait(step.beats * self._pace)
            else:
                await self._send(step)
            if self._client_is_gone() or self.sent >= self._limits.answer_bytes:
                return False
            await asyncio.sleep(0)  # drain() never waits for a fast reader: let other connections run
        return answer.reuse

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        self.sent += len(data)
        await self._writer.drain()

    async def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._client_is_gone():
            await asyncio.sleep(min(left, _POLL_INTERVAL))

    def _client_is_gone(self) -> bool:
        return self._writer.transport.is_closing() or self._reader.at_eof()

    def _prepare_close(self, how: Cut) -> None:
        """Make the close that follows a reset where one is wanted."""
        if how is Cut.RST:
            connection = self._writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close with a FIN; drop what a client has not read within a second."""
    writer.close()
    deadline = asyncio.get_running_loop().call_later(1, _abort, writer)
    try:
        await writer.wait_closed()
    except OSError:
        pass  # closed anyway
    except asyncio.CancelledError:
        _abort(writer)
        await asyncio.sleep(0)  # the transport closes its socket in the next iteration of the loop
    finally:
        deadline.cancel()


def _abort(writer: asyncio.StreamWriter) -> None:
    # Aborting a transport that has just closed itself raises AttributeError: it no longer has a loop.
    with contextlib.suppress(AttributeError):
        writer.transport.abort()
