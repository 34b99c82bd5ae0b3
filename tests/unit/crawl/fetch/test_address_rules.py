"""Which addresses are public (fault list N01, N06; the addresses that `ipaddress` gets wrong: F11)."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.crawl.fetch.fetching import Listener, failed, fetching, wait_for_end
from webmill.crawl.fetch import AddressRules, FetchRequest, SocketAddress
from webmill.infra.public_addresses import is_public

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255",
    "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:7f00:1",
    "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "100::1", "2001::1",
    "2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1",
    "2002:a9fe:a9fe::", "3fff::1", "5f00::1", "fc00::1", "fd00::1", "fd00:ec2::254", "fe80::1", "fec0::1",
    "ff02::1", "ff0e::1", "2a00:1450:4001::5efe:127.0.0.1", "2a00:1450:4001:0:200:5efe:10.0.0.1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.1", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1",
    "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700:4700::1111",
    "2a00:1450:4001:82a::200e", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2002:808:808::1",
    "64:ff9b::808:808", "::ffff:8.8.8.8",
]  # fmt: skip
NONSENSE = [
    "",
    "localhost",
    "127.1",
    "0177.0.0.1",
    "2130706433",
    "127.0.0.1 ",
    "[::1]",
    "::1%lo",
    "fe80::1%eth0",
    "①.1.1.1",
]


@pytest.mark.parametrize("ip", PRIVATE)
def test_an_address_that_is_not_of_the_public_internet_is_not_public(ip: str) -> None:
    assert is_public(ip) is False


@pytest.mark.parametrize("ip", PUBLIC)
def test_an_address_of_the_public_internet_is_public(ip: str) -> None:
    assert is_public(ip) is True


@pytest.mark.parametrize("ip", NONSENSE)
def test_what_is_no_plain_address_is_never_connected(ip: str) -> None:
    assert is_public(ip) is None
    outcome = asyncio.run(_fetch_at(SocketAddress(ip, 80), AddressRules(allow_private=True)))
    assert (outcome.reason, outcome.sent) == ("blocked_address", False)


@given(st.ip_addresses(v=4))
@settings(deadline=None)
def test_no_wrapping_makes_a_private_address_public(address: IPv4Address) -> None:
    public = is_public(str(address))
    number = int(address)
    mapped, nat64 = 0xFFFF << 32 | number, 0x64_FF9B << 96 | number
    sixtofour, isatap = 0x2002 << 112 | number << 80 | 1, 0x2A00_1450 << 96 | 0x5EFE << 32 | number
    assert {is_public(str(IPv6Address(each))) for each in (mapped, nat64, sixtofour, isatap)} == {public}
    assert is_public(str(IPv6Address(number))) is False  # IPv4-compatible addresses are nobody's


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1"])
def test_a_private_address_is_refused_before_anything_is_connected(ip: str) -> None:
    with Listener(lambda connection, _: wait_for_end(connection) or None, ip=ip) as listener:
        rules = AddressRules(ports=frozenset({listener.port}))
        outcome = asyncio.run(_fetch_at(SocketAddress(ip, listener.port), rules))
        assert (outcome.reason, outcome.sent, outcome.ip) == ("blocked_address", False, ip)
        assert listener.accepted == 0
        assert (
            asyncio.run(_fetch_at(SocketAddress(ip, 1), AddressRules(allow_private=True))).reason == "connect_refused"
        )


@pytest.mark.parametrize("port", [0, 1, 22, 25, 6379, 8080, 65535])
def test_a_port_that_is_not_of_the_web_is_refused(port: int) -> None:
    outcome = asyncio.run(_fetch_at(SocketAddress("8.8.8.8", port), AddressRules()))
    assert (outcome.reason, outcome.sent) == ("blocked_port", False)


def test_a_port_of_the_url_is_refused_when_it_is_located() -> None:
    async def run() -> None:
        async with fetching(address_rules=AddressRules()) as fetcher:
            for port, reason in (("", None), (":443", None), (":22", "blocked_port"), (":6379", "blocked_port")):
                found = await fetcher.locate(f"http://8.8.8.8{port}/")
                assert getattr(found, "reason", None) == reason
        async with fetching(address_rules=AddressRules(ports=frozenset({80, 8080}))) as fetcher:
            assert await fetcher.locate("http://8.8.8.8:8080/") == SocketAddress("8.8.8.8", 8080)

    asyncio.run(run())


async def _fetch_at(address: SocketAddress, rules: AddressRules):  # type: ignore[no-untyped-def]
    async with fetching(address_rules=rules) as fetcher:
        return failed(await fetcher.fetch(FetchRequest(url="http://www.mill.example/"), address))
