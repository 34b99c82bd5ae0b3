"""Two proxies for the tests of the fetcher: SOCKS 5 (RFC 1928, 1929) and CONNECT, with and without a password."""

from __future__ import annotations

import socket
import threading
from base64 import b64decode
from contextlib import suppress
from ipaddress import ip_address

from tests.unit.crawl.fetch.fetching import read_request


class Proxy:
    """Serves a `Listener`. `asked` has where it was to connect, `credentials` what it was told."""

    def __init__(self, *, password: str = "") -> None:
        self.asked: list[str] = []
        self.credentials: list[str] = []
        self.broken = b""  # sent instead of any answer
        self._password = password

    def connect(self, client: socket.socket, host: str, port: int) -> socket.socket | None:
        self.asked.append(f"{host} {port}")
        try:
            return socket.create_connection((host, port), timeout=30)
        except OSError:
            return None

    def allows(self, credentials: str) -> bool:
        self.credentials.append(credentials)
        return credentials == self._password


class HttpProxy(Proxy):
    def __call__(self, client: socket.socket, _: int) -> None:
        head = read_request(client).decode()
        if self.broken:
            client.sendall(self.broken)
            return
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        if not self.allows(b64decode(fields.get("Proxy-Authorization", "Basic ").split(" ")[1]).decode()):
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        method, where, _version = head.split("\r\n")[0].split(" ")
        assert method == "CONNECT"
        host, _colon, port = where.rpartition(":")
        server = self.connect(client, host.strip("[]"), int(port))
        if server is None:
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        relay(client, server)


class SocksProxy(Proxy):
    def __call__(self, client: socket.socket, _: int) -> None:
        _version, count = exactly(client, 2)
        methods = exactly(client, count)
        if self.broken:
            client.sendall(self.broken)
            return
        wanted = 2 if self._password else 0
        if wanted not in methods:
            client.sendall(b"\5\xff")
            return
        client.sendall(bytes((5, wanted)))
        if wanted and not self._authenticate(client):
            return
        _version, command, _, kind = exactly(client, 4)
        assert (command, kind in (1, 4)) == (1, True), "never a name"
        ip = ip_address(exactly(client, 4 if kind == 1 else 16))
        server = self.connect(client, str(ip), int.from_bytes(exactly(client, 2), "big"))
        client.sendall(b"\5%c\0\3\4host\1\2" % (0 if server else 5))
        if server:
            relay(client, server)

    def _authenticate(self, client: socket.socket) -> bool:
        user = exactly(client, exactly(client, 2)[1]).decode()
        allowed = self.allows(f"{user}:{exactly(client, exactly(client, 1)[0]).decode()}")
        client.sendall(b"\1\0" if allowed else b"\1\1")
        return allowed


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError
        data += more
    return data


def relay(client: socket.socket, server: socket.socket) -> None:
    """Both ways, until both ends have ended."""
    back = threading.Thread(target=copy, args=(server, client))
    back.start()
    copy(client, server)
    back.join()
    server.close()


def copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
