"""Clients for these tests: one that shows every byte, and one that understands HTTP."""

from __future__ import annotations

import http.client
import socket
from contextlib import closing
from urllib.parse import urlsplit

from msgspec import Struct

from webmill.testing import TestWeb


class Got(Struct, frozen=True):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def connect(web: TestWeb, url: str) -> socket.socket:
    return socket.create_connection(web.resolve[urlsplit(url).hostname or ""], timeout=30)


def ask(url: str, *fields: str, method: str = "GET") -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {parts.hostname}", *fields, "", ""]).encode()


def read_all(sock: socket.socket, *, limit: int = 1 << 30) -> bytes:
    """Everything up to the FIN or the limit."""
    data = bytearray()
    while len(data) < limit and (piece := sock.recv(1 << 16)):
        data += piece
    return bytes(data)


def raw(web: TestWeb, url: str, *fields: str) -> bytes:
    with connect(web, url) as sock:
        sock.sendall(ask(url, *(fields or ("Connection: close",))))
        return read_all(sock)


def get(web: TestWeb, url: str, *, method: str = "GET", body: bytes | None = None, **headers: str) -> Got:
    parts = urlsplit(url)
    address, port = web.resolve[parts.hostname or ""]
    with closing(http.client.HTTPConnection(address, port, timeout=30)) as connection:
        fields = {"Host": parts.hostname or "", **{name.replace("_", "-"): value for name, value in headers.items()}}
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body=body, headers=fields)
        answer = connection.getresponse()
        return Got(answer.status, answer.headers, answer.read())
