"""Several addresses of one server (RFC 8305): the next is tried when the last is slow or fails; one connection wins.

The other family comes next, as it is nearly always a whole protocol that leads nowhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

from webmill.crawl.fetch.types import FetchError, SocketAddress

STAGGER = 0.25  # seconds from one attempt to the next, as the RFC recommends
MAX_ALTERNATIVES = 3

Attempt = Callable[[SocketAddress], Awaitable[socket.socket]]


def interleave(first: str, others: Iterable[str]) -> list[str]:
    """Return the other addresses in the order in which they are tried after the first: families take turns."""
    is_v6 = ":" in first
    families: tuple[list[str], list[str]] = ([], [])  # the other one, the same one
    for ip in others:
        if ip != first:
            families[(":" in ip) == is_v6].append(ip)
    turns = [(number, family, ip) for family, ips in enumerate(families) for number, ip in enumerate(ips)]
    return [ip for _, _, ip in sorted(turns, key=lambda turn: turn[:2])]


async def connect_first(
    addresses: Sequence[SocketAddress], attempt: Attempt, *, stagger: float = STAGGER
) -> tuple[SocketAddress, socket.socket]:
    """Return the socket that is connected first, and its address. FetchError of the first address: there is none."""
    if len(addresses) == 1:
        return addresses[0], await attempt(addresses[0])
    waiting, errors = list(reversed(addresses)), dict[SocketAddress, FetchError]()
    under_way: dict[asyncio.Task[socket.socket], SocketAddress] = {}
    try:
        while waiting or under_way:
            if waiting:
                address = waiting.pop()
                under_way[asyncio.ensure_future(_run(attempt, address))] = address
            done, _ = await asyncio.wait(
                under_way, timeout=stagger if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return under_way.pop(task), task.result()
                if not isinstance(error, FetchError):
                    raise error
                errors[under_way.pop(task)] = error
        raise errors[addresses[0]]
    finally:
        await _end(under_way)


async def _run(attempt: Attempt, address: SocketAddress) -> socket.socket:
    return await attempt(address)


async def _end(under_way: Iterable[asyncio.Task[socket.socket]]) -> None:
    """End the attempts that lost, also one that was connected in the same moment."""
    tasks = list(under_way)
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, socket.socket):
            result.close()
