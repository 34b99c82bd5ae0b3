"""The Chrome DevTools Protocol over the pipe of one browser: commands, their answers, and events.

    connection = await CdpConnection.open(read_fd, write_fd)
    answer = await connection.call("Target.createTarget", {"url": "about:blank"}, returns=CreatedTarget)
    connection.listen(answer.session_id, on_event)      # on_event(method, params)

Messages are JSON, each followed by a zero byte (https://chromedevtools.github.io/devtools-protocol/). A browser that
ends, sends what is no message, or more than MOST_BYTES of one, closes the connection: every call then raises
BrowserGone, and so does every later one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeVar

import msgspec

MOST_BYTES = 192 << 20  # of one message
CALL_TIME = 30.0  # seconds

Params = Mapping[str, object]
EventListener = Callable[[str, msgspec.Raw], None]
T = TypeVar("T")


class BrowserGone(Exception):
    """The browser ended, or its pipe did."""


class CdpError(Exception):
    """The browser refused a command: mostly about a tab or a request that is gone."""


class CommandError(msgspec.Struct):
    message: str = ""


class CdpMessage(msgspec.Struct):
    id: int = 0
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")
    session: str = msgspec.field(default="", name="sessionId")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: CommandError | None = None


class NoResult(msgspec.Struct):
    """What nobody reads of an answer."""


class CdpConnection:
    """One user, one event loop. `closed` is done when the browser is gone."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._numbers = count(1)
        self._calls: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._listeners: dict[str, EventListener] = {}
        self._decoder = msgspec.json.Decoder(CdpMessage)
        self._encoder = msgspec.json.Encoder()
        self._transports: list[asyncio.BaseTransport] = []
        self._write: asyncio.WriteTransport | None = None

    @classmethod
    async def open(cls, read_fd: int, write_fd: int) -> CdpConnection:
        """Return a connection over these descriptors, which are its own from now on."""
        connection, loop = cls(), asyncio.get_running_loop()
        reading, _ = await loop.connect_read_pipe(lambda: _PipeReader(connection), os.fdopen(read_fd, "rb", 0))
        writing, _ = await loop.connect_write_pipe(lambda: _PipeWriter(connection), os.fdopen(write_fd, "wb", 0))
        connection._transports, connection._write = [reading, writing], writing
        return connection

    def listen(self, session: str, listener: EventListener) -> None:
        """Call `listener` with the events of a session ("": of the browser). It must not wait."""
        self._listeners[session] = listener

    def forget(self, session: str) -> None:
        self._listeners.pop(session, None)

    async def call(
        self,
        method: str,
        params: Params | None = None,
        *,
        returns: type[T] = NoResult,  # type: ignore[assignment]
        session: str = "",
        timeout: float = CALL_TIME,
    ) -> T:
        """Return what the browser answers. CdpError: it refused; TimeoutError: it says nothing; BrowserGone."""
        number, answer = self._send(method, params, session)
        try:
            async with asyncio.timeout(timeout):
                return msgspec.json.decode(await answer, type=returns)
        except msgspec.MsgspecError as error:
            raise CdpError(f"{method}: {error}") from error
        finally:
            self._calls.pop(number, None)

    def send(self, method: str, params: Params | None = None, *, session: str = "") -> None:
        """Send a command whose answer is of no interest, refusals included."""
        _, answer = self._send(method, params, session)
        answer.add_done_callback(lambda done: done.exception() if not done.cancelled() else None)

    def close(self, why: str = "closed") -> None:
        for transport in self._transports:
            transport.close()
        self.end(why)

    def end(self, why: str) -> None:
        """Fail all calls: nothing more will come."""
        if not self.closed.done():
            self.closed.set_result(why)
        calls, self._calls = self._calls, {}
        for answer in calls.values():
            if not answer.done():
                answer.set_exception(BrowserGone(why))
        self._listeners.clear()

    def _send(self, method: str, params: Params | None, session: str) -> tuple[int, asyncio.Future[msgspec.Raw]]:
        if self.closed.done() or self._write is None:
            raise BrowserGone(self.closed.result() if self.closed.done() else "not open")
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        self._write.write(self._encoder.encode(message) + b"\0")
        return number, answer

    def receive(self, data: bytes | memoryview) -> None:
        """Take one message of the browser."""
        try:
            message = self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            self.close(f"sent what is no message: {error}")
            return
        if not message.id:
            if listener := self._listeners.get(message.session):
                listener(message.method, message.params)
        elif (answer := self._calls.pop(message.id, None)) and not answer.done():
            if message.error:
                answer.set_exception(CdpError(message.error.message))
            else:
                answer.set_result(message.result)


class _PipeReader(asyncio.Protocol):
    """Cuts what the browser sends into messages."""

    def __init__(self, connection: CdpConnection) -> None:
        self._connection, self._pending, self._size = connection, list[bytes](), 0

    def data_received(self, data: bytes) -> None:
        *whole, rest = data.split(b"\0")
        for part in whole:
            message, self._pending, self._size = b"".join((*self._pending, part)), [], 0
            self._connection.receive(message)
        if rest:
            self._pending.append(rest)
            self._size += len(rest)
            if self._size > MOST_BYTES:
                self._connection.close(f"sent a message of more than {MOST_BYTES} bytes")

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.end(f"its pipe broke: {error}" if error else "it ended")


class _PipeWriter(asyncio.BaseProtocol):
    def __init__(self, connection: CdpConnection) -> None:
        self._connection = connection

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.end(f"its pipe broke: {error}" if error else "it ended")
