"""A client of name servers that are silent, slow, lying or truncating (N17, R-F02): what is believed, who is asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from webmill.crawl.dns.client import DnsClient, LookupResult
from webmill.crawl.dns.system_files import NameServers, ServerAddress
from webmill.formats.dns import AAAA, NO_ERROR, REFUSED, SERVER_FAILURE, A
from webmill.testing.name_server import NOT_FOUND, WRONG_ADDRESS, Lie, SimulatedNameServer, Zone, ZoneAnswer

GOOD = ZoneAnswer(addresses=("192.0.2.1", "2001:db8::1"), ttl=300)
PATIENCE = 60.0  # seconds that nothing needs unless it hangs


def test_addresses_of_both_kinds_come_with_their_time_to_live() -> None:
    found, server = look_up(lambda *_: GOOD)
    assert set(found.addresses) == {"192.0.2.1", "2001:db8::1"}
    assert found.ttl == 300
    assert [(asked.kind, asked.over_tcp) for asked in server.asked] == [(A, False), (AAAA, False)]


@pytest.mark.parametrize("lie", ["id", "question", "source", "garbage"])
def test_who_does_not_know_the_question_is_not_believed(lie: Lie) -> None:
    found, _ = look_up(lambda *_: ZoneAnswer(addresses=("192.0.2.1",), lies=(lie,), delay=0.02))
    assert found.addresses == ("192.0.2.1",)


@pytest.mark.parametrize("lie", ["id", "question", "source", "garbage"])
def test_lies_instead_of_an_answer_are_silence(lie: Lie) -> None:
    found, _ = look_up(lambda *_: ZoneAnswer(is_silent=True, lies=(lie,)), seconds=0.5)
    assert found.reason == "dns_timeout"


@pytest.mark.parametrize("lie", ["stranger", "pointer", "short_address"])
def test_a_server_that_says_nonsense_gives_no_address(lie: Lie) -> None:
    found, _ = look_up(lambda *_: ZoneAnswer(is_silent=True, lies=(lie,)))
    assert found.reason in ("dns_failed", "dns_notfound")
    assert WRONG_ADDRESS not in found.addresses


def test_an_answer_in_another_case_is_asked_for_over_tcp() -> None:
    name = "a-name-with-so-many-letters-that-not-all-of-them-are-small.example"
    found, server = look_up(lambda *_: ZoneAnswer(addresses=("192.0.2.1",), lies=("case",)), name=name)
    assert found.addresses == ("192.0.2.1",)
    assert any(asked.over_tcp for asked in server.asked)


def test_a_truncated_answer_is_asked_for_over_one_connection() -> None:
    many = tuple(f"192.0.2.{n}" for n in range(100))

    def zone(name: str, kind: int) -> ZoneAnswer:
        return ZoneAnswer(addresses=many) if name.startswith("many") else ZoneAnswer(addresses=many[:1], is_cut=True)

    async def run(client: DnsClient) -> None:
        found = await asyncio.gather(*(client.look_up(f"{n}.example", seconds=PATIENCE) for n in range(50)))
        assert {each.addresses for each in found} == {many[:1]}
        assert (await client.look_up("many.example", seconds=PATIENCE)).addresses == many

    (server,) = asking(run, zone)
    assert len({asked.port for asked in server.asked if asked.over_tcp}) == 1


@pytest.mark.parametrize(
    ("code", "missing_ttl", "ttl"), [(3, 120, 120.0), (3, None, None), (NO_ERROR, 90, 90.0), (NO_ERROR, None, None)]
)
def test_what_does_not_exist_is_told_with_the_zones_time(code: int, missing_ttl: int | None, ttl: float | None) -> None:
    found, _ = look_up(lambda *_: ZoneAnswer(code=code, missing_ttl=missing_ttl))
    assert (found.reason, found.ttl) == ("dns_notfound", ttl)


@pytest.mark.parametrize("answer", [ZoneAnswer(code=SERVER_FAILURE), ZoneAnswer(aliases=("www.example.org",))])
def test_a_server_that_fails_is_followed_by_the_next(answer: ZoneAnswer) -> None:
    async def run(client: DnsClient) -> None:
        assert (await client.look_up("www.example.org", seconds=PATIENCE)).addresses == ("192.0.2.1",)

    first, second = asking(run, lambda *_: answer, lambda *_: ZoneAnswer(addresses=("192.0.2.1",)))
    assert first.count("www.example.org") == second.count("www.example.org") == 1


def test_when_all_servers_fail_the_name_fails() -> None:
    async def run(client: DnsClient) -> None:
        assert (await client.look_up("a.example", seconds=PATIENCE)).reason == "dns_failed"

    servers = asking(run, lambda *_: ZoneAnswer(code=SERVER_FAILURE), lambda *_: ZoneAnswer(code=SERVER_FAILURE))
    assert [server.count("a.example") for server in servers] == [1, 1]


def test_a_server_that_refuses_for_a_moment_is_asked_again() -> None:
    turns: list[int] = []

    def zone(_: str, kind: int) -> ZoneAnswer:
        turns.append(kind)
        return ZoneAnswer(code=REFUSED) if len(turns) <= 2 else GOOD

    found, _ = look_up(zone)
    assert found.addresses


def test_a_silent_server_is_followed_by_the_next_and_then_comes_last() -> None:
    async def run(client: DnsClient) -> None:
        for n in range(8):
            assert (await client.look_up(f"{n}.example", seconds=1.5)).addresses

    silent, other = asking(run, lambda *_: ZoneAnswer(is_silent=True), lambda *_: GOOD)
    assert silent.count("0.example") == other.count("0.example") == 1
    assert [silent.count(f"{n}.example") for n in range(8)].count(0) >= 1
    assert all(other.count(f"{n}.example") == 1 for n in range(8))


def test_a_late_answer_counts_although_it_was_asked_for_again() -> None:
    found, server = look_up(lambda *_: ZoneAnswer(addresses=("192.0.2.1",), delay=0.9), seconds=2.0)
    assert found.addresses == ("192.0.2.1",)
    assert server.count("www.example.org") > 1


def test_silence_ends_at_the_deadline() -> None:
    found, _ = look_up(lambda *_: ZoneAnswer(is_silent=True), seconds=0.3)
    assert found.reason == "dns_timeout"


def test_nobody_at_the_address_of_the_server_is_a_failure() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

    async def run() -> LookupResult:
        client = DnsClient(NameServers((ServerAddress("127.0.0.1", port),)))
        try:
            return await client.look_up("a.example", seconds=0.5)
        finally:
            client.close()

    assert asyncio.run(run()).reason == "dns_failed"


def test_a_lookup_of_one_kind_does_not_wait_long_for_the_other() -> None:
    def zone(_: str, kind: int) -> ZoneAnswer:
        return ZoneAnswer(is_silent=True) if kind == AAAA else GOOD

    found, server = look_up(zone)
    assert found.addresses == ("192.0.2.1",)
    assert server.count("www.example.org", AAAA) == 1  # it was not waited for with the next try


def test_a_server_without_edns_is_asked_without() -> None:
    async def run(client: DnsClient) -> None:
        for name in ("a.example", "b.example"):
            assert (await client.look_up(name, seconds=PATIENCE)).addresses

    (server,) = asking(run, lambda *_: msgspec.structs.replace(GOOD, knows_edns=False))
    assert server.count("b.example") == 1  # it is remembered


def test_an_alias_whose_target_was_left_out_is_followed_and_not_for_ever() -> None:
    def zone(name: str, _: int) -> ZoneAnswer:
        if name == "www.example.org":
            return ZoneAnswer(aliases=("there.example",))
        return ZoneAnswer(addresses=("192.0.2.1",)) if name == "there.example" else ZoneAnswer(aliases=(f"x.{name}",))

    assert look_up(zone)[0].addresses == ("192.0.2.1",)
    found, server = look_up(zone, name="endless.example")
    assert found.reason == "dns_failed"
    assert len(server.asked) <= 10


def test_questions_are_of_many_ports_and_ports_are_given_back() -> None:
    async def run(client: DnsClient) -> None:
        for _ in range(10):
            found = await asyncio.gather(*(client.look_up(f"{n}.example", seconds=PATIENCE) for n in range(100)))
            assert all(each.addresses for each in found)

    (server,) = asking(run, lambda *_: ZoneAnswer(addresses=("192.0.2.1", "2001:db8::1")))
    assert 5 <= len({asked.port for asked in server.asked}) <= 20


def test_one_that_is_cancelled_leaves_nothing_behind() -> None:
    async def run(client: DnsClient) -> None:
        lookups = [asyncio.create_task(client.look_up(f"{n}.example", seconds=PATIENCE)) for n in range(20)]
        await asyncio.sleep(0.05)
        for lookup in lookups:
            lookup.cancel()
        await asyncio.wait(lookups)
        assert all(lookup.cancelled() for lookup in lookups)

    asking(run, lambda *_: ZoneAnswer(is_silent=True))


def test_not_found_wins_over_the_silence_of_the_other_kind() -> None:
    def zone(_: str, kind: int) -> ZoneAnswer:
        return ZoneAnswer(is_silent=True) if kind == AAAA else NOT_FOUND

    assert look_up(zone)[0].reason == "dns_notfound"


def look_up(
    zone: Zone, *, name: str = "www.example.org", seconds: float = PATIENCE
) -> tuple[LookupResult, SimulatedNameServer]:
    found: list[LookupResult] = []

    async def run(client: DnsClient) -> None:
        found.append(await client.look_up(name, seconds=seconds, wants_ipv6=True))

    (server,) = asking(run, zone)
    return found[0], server


def asking(run: Callable[[DnsClient], Coroutine[Any, Any, None]], *zones: Zone) -> list[SimulatedNameServer]:
    """Run something with a client of servers with these zones."""
    with ExitStack() as stack:
        servers = [stack.enter_context(SimulatedNameServer(zone)) for zone in zones]

        async def main() -> None:
            client = DnsClient(NameServers(tuple(ServerAddress("127.0.0.1", server.port) for server in servers)))
            try:
                await run(client)
            finally:
                client.close()

        asyncio.run(main())
    return servers
