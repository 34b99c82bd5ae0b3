"""Names with several addresses: the next is tried when the last is slow or fails, and only if it may be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import PATIENT, Listener, answer, failed, fetched, fetching, read_request
from webmill.crawl.fetch import DnsResolver, FetchedResponse, FetchFailure, FetchRequest, SocketAddress
from webmill.crawl.fetch.happy_eyeballs import connect_first, interleave
from webmill.crawl.fetch.types import FetchError

DEAD = "127.0.0.9"


def attend(connection: socket.socket, _: int) -> None:
    while read_request(connection):
        connection.sendall(answer())


def test_families_take_turns_and_the_other_one_begins() -> None:
    others = ["::1", "::2", "::3", "10.0.0.1", "10.0.0.2"]
    assert interleave("::1", others) == ["10.0.0.1", "::2", "10.0.0.2", "::3"]
    assert interleave("10.0.0.1", others) == ["::1", "10.0.0.2", "::2", "::3"]


async def _fetch(
    listener: Listener, addresses: list[str], reserve: Callable[[SocketAddress], bool] = lambda _: True
) -> list[FetchedResponse | FetchFailure]:
    """Twice the same URL, of a name with these addresses."""

    async def may_connect(address: SocketAddress) -> bool:
        return reserve(address)

    resolver, found = DnsResolver(lookup=lambda _: addresses), []
    url = f"http://many.example:{listener.port}/"
    async with fetching(resolver=resolver, limits=PATIENT) as fetcher:
        for _ in range(2):
            address = await fetcher.locate(url)
            assert isinstance(address, SocketAddress)
            found.append(await fetcher.fetch(FetchRequest(url=url), address, reserve=may_connect))
    return found


def test_an_address_that_refuses_is_followed_by_the_next_and_the_connection_kept(run: Run) -> None:
    with Listener(attend) as listener:
        for outcome in run(_fetch(listener, [DEAD, "127.0.0.1"])):
            assert fetched(outcome).exchange.ip == "127.0.0.1"
        assert listener.accepted == 1


def test_an_address_that_may_not_be_asked_now_is_not_connected(run: Run) -> None:
    with Listener(attend) as listener:
        asked: list[str] = []

        def refuse(address: SocketAddress) -> bool:
            asked.append(address.ip)
            return False

        first, second = run(_fetch(listener, [DEAD, "127.0.0.1"], refuse))
        assert (failed(first).reason, failed(first).ip, failed(first).sent) == ("connect_refused", DEAD, False)
        assert asked == ["127.0.0.1"]
        assert fetched(second).exchange.ip == "127.0.0.1"  # which is located now, and so not asked for
        assert listener.accepted == 1


def test_of_two_slow_addresses_one_wins_and_the_other_is_ended(run: Run) -> None:
    addresses = [SocketAddress(f"192.0.2.{number}", 80) for number in range(3)]
    ended: list[str] = []

    async def attempt(address: SocketAddress) -> socket.socket:
        try:
            if address == addresses[1]:
                await asyncio.sleep(0.05)
                return socket.socket()
            await asyncio.sleep(60)
        finally:
            ended.append(address.ip)
        raise AssertionError

    async def main() -> None:
        address, sock = await connect_first(addresses, attempt, stagger=0.01)
        sock.close()
        assert address == addresses[1]
        assert sorted(ended) == [each.ip for each in addresses]

    run(main())


def test_when_all_fail_the_first_says_why(run: Run) -> None:
    async def attempt(address: SocketAddress) -> socket.socket:
        raise FetchError("connect_failed", address.ip)

    async def main() -> None:
        with pytest.raises(FetchError, match=r"192\.0\.2\.0"):
            await connect_first([SocketAddress(f"192.0.2.{number}", 80) for number in range(3)], attempt)

    run(main())


def test_a_socket_of_the_moment_in_which_another_won_is_closed(run: Run) -> None:
    sockets: list[socket.socket] = []

    async def attempt(address: SocketAddress) -> socket.socket:
        sockets.append(socket.socket())
        return sockets[-1]

    async def main() -> None:
        gate = asyncio.Event()

        async def together(address: SocketAddress) -> socket.socket:
            await gate.wait()
            return await attempt(address)

        asyncio.get_running_loop().call_later(0.05, gate.set)
        _, won = await connect_first(
            [SocketAddress("192.0.2.1", 80), SocketAddress("192.0.2.2", 80)], together, stagger=0.001
        )
        assert [each.fileno() >= 0 for each in sockets] == [each is won for each in sockets]
        assert len(sockets) == 2
        won.close()

    run(main())
