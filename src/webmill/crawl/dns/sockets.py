"""How questions travel: UDP sockets of changing ports, and one TCP connection for what does not fit."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import cast

from webmill.crawl.dns.query import SentQuestion
from webmill.crawl.dns.system_files import ServerAddress
from webmill.formats.dns import encode_query, reply_number

Receive = Callable[[SentQuestion, bytes], bool]  # whether the message was the reply to the question
Lost = Callable[[SentQuestion, OSError], None]

QUESTIONS_PER_SOCKET = 200  # then the next port: who wants to guess it has little time
_READ_AT_ONCE = 64  # messages, before others have their turn
_LARGEST_UDP = 4096
_RECEIVE_BUFFER = 1 << 20
_TCP_CONNECT, _TCP_SILENCE, _TCP_IDLE = 3.0, 5.0, 10.0  # seconds
_MOST_OVER_TCP = 4096  # questions under way; more are lost, as over UDP
_UNSENT = 1 << 20  # bytes that a server does not take before it counts as silent


class UdpSocket:
    """A socket connected to one server, so that the kernel drops what others send. The kernel chooses its port by
    chance."""

    def __init__(self, address: ServerAddress, *, receive: Receive, lost: Lost) -> None:
        self._receive, self._lost = receive, lost
        self._pending: dict[int, SentQuestion] = {}
        self._loop, self._is_retired, self.sent = asyncio.get_running_loop(), False, 0
        self._socket = socket.socket(address.family, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            self._socket.connect(address.for_socket)
        except OSError:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._read)

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def is_done(self) -> bool:
        return not self._pending

    def ask(self, sent: SentQuestion) -> None:
        """Send a question. OSError when nobody answers at that address."""
        number = _unused_number(self._pending)
        self._pending[number] = sent
        sent.query.note_sent(self._pending, number)
        self.sent += 1
        try:
            self._socket.send(encode_query(number, sent.question, is_extended=sent.is_extended))
        except BlockingIOError:
            pass  # lost on its way like others
        except OSError:
            del self._pending[number]
            raise

    def close(self) -> None:
        if self.is_open:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _read(self) -> None:
        for _ in range(_READ_AT_ONCE):
            try:
                message = self._socket.recv(_LARGEST_UDP)
            except BlockingIOError:
                return
            except OSError as error:  # the server's machine says that nobody listens there
                self.fail_all(error)
                return
            number = reply_number(message)
            sent = self._pending.get(number)
            if sent is not None and self._receive(sent, message):
                self._pending.pop(number, None)

    def fail_all(self, error: OSError) -> None:
        """Close the socket: nothing that was asked through it will be answered."""
        self.close()
        pending = list(self._pending.values())
        self._pending.clear()
        for sent in pending:
            self._lost(sent, error)


class TcpStream(asyncio.Protocol):
    """Questions to one server over one connection, any number at a time (RFC 7766). Connects when first asked, and
    again when the server has closed it."""

    def __init__(self, address: ServerAddress, *, receive: Receive, lost: Lost) -> None:
        self._address, self._receive, self._lost = address, receive, lost
        self._pending: dict[int, SentQuestion] = {}
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._unsent = b""
        self._buffer = bytearray()
        self._idle: asyncio.TimerHandle | None = None
        self._heard = 0.0

    def ask(self, sent: SentQuestion) -> None:
        loop = asyncio.get_running_loop()
        if len(self._pending) >= _MOST_OVER_TCP:
            return
        if self._transport and self._pending and loop.time() - self._heard > _TCP_SILENCE:
            self._transport.abort()  # it may be dead; those who wait ask again
            self._transport = None
        number = _unused_number(self._pending)
        self._pending[number] = sent
        sent.query.note_sent(self._pending, number)
        message = encode_query(number, sent.question, is_extended=False)
        self._send(len(message).to_bytes(2, "big") + message)

    def close(self) -> None:
        if self._idle:
            self._idle.cancel()
        if self._connecting:
            self._connecting.cancel()
        if self._transport:
            self._transport.abort()

    def _send(self, framed: bytes) -> None:
        if self._transport:
            if self._transport.get_write_buffer_size() < _UNSENT:
                self._transport.write(framed)
            return
        self._unsent += framed
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        address, loop = self._address, asyncio.get_running_loop()
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                async with asyncio.timeout(_TCP_CONNECT):
                    await loop.sock_connect(sock, address.for_socket)
                    await loop.create_connection(lambda: self, sock=sock)
            except BaseException:  # also when cancelled
                sock.close()
                raise
        except OSError as error:  # a TimeoutError is one
            self._fail_all(error)
        finally:
            self._connecting = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._heard = cast("asyncio.Transport", transport), asyncio.get_running_loop().time()
        self._buffer.clear()
        unsent, self._unsent = self._unsent, b""
        self._transport.write(unsent)
        self._end_when_idle()

    def data_received(self, data: bytes) -> None:
        self._heard = asyncio.get_running_loop().time()
        self._buffer += data
        at = 0
        while len(self._buffer) >= at + 2:
            end = at + 2 + int.from_bytes(self._buffer[at : at + 2], "big")
            if len(self._buffer) < end:
                break
            self._take(bytes(self._buffer[at + 2 : end]))
            at = end
        del self._buffer[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None or self._transport.is_closing():
            self._transport = None
            if not self._connecting:
                self._fail_all(exc if isinstance(exc, OSError) else ConnectionResetError("connection closed"))

    def _take(self, message: bytes) -> None:
        number = reply_number(message)
        sent = self._pending.get(number)
        if sent is not None and self._receive(sent, message):
            self._pending.pop(number, None)

    def _end_when_idle(self) -> None:
        loop = asyncio.get_running_loop()
        if self._transport and not self._pending and loop.time() - self._heard > _TCP_IDLE:
            self._transport.abort()
        elif self._transport:
            self._idle = loop.call_later(_TCP_IDLE, self._end_when_idle)

    def _fail_all(self, error: OSError) -> None:
        self._unsent = b""
        pending = list(self._pending.values())
        self._pending.clear()
        for sent in pending:
            self._lost(sent, error)


def _unused_number(pending: dict[int, SentQuestion]) -> int:
    while (number := int.from_bytes(os.urandom(2), "big")) in pending:
        pass
    return number
