"""What this machine says of names: the servers of /etc/resolv.conf, the names of /etc/hosts, whether it has IPv6."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from msgspec import Struct

from webmill.errors import Misconfigured

PORT = 53
RESOLV_CONF, HOSTS = Path("/etc/resolv.conf"), Path("/etc/hosts")
MAX_SERVERS = 8
_MAX_FILE = 16 << 20  # bytes; some block millions of names in /etc/hosts
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_IPV6_PROBE = ("2606:4700::1", PORT)  # is never sent anything


class ServerAddress(Struct, frozen=True):
    ip: str
    port: int = PORT
    scope: int = 0  # the interface of a link-local address

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.ip else socket.AF_INET

    @property
    def for_socket(self) -> tuple[str, int] | tuple[str, int, int, int]:
        return (self.ip, self.port, 0, self.scope) if ":" in self.ip else (self.ip, self.port)

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class NameServers(Struct, frozen=True):
    """Which servers to ask. `rotates`: they are equals, and take turns; else the first one comes first."""

    servers: tuple[ServerAddress, ...] = ()
    rotates: bool = False


def parse_servers(written: tuple[str, ...]) -> NameServers:
    """Return servers that a person named: `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`."""
    return NameServers(tuple(map(_parse_server, written)), rotates=True)


def _parse_server(written: str) -> ServerAddress:
    ip, port = written.strip(), ""
    if ip.startswith("["):
        ip, _, port = ip[1:].partition("]")
    elif ip.count(":") == 1:
        ip, _, port = ip.partition(":")
    try:
        address = _server(ip, int(port.removeprefix(":") or PORT))
    except (ValueError, OSError):
        raise Misconfigured(
            f"dns_servers: {written!r} is not the address of a name server; "
            "write 9.9.9.9, 127.0.0.1:5353, [2620:fe::fe]:53 or system"
        ) from None
    return address


def _server(ip: str, port: int = PORT) -> ServerAddress:
    ip, _, interface = ip.partition("%")
    ip_address(ip)
    if not 0 < port < 1 << 16:
        raise ValueError(port)
    scope = int(interface) if interface.isdigit() else socket.if_nametoindex(interface) if interface else 0
    return ServerAddress(ip, port, scope)


def read_servers(path: Path = RESOLV_CONF) -> NameServers:
    """Return the servers of a resolv.conf, whose `search` and `ndots` are ignored; none if there is no such file."""
    servers: list[ServerAddress] = []
    rotates = False
    for words in _words_of(path, comments="#;"):
        if words[0] == "nameserver" and len(words) > 1:
            try:
                servers.append(_server(words[1]))
            except (ValueError, OSError):
                continue  # as the system's resolver does
        elif words[0] == "options":
            rotates = rotates or "rotate" in words[1:]
    return NameServers(tuple(dict.fromkeys(servers))[:MAX_SERVERS], rotates)


def read_hosts(path: Path = HOSTS) -> dict[str, tuple[str, ...]]:
    """Return the addresses of the names of a hosts file."""
    found: dict[str, tuple[str, ...]] = {}
    for ip, *names in _words_of(path, comments="#"):
        try:
            ip_address(ip)
        except ValueError:
            continue
        for name in names:
            name = name.lower().removesuffix(".")
            found[name] = (*found.get(name, ()), ip)
    return found


def _words_of(path: Path, *, comments: str) -> Iterator[list[str]]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE).decode("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        for mark in comments:
            line = line.partition(mark)[0]
        if words := line.split():
            yield words


def has_ipv6() -> bool:
    """Tell whether this machine has an IPv6 address of more than its own link: without one, nobody asks for AAAA."""
    try:
        lines = _IPV6_ADDRESSES.read_text().split("\n")
    except OSError:
        return reaches(*_IPV6_PROBE)
    return any(len(words := line.split()) > 3 and words[3] == "00" for line in lines)


def reaches(ip: str, port: int = PORT) -> bool:
    """Tell whether this machine has a route to an address. Nothing is sent."""
    return source_address(ip, port) is not None


def source_address(ip: str, port: int = PORT) -> str | None:
    """Return the address from which this machine would connect to another; None without a route."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((ip, port))
            return str(sock.getsockname()[0])
    except OSError:
        return None


def prefers(ipv6: str) -> bool:
    """Tell whether an IPv6 address is tried before the IPv4 addresses of its name (the rules of RFC 6724 that matter
    here: there is a route, it starts at a global address, and neither end is a tunnel)."""
    if ipv6.startswith(("2002:", "2001:0:", "2001::")):
        return False
    source = source_address(ipv6)
    return source is not None and IPv6Address(source.partition("%")[0]).is_global


def version_of(path: Path) -> tuple[int, ...]:
    """Return what changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
