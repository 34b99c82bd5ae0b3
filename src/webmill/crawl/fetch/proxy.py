"""Proxies: a tunnel through one to an address that was vetted here.

The proxy is never told a name, so that it cannot connect to another address than the one that the rules allow, and
what comes out of the tunnel is what the server sent. That is why http:// takes a tunnel (CONNECT) as well: a proxy
that asks itself finds the address itself, and changes what it hands on.
"""

from __future__ import annotations

import asyncio
import re
import socket
from base64 import b64encode
from ipaddress import ip_address
from typing import Literal, cast
from urllib.parse import unquote

from msgspec import Struct

from webmill.crawl.fetch.types import FetchError, SocketAddress
from webmill.errors import Misconfigured
from webmill.masking import ESCAPE

MAX_HEAD = 16 * 1024  # bytes of a proxy's answer to CONNECT
MAX_CREDENTIAL = 255  # bytes, by RFC 1929
_FORM = re.compile(
    r"(http|socks5)://(?:([^:@/]*)(?::([^@/]*))?@)?(\[[0-9a-f:.]+\]|[a-z0-9._-]+):([0-9]{1,5})/?", re.IGNORECASE
)
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_NOT_REACHED = (502, 503, 504)  # statuses of a proxy that could not connect
# Replies of RFC 1928, section 6, that speak of the server; all others speak of the proxy.
_SOCKS_REPLIES = {
    1: ("connect_failed", "general failure"),
    3: ("connect_failed", "network unreachable"),
    4: ("connect_failed", "host unreachable"),
    5: ("connect_refused", "connection refused"),
    6: ("connect_failed", "TTL expired"),
}
_ADDRESS_SIZES = {1: 4, 4: 16}


class ProxyServer(Struct, frozen=True):
    """Where a proxy is, and what it wants to hear. Never printed: it may have a password."""

    kind: Literal["http", "socks5"]
    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"ProxyServer({self.kind}://{self.host}:{self.port})"


def parse_proxy(address: str) -> ProxyServer | None:
    """Return the proxy of an address, None for none. Misconfigured tells the forms, and shows nothing of it: a
    password may be anywhere in it."""
    if not address:
        return None
    found = _FORM.fullmatch(address)
    if found is None or not 0 < int(found[5]) < 1 << 16:
        raise Misconfigured(
            "this is no address of a proxy: write http://HOST:PORT or socks5://HOST:PORT (names are always resolved "
            f"here, so that addresses can be vetted); with a password {ESCAPE}"
        )
    user, password = unquote(found[2] or ""), unquote(found[3] or "")
    if max(len(user.encode()), len(password.encode())) > MAX_CREDENTIAL:
        raise Misconfigured(f"user and password of a proxy may have {MAX_CREDENTIAL} bytes each")
    kind = cast("Literal['http', 'socks5']", found[1].lower())
    return ProxyServer(kind, found[4].lower().strip("[]"), int(found[5]), user, password)


async def open_tunnel(sock: socket.socket, proxy: ProxyServer, address: SocketAddress) -> None:
    """Have a proxy connect to an address. FetchError: `proxy_failed`, or `connect_*` where it could not."""
    try:
        if proxy.kind == "http":
            await _connect_by_http(sock, proxy, address)
        else:
            await _connect_by_socks(sock, proxy, address)
    except OSError as error:
        raise FetchError("proxy_failed", f"the proxy ended the connection: {error.strerror or error}") from error


# --- CONNECT (RFC 9110, section 9.3.6) ---


async def _connect_by_http(sock: socket.socket, proxy: ProxyServer, address: SocketAddress) -> None:
    where = f"[{address.ip}]:{address.port}" if ":" in address.ip else f"{address.ip}:{address.port}"
    lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
    if proxy.user or proxy.password:
        lines.append(f"Proxy-Authorization: Basic {b64encode(f'{proxy.user}:{proxy.password}'.encode()).decode()}")
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, ("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    head = b""
    while b"\r\n\r\n" not in head:
        more = await loop.sock_recv(sock, 4096)
        head += more
        if not more or len(head) > MAX_HEAD:
            raise FetchError("proxy_failed", "the proxy gave no whole answer to CONNECT")
    status = _STATUS.match(head)
    if status is None or (status[1].startswith(b"2") and not head.endswith(b"\r\n\r\n")):
        raise FetchError("proxy_failed", "the proxy does not speak HTTP")  # or speaks before it is spoken to
    _check_status(int(status[1]), where)


def _check_status(status: int, where: str) -> None:
    if 200 <= status < 300:
        return
    if status in _NOT_REACHED:
        raise FetchError("connect_failed", f"{where}: the proxy could not connect (status {status})")
    hint = ": it wants another user and password" if status == 407 else ""
    raise FetchError("proxy_failed", f"the proxy refused CONNECT to {where} with status {status}{hint}")


# --- SOCKS 5 (RFC 1928, RFC 1929) ---


async def _connect_by_socks(sock: socket.socket, proxy: ProxyServer, address: SocketAddress) -> None:
    loop, has_user = asyncio.get_running_loop(), bool(proxy.user or proxy.password)
    await loop.sock_sendall(sock, b"\5\2\0\2" if has_user else b"\5\1\0")
    version, method = await _receive(sock, 2)
    if version != 5 or method not in ((0, 2) if has_user else (0,)):
        raise FetchError(
            "proxy_failed", "the proxy wants a user and a password" if version == 5 else "the proxy speaks no SOCKS 5"
        )
    if method == 2:
        user, password = proxy.user.encode(), proxy.password.encode()
        await loop.sock_sendall(sock, b"\1%c%b%c%b" % (len(user), user, len(password), password))
        if (await _receive(sock, 2))[1]:
            raise FetchError("proxy_failed", "the proxy refused user and password")
    ip = ip_address(address.ip)
    await loop.sock_sendall(
        sock, b"\5\1\0%c%b%b" % (1 if ip.version == 4 else 4, ip.packed, address.port.to_bytes(2, "big"))
    )
    await _read_socks_reply(sock, address)


async def _read_socks_reply(sock: socket.socket, address: SocketAddress) -> None:
    version, reply, _, kind = await _receive(sock, 4)
    if version != 5 or (reply and reply not in _SOCKS_REPLIES):
        raise FetchError("proxy_failed", f"the proxy refused to connect (reply {reply})")
    if reply:
        reason, message = _SOCKS_REPLIES[reply]
        raise FetchError(reason, f"{address.ip} port {address.port}: the proxy says: {message}")
    size = (await _receive(sock, 1))[0] if kind == 3 else _ADDRESS_SIZES.get(kind)
    if size is None:
        raise FetchError("proxy_failed", "the proxy speaks no SOCKS 5")
    await _receive(sock, size + 2)  # the address that it connects from


async def _receive(sock: socket.socket, size: int) -> bytes:
    """Return exactly so many bytes: what follows belongs to the server."""
    data = b""
    while len(data) < size:
        more = await asyncio.get_running_loop().sock_recv(sock, size - len(data))
        if not more:
            raise FetchError("proxy_failed", "the proxy ended the connection")
        data += more
    return data
