"""Names to addresses: fixed names and the machine's own first, then a bounded cache before name servers.

A lookup waits for its turn as long as it takes; its deadline begins when it is asked. A turn is over as soon as the
lookup is, or seems slow: so a name whose servers are silent keeps no other name waiting. Names of one registered
domain, which share name servers, have few lookups at a time.

Name servers are asked by `crawl.dns`. `system` asks the system's resolver instead, in threads: it knows names that are
in no DNS (nsswitch, mDNS), but tells no time to live and cannot be interrupted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from ipaddress import ip_address

from msgspec import Struct

from webmill.crawl.dns.client import LookupResult
from webmill.crawl.fetch.happy_eyeballs import interleave
from webmill.crawl.fetch.name_lookup import Lookup, NameLookup, ServerLookup, ThreadLookup
from webmill.crawl.fetch.types import FetchError
from webmill.formats.url.domains import registered_domain
from webmill.infra.public_addresses import NAT64_NAME

MAX_ADDRESSES = 16  # kept of one name


class DnsLimits(Struct, frozen=True, kw_only=True):
    """Seconds and numbers. How long an answer is used says its zone, within these bounds."""

    deadline: float = 10.0  # for one lookup, from its turn on
    keep_least: float = 60.0  # an answer is used at least for so long
    keep: float = 3600.0  # and at most
    keep_unknown: float = 300.0  # an answer without a time to live
    keep_failure: float = 30.0  # a name that does not exist, at least; what failed otherwise
    keep_missing: float = 900.0  # a name that does not exist, at most
    entries: int = 50_000  # of the cache
    lookups: int = 256  # under way that are not slow
    slow: float = 0.25  # from then on a lookup is slow
    slow_lookups: int = 10_000
    lookups_per_domain: int = 8
    ahead: int = 32  # lookups of names that nobody waits for yet
    threads: int = 32  # of the system's resolver
    thread_wait: float = 60.0  # for a thread, when all are held by lookups that do not end


class _CachedAnswer(Struct):
    result: LookupResult
    addresses: tuple[str, ...]
    expires: float


class DnsResolver:
    """Resolves names, with a cache. `fixed` names have the given address, and the given port where the URL has none
    (curl's --resolve). `servers` are the addresses of name servers, or `system`; none: those of this machine.
    `lookup`: ask this function, in threads."""

    def __init__(
        self,
        *,
        fixed: Mapping[str, tuple[str, int]] | None = None,
        servers: tuple[str, ...] = (),
        lookup: Lookup | None = None,
        limits: DnsLimits = DnsLimits(),  # noqa: B008  frozen
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fixed = fixed if fixed is not None else {}
        self._limits, self._clock = limits, clock
        self._names: NameLookup = (
            ServerLookup(servers, threads=limits.threads, thread_wait=limits.thread_wait)
            if lookup is None
            else ThreadLookup(lookup, threads=limits.threads, wait=limits.thread_wait)
        )
        self._cache: dict[str, _CachedAnswer] = {}
        self._under_way: dict[str, asyncio.Task[LookupResult]] = {}
        self._turns = LookupTurns(limits)
        self.waiting = 0  # callers that wait for a name

    async def resolve(self, host: str) -> tuple[str, int | None]:
        """Return the address to try next, and the port of a fixed name. FetchError: `dns_*`, `too_many_files`."""
        fixed = self._fixed.get(host) or self._fixed.get(host.removesuffix("."))
        if fixed is not None:
            return fixed
        if _is_address(host):
            return host, None
        answer = await self._answer(host)
        if not answer.addresses:
            raise FetchError(answer.result.reason, answer.result.message)
        return answer.addresses[0], None

    async def all_addresses(self, host: str) -> tuple[str, ...]:
        """Return the addresses that are known of a name; none if there are none, or the lookup failed."""
        return (await self._answer(host)).addresses

    def look_ahead(self, host: str) -> None:
        """Begin to look up a name that will soon be asked for, unless there is enough to do."""
        is_known = host in self._fixed or host in self._under_way or self._cached(host) or _is_address(host)
        if not is_known and len(self._under_way) < self._limits.ahead:
            self._begin(host)

    def alternatives(self, host: str, ip: str) -> list[str]:
        """Return the other addresses that are known of a name, in the order in which they are tried after this one."""
        answer = None if host in self._fixed else self._cached(host)
        return interleave(ip, answer.addresses) if answer is not None and ip in answer.addresses else []

    def promote(self, host: str, ip: str) -> None:
        """Move an address before the others of its name: it was connected when they were not."""
        answer = self._cache.get(host)
        if answer is not None and ip in answer.addresses:
            answer.addresses = (ip, *(other for other in answer.addresses if other != ip))

    def demote(self, host: str, ip: str) -> None:
        """Move an address that could not be connected behind the others of its name."""
        answer = self._cache.get(host)
        if answer is not None and ip in answer.addresses:
            answer.addresses = (*(other for other in answer.addresses if other != ip), ip)

    def close(self) -> None:
        for lookup in self._under_way.values():
            lookup.cancel()
        self._names.close()

    async def _answer(self, host: str) -> _CachedAnswer:
        """Return what is known of a name. All who ask for it at the same time wait for one lookup."""
        if answer := self._cached(host):
            return answer
        lookup = self._under_way.get(host) or self._begin(host)
        self.waiting += 1
        try:
            await asyncio.wait((lookup,))
        finally:
            self.waiting -= 1
        if lookup.cancelled():
            raise FetchError("dns_failed", f"{host}: the crawl ends")
        result = lookup.result()
        return self._cache.get(host) or _CachedAnswer(result, result.addresses[:MAX_ADDRESSES], 0.0)

    def _cached(self, host: str) -> _CachedAnswer | None:
        answer = self._cache.get(host)
        return answer if answer and answer.expires > self._clock() else None

    def _begin(self, host: str) -> asyncio.Task[LookupResult]:
        lookup = asyncio.create_task(self._look_up(host))
        self._under_way[host] = lookup
        lookup.add_done_callback(lambda _: self._under_way.pop(host, None))
        return lookup

    async def _look_up(self, host: str) -> LookupResult:
        wants_ipv6 = host.removesuffix(".") == NAT64_NAME  # it tells how IPv6 is translated
        if (found := self._names.known(host)) is None:
            found = await self._turns.run(
                registered_domain(host) or host,
                lambda: self._names.look_up(host, seconds=self._limits.deadline, wants_ipv6=wants_ipv6),
            )
        self._store(host, found)
        return found

    def _store(self, host: str, found: LookupResult) -> None:
        if found.reason == "too_many_files":
            self._cache.pop(host, None)
            return  # says nothing about the name
        self._cache.pop(host, None)
        while len(self._cache) >= self._limits.entries:
            del self._cache[next(iter(self._cache))]  # the oldest
        expires = self._clock() + self._time_to_live(found)
        self._cache[host] = _CachedAnswer(found, found.addresses[:MAX_ADDRESSES], expires)

    def _time_to_live(self, found: LookupResult) -> float:
        limits = self._limits
        if found.addresses:
            longest = min(limits.keep_unknown if found.ttl is None else found.ttl, limits.keep)
            return max(longest, min(limits.keep_least, limits.keep))
        if found.reason == "dns_notfound" and found.ttl is not None:
            return max(min(found.ttl, limits.keep_missing), limits.keep_failure)
        return limits.keep_failure


class LookupTurns:
    """Who may ask now. A lookup has a turn for as long as it is not slow, then a place among the slow ones, if there
    is one."""

    def __init__(self, limits: DnsLimits) -> None:
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.lookups)
        self._slow = 0
        self._domains: dict[str, tuple[asyncio.Semaphore, int]] = {}  # with how many wait or ask

    async def run(self, domain: str, look_up: Callable[[], Coroutine[None, None, LookupResult]]) -> LookupResult:
        """Return what a lookup of a name of a domain gives, when it has had its turn."""
        gate, users = self._domains.get(domain) or (asyncio.Semaphore(self._limits.lookups_per_domain), 0)
        self._domains[domain] = gate, users + 1
        try:
            async with gate:
                await self._turns.acquire()
                return await self._in_turn(look_up)
        finally:
            gate, users = self._domains.pop(domain)
            if users > 1:
                self._domains[domain] = gate, users - 1

    async def _in_turn(self, look_up: Callable[[], Coroutine[None, None, LookupResult]]) -> LookupResult:
        loop, is_slow = asyncio.get_running_loop(), False
        timer: asyncio.TimerHandle

        def give_way() -> None:
            nonlocal is_slow, timer
            if self._slow < self._limits.slow_lookups:
                is_slow = True
                self._slow += 1
                self._turns.release()
            else:
                timer = loop.call_later(self._limits.slow, give_way)

        timer = loop.call_later(self._limits.slow, give_way)
        try:
            return await look_up()
        finally:
            timer.cancel()
            if is_slow:
                self._slow -= 1
            else:
                self._turns.release()


@lru_cache(maxsize=4096)
def _is_address(host: str) -> bool:
    """Tell whether a normalised host is an address: only those have a colon or end in a label of digits."""
    if ":" not in host and not host[-1:].isdigit():
        return False
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
