"""The cache and the turns of lookups before name servers: how long answers count, and who waits for whom (R-F02)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from webmill.crawl.dns.client import LookupResult
from webmill.crawl.fetch import DnsLimits, DnsResolver
from webmill.crawl.fetch.name_lookup import ServerLookup
from webmill.crawl.fetch.resolver import LookupTurns
from webmill.crawl.fetch.types import FetchError
from webmill.formats.dns import SERVER_FAILURE, A
from webmill.testing.name_server import NOT_FOUND, SimulatedNameServer, Zone, ZoneAnswer

PATIENCE = 60.0  # seconds that nothing needs unless it hangs
SILENCE = ZoneAnswer(is_silent=True)


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (ZoneAnswer(addresses=("192.0.2.1",), ttl=600), 600),
        (ZoneAnswer(addresses=("192.0.2.1",), ttl=0), 60),
        (ZoneAnswer(addresses=("192.0.2.1",), ttl=86400 * 365), 3600),
        (ZoneAnswer(code=3, missing_ttl=200), 200),
        (ZoneAnswer(code=3, missing_ttl=0), 30),
        (ZoneAnswer(code=3, missing_ttl=86400), 900),
        (ZoneAnswer(code=3), 30),
        (ZoneAnswer(code=SERVER_FAILURE), 30),
    ],
)
def test_an_answer_counts_as_long_as_its_zone_says_within_bounds(answer: ZoneAnswer, kept: float) -> None:
    now = [0.0]

    async def run(resolver: DnsResolver, server: SimulatedNameServer) -> None:
        for moment, asked in ((0.0, 1), (kept - 1, 1), (kept, 2)):
            now[0] = moment
            await said(resolver, "a.example")
            assert server.count("a.example") == asked, moment

    resolving(run, lambda *_: answer, clock=lambda: now[0])


def test_slow_names_keep_no_others_waiting() -> None:
    """Two turns, twenty names that nobody answers for: the others are known before one of these is given up."""

    async def run(resolver: DnsResolver, _: SimulatedNameServer) -> None:
        dead = [asyncio.create_task(said(resolver, f"www.dead{n}.example")) for n in range(20)]
        await asyncio.sleep(0)
        live = await asyncio.gather(*(said(resolver, f"www.live{n}.example") for n in range(20)))
        assert set(live) == {"192.0.2.1"}
        assert not any(lookup.done() for lookup in dead)
        for lookup in dead:
            lookup.cancel()

    limits = DnsLimits(lookups=2, slow=0.02, deadline=PATIENCE)
    resolving(run, lambda name, _: ZoneAnswer(addresses=("192.0.2.1",)) if "live" in name else SILENCE, limits=limits)


def test_a_lookup_that_waits_for_its_turn_has_all_its_time() -> None:
    """One turn, and nobody gives way: the last of five waits for longer than a lookup may take, and is answered."""

    async def run(resolver: DnsResolver, _: SimulatedNameServer) -> None:
        found = await asyncio.gather(*(said(resolver, f"www.{n}-{'dead' * (n < 4)}.example") for n in range(5)))
        assert found == ["dns_timeout"] * 4 + ["192.0.2.1"]

    limits = DnsLimits(lookups=1, slow=PATIENCE, deadline=1.0)
    resolving(run, lambda name, _: SILENCE if "dead" in name else ZoneAnswer(addresses=("192.0.2.1",)), limits=limits)


def test_names_of_one_domain_have_few_lookups_at_a_time() -> None:
    at_once, most = [0], [0]

    async def look_up() -> LookupResult:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        await asyncio.sleep(0.01)
        at_once[0] -= 1
        return LookupResult()

    async def run() -> None:
        turns = LookupTurns(DnsLimits(lookups_per_domain=3))
        await asyncio.gather(*(turns.run("slow.example", look_up) for _ in range(30)))
        assert most == [3]
        assert not turns._domains

    asyncio.run(run())


def test_there_is_an_end_to_slow_lookups() -> None:
    begun: list[int] = []

    async def run() -> None:
        over = asyncio.Event()

        async def look_up() -> LookupResult:
            begun.append(1)
            await over.wait()
            return LookupResult()

        turns = LookupTurns(DnsLimits(lookups=2, slow=0.01, slow_lookups=5))
        lookups = [asyncio.create_task(turns.run(f"{n}.example", look_up)) for n in range(20)]
        while len(begun) < 7:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(begun) == 7
        over.set()
        await asyncio.wait(lookups)
        assert len(begun) == 20

    asyncio.run(run())


def test_a_name_is_looked_up_ahead_and_then_known() -> None:
    async def run(resolver: DnsResolver, server: SimulatedNameServer) -> None:
        resolver.look_ahead("a.example")
        resolver.look_ahead("192.0.2.9")
        while not server.count("a.example"):
            await asyncio.sleep(0.01)
        assert await said(resolver, "a.example") == "192.0.2.1"
        resolver.look_ahead("a.example")
        await asyncio.sleep(0.05)
        assert {asked.name for asked in server.asked} == {"a.example"}
        assert server.count("a.example", A) == 1
        for n in range(10):
            resolver.look_ahead(f"{n}.example")
        assert len(resolver._under_way) == 3, "of names that nobody waits for there are few"

    resolving(run, lambda *_: ZoneAnswer(addresses=("192.0.2.1",)), limits=DnsLimits(ahead=3))


def test_names_of_this_machine_are_not_asked_for(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("192.0.2.7 box.example\n")

    async def run(_: DnsResolver, server: SimulatedNameServer) -> None:
        names = ServerLookup((server.address,), threads=1, thread_wait=1, hosts=hosts)
        for name, first in (("box.example", "192.0.2.7"), ("box.example.", "192.0.2.7"), ("localhost", "127.0.0.1")):
            known = names.known(name)
            assert known
            assert known.addresses[0] == first
        hidden = names.known("abc.onion")
        assert hidden
        assert hidden.reason == "dns_notfound"
        assert names.known("www.example") is None
        names.close()
        assert not server.asked

    resolving(run, lambda *_: NOT_FOUND)


def test_servers_of_resolv_conf_are_asked_as_it_is_at_that_time(tmp_path: Path) -> None:
    """Without a server in it the system's resolver is asked, which knows the name of this machine."""
    conf = tmp_path / "resolv.conf"
    conf.write_text("search corp.example\n")

    async def run() -> None:
        names = ServerLookup(threads=1, thread_wait=1, resolv_conf=conf, hosts=tmp_path / "none")
        assert names.known("a.example") is None
        assert "127.0.0.1" in (await names.look_up("localhost", seconds=PATIENCE, wants_ipv6=False)).addresses
        conf.write_text("nameserver 127.0.0.1\n")
        names._looked -= PATIENCE
        assert names.known("a.example") is None
        assert [server.ip for server in names._servers.servers] == ["127.0.0.1"]
        names.close()

    asyncio.run(run())


async def said(resolver: DnsResolver, host: str) -> str:
    """An address, or the reason why there is none."""
    try:
        return (await resolver.resolve(host))[0]
    except FetchError as error:
        return error.reason


def resolving(
    run: Callable[[DnsResolver, SimulatedNameServer], Coroutine[Any, Any, None]], zone: Zone, **options: Any
) -> None:
    async def main() -> None:
        resolver = DnsResolver(servers=(server.address,), **options)
        try:
            async with asyncio.timeout(PATIENCE):
                await run(resolver, server)
        finally:
            resolver.close()

    with SimulatedNameServer(zone) as server:
        asyncio.run(main())
