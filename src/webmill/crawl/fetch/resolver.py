"""Names to addresses: a bounded cache before the system's resolver, which runs in a bounded number of threads.

getaddrinfo tells no time to live, so answers are kept for a fixed time: long enough to spare the servers, short enough
to follow a site that moves. A lookup cannot be interrupted; when its deadline passes, the caller goes on and the thread
ends by itself, as the system's own time limit has it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

from msgspec import Struct

from webmill.crawl.fetch.types import FetchError

MAX_ADDRESSES = 16  # kept of one name
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_NOT_FOUND = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}

Lookup = Callable[[str], Sequence[str]]


def system_lookup(host: str) -> list[str]:
    """Return the addresses in the order in which the system would try them (RFC 6724). Blocks; raises OSError."""
    # Bytes, because Python would put text through its slow IDNA codec.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(where[0]) for _, _, _, _, where in found]


def no_lookup(host: str) -> list[str]:
    """Find no name: for a web that is wholly in the `fixed` map. No packet is sent."""
    raise socket.gaierror(socket.EAI_NONAME, f"{host} is not in the fixed map")


class _DnsAnswer(Struct):
    """Addresses, or why there are none."""

    addresses: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    expires: float = 0.0


class DnsLimits(Struct, frozen=True, kw_only=True):
    deadline: float = 10.0  # seconds for one lookup
    keep: float = 300.0  # seconds for which an answer is used
    keep_failure: float = 30.0
    entries: int = 20_000  # of the cache
    threads: int = 32


class DnsResolver:
    """Resolves names, with a cache. `fixed` names have the given address, and the given port where the URL has none
    (curl's --resolve)."""

    def __init__(
        self,
        *,
        fixed: Mapping[str, tuple[str, int]] | None = None,
        lookup: Lookup = system_lookup,
        limits: DnsLimits = DnsLimits(),  # noqa: B008  frozen
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fixed = fixed if fixed is not None else {}
        self._lookup, self._limits, self._clock = lookup, limits, clock
        self._cache: dict[str, _DnsAnswer] = {}
        self._under_way: dict[str, asyncio.Future[_DnsAnswer]] = {}
        self._threads = ThreadPoolExecutor(limits.threads, thread_name_prefix="dns")

    async def resolve(self, host: str) -> tuple[str, int | None]:
        """Return the address to try next, and the port of a fixed name. FetchError: `dns_*`, `too_many_files`."""
        fixed = self._fixed.get(host) or self._fixed.get(host.removesuffix("."))
        if fixed is not None:
            return fixed
        if _is_address(host):
            return host, None
        answer = await self._answer(host)
        if not answer.addresses:
            raise FetchError(answer.reason, answer.message)
        return answer.addresses[0], None

    async def all_addresses(self, host: str) -> tuple[str, ...]:
        """Return the addresses that the system's resolver knows of a name; none if it knows none, or fails."""
        return (await self._answer(host)).addresses

    async def _answer(self, host: str) -> _DnsAnswer:
        answer = self._cache.get(host)
        return answer if answer and answer.expires > self._clock() else await self._look_up(host)

    def demote(self, host: str, ip: str) -> None:
        """Move an address that could not be connected behind the others of its name."""
        answer = self._cache.get(host)
        if answer is not None and ip in answer.addresses:
            answer.addresses = (*(other for other in answer.addresses if other != ip), ip)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, host: str) -> _DnsAnswer:
        """Look up a name. All who ask for it at the same time wait for one lookup."""
        lookup = self._under_way.get(host)
        if lookup is None:
            lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up_name, self._lookup, host)
            self._under_way[host] = lookup
            lookup.add_done_callback(lambda done: self._store_result(host, done))
        await asyncio.wait((lookup,), timeout=self._limits.deadline)
        if lookup.done() and not lookup.cancelled():
            return lookup.result()
        lookup.cancel()  # one that has no thread yet shall never get one
        late = _DnsAnswer(reason="dns_timeout", message=f"no answer for {host} within {self._limits.deadline:g} s")
        self._store(host, late)
        return late

    def _store_result(self, host: str, lookup: asyncio.Future[_DnsAnswer]) -> None:
        del self._under_way[host]
        if not lookup.cancelled():
            self._store(host, lookup.result())

    def _store(self, host: str, answer: _DnsAnswer) -> None:
        if answer.reason == "too_many_files":
            return  # says nothing about the name
        answer.expires = self._clock() + (self._limits.keep if answer.addresses else self._limits.keep_failure)
        self._cache.pop(host, None)
        while len(self._cache) >= self._limits.entries:
            del self._cache[next(iter(self._cache))]  # the oldest
        self._cache[host] = answer


def _is_address(host: str) -> bool:
    """Tell whether a normalised host is an address: only those have a colon or end in a label of digits."""
    if ":" not in host and not host[-1:].isdigit():
        return False
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _look_up_name(lookup: Lookup, host: str) -> _DnsAnswer:
    """Return what a lookup gave. Runs in a thread and never raises: nobody may be waiting any more."""
    try:
        found = tuple(dict.fromkeys(lookup(host)))[:MAX_ADDRESSES]
    except OSError as error:
        if _out_of_files():  # the resolver then says whatever comes to its mind, even that there is no such name
            return _DnsAnswer(reason="too_many_files", message="no file descriptor left to look up a name")
        known = isinstance(error, socket.gaierror) and error.errno in _NOT_FOUND
        return _DnsAnswer(
            reason="dns_notfound" if known else "dns_failed", message=f"{host}: {error.strerror or error}"
        )
    return _DnsAnswer(found) if found else _DnsAnswer(reason="dns_notfound", message=f"{host} has no address")


def _out_of_files() -> bool:
    try:
        ours = [os.open(os.devnull, os.O_RDONLY)]
    except OSError as error:
        return error.errno in _OUT_OF_FILES
    try:
        ours.append(os.dup(ours[0]))  # a lookup needs two at a time
    except OSError as error:
        return error.errno in _OUT_OF_FILES
    finally:
        for each in ours:
            os.close(each)
    return False
