"""Which addresses a crawl may connect to: those of the public Internet, on the ports of the web."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Network

from msgspec import Struct

from webmill.crawl.fetch.types import FetchError, SocketAddress
from webmill.infra.public_addresses import is_public, leads_to_private

WEB_PORTS = frozenset({80, 443})


class AddressRules(Struct, frozen=True, kw_only=True):
    """`allow_private` opens every address and every port: for tests, demonstrations and crawls of an intranet."""

    allow_private: bool = False
    ports: frozenset[int] = WEB_PORTS

    def check_translated(self, address: SocketAddress, nat64: Sequence[IPv6Network]) -> None:
        """Raise `FetchError` for an address that a translator sends on to one that may not be connected to."""
        if not self.allow_private and leads_to_private(address.ip, nat64):
            raise FetchError("blocked_address", f"{address.ip[:60]} leads to an address of the local network")

    def check(self, address: SocketAddress) -> None:
        """Raise `FetchError` (`blocked_address`, `blocked_port`) for an address that may not be connected to."""
        if not self.allow_private and address.port not in self.ports:
            raise FetchError("blocked_port", f"port {address.port} is not one of {sorted(self.ports)}")
        public = is_public(address.ip)
        if public is None or not (public or self.allow_private):
            raise FetchError("blocked_address", f"{address.ip[:60]} is not an address of the public Internet")
