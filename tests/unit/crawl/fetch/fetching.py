"""What the tests of the fetcher share: a way to ask, and a server of a few lines where every byte is the test's."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from webmill.crawl.fetch import (
    AddressRules,
    DnsResolver,
    FetchedResponse,
    FetchFailure,
    FetchLimits,
    FetchRequest,
    HttpFetcher,
    no_lookup,
)

AGENT = "webmill-test/1 (+http://www.mill.example/)"
PATIENCE = 60.0  # seconds that nothing needs unless it hangs


@asynccontextmanager
async def fetching(fixed: Mapping[str, tuple[str, int]] | None = None, **options: Any) -> AsyncIterator[HttpFetcher]:
    """A fetcher that may go to loopback, and knows no names but these."""
    options.setdefault("resolver", DnsResolver(fixed=fixed, lookup=no_lookup))
    options.setdefault("address_rules", AddressRules(allow_private=True))
    fetcher = HttpFetcher(user_agent=AGENT, **options)
    try:
        async with asyncio.timeout(PATIENCE):
            yield fetcher
    finally:
        await fetcher.close()


async def get(fetcher: HttpFetcher, url: str, *headers: tuple[str, str]) -> FetchedResponse | FetchFailure:
    address = await fetcher.locate(url)
    if isinstance(address, FetchFailure):
        return address
    return await fetcher.fetch(FetchRequest(url=url, headers=headers), address)


async def get_one(
    url: str, fixed: Mapping[str, tuple[str, int]] | None = None, **options: Any
) -> FetchedResponse | FetchFailure:
    async with fetching(fixed, **options) as fetcher:
        return await get(fetcher, url)


def fetched(outcome: FetchedResponse | FetchFailure) -> FetchedResponse:
    assert isinstance(outcome, FetchedResponse), outcome
    return outcome


def failed(outcome: FetchedResponse | FetchFailure) -> FetchFailure:
    assert isinstance(outcome, FetchFailure), outcome.exchange.response[:200]
    return outcome


Serve = Callable[[socket.socket, int], None]


class Listener:
    """Calls `serve(connection, number)` in a thread per connection, from number 1 on, then closes it."""

    def __init__(self, serve: Serve, *, ip: str = "127.0.0.1") -> None:
        self._serve = serve
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        self._socket = socket.create_server((ip, 0), family=family, backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{f'[{ip}]' if ':' in ip else ip}:{self.port}"
        self.accepted = 0
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.accepted += 1
            connection.settimeout(PATIENCE)
            thread = threading.Thread(target=self._attend, args=(connection, self.accepted))
            self._threads.append(thread)
            thread.start()

    def _attend(self, connection: socket.socket, number: int) -> None:
        with connection:
            try:
                self._serve(connection, number)
            except OSError:
                pass  # the client left: the tests look at its side


def read_request(connection: socket.socket) -> bytes:
    """One request head, or what came before the end."""
    data = b""
    while b"\r\n\r\n" not in data and (more := connection.recv(65536)):
        data += more
    return data


def wait_for_end(connection: socket.socket) -> bool:
    """Until the client closes; False when it did not."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def answer(body: bytes = b"hello", fields: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n%sContent-Length: %d\r\n\r\n%s" % (fields, len(body), body)


PATIENT = FetchLimits(total=PATIENCE, connect=PATIENCE, window=PATIENCE)
