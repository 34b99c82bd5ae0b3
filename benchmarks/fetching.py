"""Fetch small pages from one local server, raw bytes and peer address kept. Rivals that are not installed are left out.

The server is our own few lines of asyncio in another process (whose CPU is not counted), so that all rivals meet the
same. Only ours vets addresses, bounds time, size and decoding, and hands out the bytes as they were sent; of the rivals
the body is kept undecoded where they allow it, and their headers are parsed ones.
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import socket
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any, cast

from benchmarks.frame import Contestant, race
from webmill.crawl.fetch import (
    AddressRules,
    DnsResolver,
    FetchedResponse,
    FetchFailure,
    FetchRequest,
    HttpFetcher,
    no_lookup,
)

PAGES, WORKERS = 4000, 50
BODY = b"<!doctype html><title>Page</title>" + b"<p>All work and no play makes a dull page.</p>" * 200
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/html; charset=utf-8\r\n"
    b'ETag: "1"\r\nCache-Control: max-age=60\r\nContent-Length: %d\r\n' % len(BODY)
)
Run = Callable[[Coroutine[Any, Any, int]], int]


class _Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        close = b"/close" in data
        self.transport.write(HEAD + (b"Connection: close\r\n\r\n" if close else b"\r\n") + BODY)
        if close:
            self.transport.close()


def serve(pipe: Pipe) -> None:
    async def main() -> None:
        sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
        server = await asyncio.get_running_loop().create_server(_Server, sock=sock)
        pipe.send(sock.getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def share(fetch: Callable[[], Awaitable[int]]) -> int:
    """PAGES fetches by WORKERS workers."""
    left = iter(range(PAGES))

    async def work() -> int:
        return sum([await fetch() for _ in left])

    return sum(await asyncio.gather(*(work() for _ in range(WORKERS))))


async def ours(port: int, path: str) -> int:
    url = f"http://bench.test{path}"
    resolver = DnsResolver(fixed={"bench.test": ("127.0.0.1", port)}, lookup=no_lookup)
    fetcher = HttpFetcher(user_agent="bench", address_rules=AddressRules(allow_private=True), resolver=resolver)

    async def fetch() -> int:
        address = await fetcher.locate(url)
        assert not isinstance(address, FetchFailure)
        answer = await fetcher.fetch(FetchRequest(url=url), address)
        assert isinstance(answer, FetchedResponse), answer
        assert answer.exchange.ip
        return len(answer.exchange.response) - len(answer.head.raw)

    try:
        return await share(fetch)
    finally:
        await fetcher.close()


async def with_aiohttp(port: int, path: str) -> int:
    import aiohttp

    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def fetch() -> int:
            async with session.get(f"http://127.0.0.1:{port}{path}", allow_redirects=False) as answer:
                _ = answer.raw_headers
                return len(await answer.read())

        return await share(fetch)


async def with_httpx(port: int, path: str) -> int:
    import httpx

    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=WORKERS)) as client:

        async def fetch() -> int:
            async with client.stream("GET", f"http://127.0.0.1:{port}{path}") as answer:
                return len(b"".join([piece async for piece in answer.aiter_raw()]))

        return await share(fetch)


def with_urllib3(port: int, path: str) -> int:
    import urllib3

    with urllib3.PoolManager(maxsize=8) as pool, ThreadPoolExecutor(8) as threads:

        def fetch(_: int) -> int:
            return len(pool.request("GET", f"http://127.0.0.1:{port}{path}", decode_content=False, redirect=False).data)

        return sum(threads.map(fetch, range(PAGES)))


def loops() -> dict[str, Run]:
    found: dict[str, Run] = {"": asyncio.run}
    if importlib.util.find_spec("uvloop"):
        import uvloop

        found[" (uvloop)"] = uvloop.run
    return found


def contestants(port: int, path: str) -> dict[str, Contestant]:
    def on(run: Run, fetch: Callable[[int, str], Coroutine[Any, Any, int]]) -> int:
        return run(fetch(port, path)) // len(BODY)

    asked = {"webmill": ours, "aiohttp": with_aiohttp, "httpx": with_httpx}
    there = {name: fetch for name, fetch in asked.items() if name == "webmill" or importlib.util.find_spec(name)}
    found: dict[str, Contestant] = {
        name + loop: partial(on, run, fetch) for name, fetch in there.items() for loop, run in loops().items()
    }
    found["urllib3, 8 threads"] = lambda: with_urllib3(port, path) // len(BODY)
    return found


def main() -> None:
    inside, outside = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(outside,), daemon=True)
    server.start()
    port = inside.recv()
    try:
        race("fetch, connections kept", contestants(port, "/keep"), unit="pages", rounds=2)
        race("fetch, a new connection each", contestants(port, "/close"), unit="pages", rounds=2)
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
