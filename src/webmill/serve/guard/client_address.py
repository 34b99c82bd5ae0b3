"""Which client a request counts for: an IPv4 address, or the /64 network that one IPv6 customer has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import Scope

CLIENT_KEY = "webmill.client"  # scope key of the client, set by RequestGuard


@lru_cache(maxsize=4096)
def client_network(address: str) -> str:
    """Return what counts as one client: an IPv4 address, an IPv6 /64, or the text as it is."""
    found = parse_ip(address)
    if isinstance(found, IPv6Address):
        return str(ip_network((int(found) >> 64 << 64, 64)).network_address)
    return str(found) if found else address


def client_of(scope: Scope) -> str:
    """Return what counts as the client of this request; without RequestGuard, the peer of the connection."""
    return scope.get(CLIENT_KEY) or client_network(scope["client"][0] if scope.get("client") else "")


def parse_ip(address: str) -> IPv4Address | IPv6Address | None:
    """Return the address, or None if it is not one. IPv4 mapped into IPv6, as dual-stack sockets report it, is IPv4."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def is_loopback(address: str) -> bool:
    found = parse_ip(address)
    return address == "localhost" or (found is not None and found.is_loopback)


def is_network(text: str) -> bool:
    """Return whether `text` is an address or a network such as 10.0.0.0/8."""
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True


class TrustedProxies:
    """Proxies whose X-Forwarded-For is believed."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ip_network(one, strict=False) for one in networks]

    def __contains__(self, address: str) -> bool:
        found = parse_ip(address) if self._networks else None
        return found is not None and any(found in network for network in self._networks)

    def client(self, address: str, forwarded: str) -> str:
        """Return the client: the rightmost address of X-Forwarded-For that is not a trusted proxy."""
        if address not in self:
            return address
        for hop in reversed(forwarded.split(",")[-16:]):
            if parse_ip(hop.strip()) is None:
                break
            address = hop.strip()
            if address not in self:
                break
        return address
