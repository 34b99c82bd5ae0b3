"""Who knows names: this machine's hosts file, name servers, the system's resolver in threads."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from webmill.crawl.dns.client import DnsClient, LookupResult
from webmill.crawl.dns.system_files import (
    HOSTS,
    RESOLV_CONF,
    NameServers,
    parse_servers,
    read_hosts,
    read_servers,
    version_of,
)

SYSTEM = "system"  # instead of the addresses of servers
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_NOT_FOUND = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_LOOK_EVERY = 5.0  # seconds between looks whether a file of the system has changed

Lookup = Callable[[str], Sequence[str]]


def check_servers(servers: tuple[str, ...]) -> None:
    """Refuse what a person wrote that names no server: Misconfigured."""
    if servers != (SYSTEM,):
        parse_servers(servers)


class NameLookup(Protocol):
    """Says which addresses a name has. It neither caches, nor limits how many names are looked up at a time."""

    def known(self, host: str) -> LookupResult | None:
        """Return what is known of a name without asking anybody."""
        ...

    async def look_up(self, host: str, *, seconds: float, wants_ipv6: bool) -> LookupResult:
        """Return what is found within a time. `wants_ipv6`: also where this machine has no IPv6. Raises nothing."""
        ...

    def close(self) -> None: ...


def system_lookup(host: str) -> list[str]:
    """Return the addresses in the order in which the system would try them (RFC 6724). Blocks; raises OSError."""
    # Bytes, because Python would put text through its slow IDNA codec.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(where[0]) for _, _, _, _, where in found]


def no_lookup(host: str) -> list[str]:
    """Find no name: for a web that is wholly in the `fixed` map. No packet is sent."""
    raise socket.gaierror(socket.EAI_NONAME, f"{host} is not in the fixed map")


class ServerLookup:
    """Asks name servers: those that are named, else those of /etc/resolv.conf, as it is at that time.

    The system's resolver is asked instead where `system` is named, where this machine names no servers, and for names
    under `.local`, which are in no DNS (RFC 6762).
    """

    def __init__(
        self,
        servers: tuple[str, ...] = (),
        *,
        threads: int,
        thread_wait: float,
        resolv_conf: Path = RESOLV_CONF,
        hosts: Path = HOSTS,
    ) -> None:
        self._is_system = servers == (SYSTEM,)
        self._named = parse_servers(() if self._is_system else servers)
        self._resolv_conf, self._hosts = resolv_conf, hosts
        self._servers, self._names = NameServers(), dict[str, tuple[str, ...]]()
        self._client = DnsClient(self._servers)
        self._system = ThreadLookup(system_lookup, threads=threads, wait=thread_wait)
        self._versions: tuple[object, object] | None = None
        self._looked = 0.0

    def known(self, host: str) -> LookupResult | None:
        self._look_at_files()
        name = host.removesuffix(".")
        if self._is_system:
            return None
        if found := self._names.get(name):
            return LookupResult(found)
        if name == "localhost" or name.endswith(".localhost"):  # RFC 6761
            return LookupResult(("127.0.0.1", "::1"))
        if name.endswith(".onion"):  # RFC 7686: no name server is to learn that somebody looks for it
            return LookupResult(reason="dns_notfound", message=f"{host} is no name of DNS")
        return None

    async def look_up(self, host: str, *, seconds: float, wants_ipv6: bool) -> LookupResult:
        if self._is_system or not self._servers.servers or host.removesuffix(".").endswith(".local"):
            return await self._system.look_up(host, seconds=seconds, wants_ipv6=wants_ipv6)
        return await self._client.look_up(host, seconds=seconds, wants_ipv6=wants_ipv6)

    def close(self) -> None:
        self._client.close()
        self._system.close()

    def _look_at_files(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._versions is not None and now - self._looked < _LOOK_EVERY:
            return
        self._looked = now
        versions = version_of(self._resolv_conf), version_of(self._hosts)
        if versions != self._versions:
            self._versions = versions
            self._names = read_hosts(self._hosts)
            self._servers = self._named if self._named.servers else read_servers(self._resolv_conf)
            self._client.use(self._servers)


class ThreadLookup:
    """Asks a function that blocks, in a bounded number of threads.

    A thread cannot be interrupted: when a lookup's time is over, the caller goes on and the thread ends by itself. A
    lookup that finds no free thread waits; its time begins with its thread.
    """

    def __init__(self, lookup: Lookup, *, threads: int, wait: float) -> None:
        self._lookup, self._wait = lookup, wait
        self._free = asyncio.Semaphore(threads)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="dns")

    def known(self, host: str) -> LookupResult | None:  # noqa: ARG002
        return None

    async def look_up(self, host: str, *, seconds: float, wants_ipv6: bool) -> LookupResult:  # noqa: ARG002
        try:
            async with asyncio.timeout(self._wait):
                await self._free.acquire()
        except TimeoutError:
            return LookupResult(reason="dns_timeout", message=f"no thread for {host} within {self._wait:g} s")
        lookup = asyncio.get_running_loop().run_in_executor(self._threads, _look_up_name, self._lookup, host)
        lookup.add_done_callback(lambda _: self._free.release())
        await asyncio.wait((lookup,), timeout=seconds)
        if lookup.done() and not lookup.cancelled():
            return lookup.result()
        return LookupResult(reason="dns_timeout", message=f"no answer for {host} within {seconds:g} s")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up_name(lookup: Lookup, host: str) -> LookupResult:
    """Return what a lookup gave. Runs in a thread and never raises: nobody may be waiting any more."""
    try:
        found = tuple(dict.fromkeys(lookup(host)))
    except OSError as error:
        if _out_of_files():  # the resolver then says whatever comes to its mind, even that there is no such name
            return LookupResult(reason="too_many_files", message="no file descriptor left to look up a name")
        known = isinstance(error, socket.gaierror) and error.errno in _NOT_FOUND
        return LookupResult(
            reason="dns_notfound" if known else "dns_failed", message=f"{host}: {error.strerror or error}"
        )
    return LookupResult(found) if found else LookupResult(reason="dns_notfound", message=f"{host} has no address")


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
