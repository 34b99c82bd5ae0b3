"""Which addresses are of the public Internet.

The decision is about the address that goes into connect(), never about a name. The table is our own, because what
`ipaddress.is_global` answers depends on the version of Python and was wrong for multicast, 192.0.0.192, NAT64 and 6to4
(IANA's special-purpose registries, RFC 6890, are the source). An IPv6 address that carries an IPv4 address is judged by
both. Of IPv6 only the global unicast range 2000::/3 is open at all.

A network may translate IPv6 to IPv4 under a prefix of its own in that range. What the name `ipv4only.arpa` resolves to
tells which (RFC 7050), and where the IPv4 address stands in it (RFC 6052).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_DENIED_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # "this" network; Linux connects 0.0.0.0 to loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier NAT; also metadata of Alibaba Cloud
        "127.0.0.0/8",
        "168.63.129.16/32",  # a public number, but inside Azure its host agent
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; metadata of Oracle Cloud
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_6TO4 = IPv6Network("2002::/16")
_NAT64 = IPv6Network("64:ff9b::/96")
_DENIED_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID; no web server lives there
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
NAT64_NAME = "ipv4only.arpa"
_NAT64_KNOWN = (bytes((192, 0, 0, 170)), bytes((192, 0, 0, 171)))  # its IPv4 addresses
_NAT64_LENGTHS = (32, 40, 48, 56, 64, 96)  # bits of a prefix
_ISATAP = (0x00005EFE, 0x02005EFE)


@lru_cache(maxsize=16_384)
def is_public(ip: str) -> bool | None:
    """Tell whether an address is public. None: it is no address at all, or has a zone (`fe80::1%eth0`)."""
    try:
        address = ip_address(ip)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return _is_public_v4(address)
    if address.scope_id is not None:
        return None
    if address.ipv4_mapped is not None:
        return _is_public_v4(address.ipv4_mapped)
    if address not in _GLOBAL_V6 and address not in _NAT64:
        return False
    return not any(address in network for network in _DENIED_V6) and all(map(_is_public_v4, _embedded_ipv4(address)))


@lru_cache(maxsize=16)
def nat64_prefixes(addresses: tuple[str, ...]) -> tuple[IPv6Network, ...]:
    """Return the prefixes under which the addresses of `ipv4only.arpa` are translated; none without a translator."""
    translated = [IPv6Address(address) for address in addresses if ":" in address]
    behind = ((one, IPv6Network((one, length), strict=False)) for one in translated for length in _NAT64_LENGTHS)
    return tuple({network: None for one, network in behind if _translated_ipv4(one, network) in _NAT64_KNOWN})


def _translated_ipv4(address: IPv4Address | IPv6Address, network: IPv6Network) -> bytes:
    """Return the IPv4 address behind a prefix; its bytes leave out the ninth one (RFC 6052, 2.2)."""
    at = network.prefixlen // 8
    packed = address.packed
    return packed[at:][:4] if at == 12 else (packed[at:8] + packed[9:])[:4]


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in network for network in _DENIED_V4)


def _embedded_ipv4(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that a tunnel or a translator would send this on to."""
    number = int(address)
    if address in _NAT64 or number >> 32 & 0xFFFF_FFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFF_FFFF)
    if address in _6TO4:
        yield IPv4Address(number >> 80 & 0xFFFF_FFFF)


def leads_to_private(ip: str, nat64: Sequence[IPv6Network]) -> bool:
    """Return whether a translator of this network sends the address on to one that is not public."""
    address = ip_address(ip)
    return any(address in one and not _is_public_v4(IPv4Address(_translated_ipv4(address, one))) for one in nat64)
