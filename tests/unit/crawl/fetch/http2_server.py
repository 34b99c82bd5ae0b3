"""A server of HTTP/2 where every frame is the test's: `Http2Peer` reads and writes them over TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

import hpack

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, HAS_PRIORITY = 0x4, 0x8, 0x20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, *, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def block(*fields: tuple[str, str]) -> bytes:
    """A header block that is in no table, so that it means the same on every connection."""
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields)


def head(stream: int, *fields: tuple[str, str], status: str = "200", flags: int = END_HEADERS) -> bytes:
    return frame(HEADERS, flags=flags, stream=stream, payload=block((":status", status), *fields))


def body(stream: int, data: bytes, *, flags: int = END_STREAM) -> bytes:
    return frame(DATA, flags=flags, stream=stream, payload=data)


def answer(stream: int, data: bytes = b"hello") -> bytes:
    return head(stream, ("content-type", "text/plain"), ("content-length", str(len(data)))) + body(stream, data)


class Http2Peer:
    """One connection. `requests` are those that came, as fields; `frames` all frames of the client but HEADERS."""

    def __init__(self, secure: ssl.SSLSocket) -> None:
        self._socket, self._decoder, self._data = secure, hpack.Decoder(), b""
        self.frames: list[tuple[int, int, int, bytes]] = []
        assert self._take(len(PREFACE)) == PREFACE

    def send(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(frames))

    def read_frame(self) -> tuple[int, int, int, bytes]:
        start = self._take(9)
        payload = self._take(int.from_bytes(start[:3], "big"))
        return start[3], start[4], int.from_bytes(start[5:], "big"), payload

    def read_request(self) -> tuple[int, list[tuple[str, str]]]:
        """The stream and the fields of the next request."""
        while True:
            kind, flags, stream, payload = self.read_frame()
            if kind != HEADERS:
                self.frames.append((kind, flags, stream, payload))
                continue
            while not flags & END_HEADERS:
                kind, flags, _, more = self.read_frame()
                assert kind == CONTINUATION
                payload += more
            return stream, [(str(name), str(value)) for name, value in self._decoder.decode(payload)]

    def wait_for_end(self) -> None:
        while self._socket.recv(65536):
            pass

    def _take(self, size: int) -> bytes:
        while len(self._data) < size:
            more = self._socket.recv(65536)
            if not more:
                raise ConnectionResetError
            self._data += more
        taken, self._data = self._data[:size], self._data[size:]
        return taken


class Http2Listener:
    """To be served by a `Listener`: HTTP/2 by `serve`, HTTP/1.1 by `serve_http1`, as the client chose."""

    def __init__(
        self,
        certificate: Path,
        serve: Callable[[Http2Peer], None],
        *,
        serve_http1: Callable[[ssl.SSLSocket], None] | None = None,
        protocols: Iterable[str] = ("h2", "http/1.1"),
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.set_alpn_protocols(list(protocols))
        self._serve, self._serve_http1 = serve, serve_http1
        self.chosen: list[str | None] = []

    def __call__(self, connection: socket.socket, _: int) -> None:
        with self.context.wrap_socket(connection, server_side=True) as secure:
            self.chosen.append(secure.selected_alpn_protocol())
            if self.chosen[-1] == "h2":
                self._serve(Http2Peer(secure))
            elif self._serve_http1 is not None:
                self._serve_http1(secure)
