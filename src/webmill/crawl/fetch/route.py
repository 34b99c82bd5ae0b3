"""How connections leave this machine: through which proxy, and from which of its addresses."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Self
from zlib import crc32

from msgspec import Struct

from webmill.crawl.fetch.proxy import ProxyServer, parse_proxy
from webmill.crawl.fetch.types import FetchError
from webmill.errors import Misconfigured

# Linux: the port is chosen when it is known where to, so that many connections can have the same.
_NO_PORT_YET = 24 if sys.platform == "linux" else None  # IP_BIND_ADDRESS_NO_PORT, which Python names from 3.12 on


class NetworkRoute(Struct, frozen=True):
    proxy: ProxyServer | None = None
    source_addresses: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, proxy: str, source_addresses: Sequence[str]) -> Self:
        """Return the route of two settings. Misconfigured: no proxy, no address, or none of this machine."""
        return cls(parse_proxy(proxy), tuple(map(check_source_address, source_addresses)))

    def bind(self, sock: socket.socket, host: str) -> None:
        """Bind a socket to the source address of a host, which is always the same. FetchError: there is none."""
        if not self.source_addresses:
            return
        is_v6 = sock.family == socket.AF_INET6
        fitting = [ip for ip in self.source_addresses if (":" in ip) == is_v6]
        if not fitting:
            raise FetchError("connect_failed", f"no source address for IPv{6 if is_v6 else 4}")
        ip = fitting[crc32(host.encode()) % len(fitting)]
        try:
            if _NO_PORT_YET is not None:
                sock.setsockopt(socket.IPPROTO_IP, _NO_PORT_YET, 1)
            sock.bind((ip, 0))
        except OSError as error:
            raise FetchError("source_address", f"cannot send from {ip}: {error.strerror or error}") from error


def check_source_address(written: str) -> str:
    """Return an address of this machine as it is normally written."""
    try:
        ip = ip_address(written)
    except ValueError:
        raise Misconfigured(f"{written!r} is not an IP address: --source-address takes those of this machine") from None
    family = socket.AF_INET6 if ip.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind((str(ip), 0))
    except OSError as error:
        raise Misconfigured(
            f"cannot send from {ip} ({error.strerror}): --source-address takes addresses that this machine has"
        ) from error
    return str(ip)
