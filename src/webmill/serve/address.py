"""Whose request this is: an address, or for IPv6 the network that one customer has."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """What is counted as one client: an IPv4 address, a /64 of IPv6, or the text as it is."""
    found = _parsed(address)
    if isinstance(found, IPv6Address):
        return str(ip_network((int(found) >> 64 << 64, 64)).network_address)
    return str(found) if found else address


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def is_loopback(address: str) -> bool:
    found = _parsed(address)
    return address == "localhost" or (found is not None and found.is_loopback)


def is_network(text: str) -> bool:
    """An address, or many: 10.0.0.0/8."""
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return True
