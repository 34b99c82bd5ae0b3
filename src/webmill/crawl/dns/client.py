"""A client of recursive name servers: which one is asked when, for how long, and what their replies mean together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count

from msgspec import Struct

from webmill.crawl.dns.query import NameQuery
from webmill.crawl.dns.server import NameServer
from webmill.crawl.dns.system_files import NameServers, ServerAddress, has_ipv6, prefers
from webmill.errors import BadInput
from webmill.formats.dns import AAAA, NO_SUCH_NAME, A, DnsReply

MAX_FOLLOWED = 4  # aliases whose targets a server left out
_SHARES = (0.2, 0.3, 0.5)  # of the time, for the first tries
_FIRST_PAUSE = 0.25  # seconds, before servers that refused are asked again
_IPV6_FOR = 60.0  # seconds for which it is known whether this machine has IPv6


class LookupResult(Struct, frozen=True):
    """Addresses, in the order in which they are tried, or why there are none; and for how long that holds by the zone,
    in seconds (None: nobody said)."""

    addresses: tuple[str, ...] = ()
    reason: str = ""  # dns_notfound, dns_failed, dns_timeout, too_many_files
    message: str = ""
    ttl: float | None = None


class DnsClient:
    """Asks name servers. `servers` may be replaced at any time."""

    def __init__(self, servers: NameServers) -> None:
        self._servers: dict[ServerAddress, NameServer] = {}
        self._chosen = servers
        self._turn = count()
        self._kinds: tuple[int, ...] = (A,)
        self._kinds_until = 0.0

    def use(self, servers: NameServers) -> None:
        """Ask these from now on."""
        self._chosen = servers
        for address in self._servers.keys() - set(servers.servers):
            self._servers.pop(address).close()

    async def look_up(self, name: str, *, seconds: float, wants_ipv6: bool = False) -> LookupResult:
        """Return what the servers say of a name within a time. `wants_ipv6`: also where this machine has none."""
        until = asyncio.get_running_loop().time() + seconds
        kinds = (A, AAAA) if wants_ipv6 else self._usual_kinds()
        ttls: list[int] = []
        for _ in range(MAX_FOLLOWED + 1):
            try:
                query = NameQuery(name, kinds)
                await self._ask(query, until)
            except BadInput as error:
                return LookupResult(reason="dns_failed", message=f"{name}: {error.message}")
            except OSError as error:
                return LookupResult(reason="too_many_files", message=f"no socket for {name}: {error.strerror}")
            target = missing_target(query)
            if target is None:
                return result_of(query, ttls)
            ttls.append(min(reply.ttl for reply in query.replies.values()))
            name = target
        return LookupResult(reason="dns_failed", message=f"{name}: a chain of aliases has no end")

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    async def _ask(self, query: NameQuery, until: float) -> None:
        loop = asyncio.get_running_loop()
        whole, shares, pause = until - loop.time(), iter(_SHARES), _FIRST_PAUSE
        try:
            for server, is_first in self._tries():
                if (left := until - loop.time()) <= 0:
                    return
                if server is None:  # all have been asked
                    if query.failures and not query.is_soft:
                        return
                    if query.failures:
                        await asyncio.sleep(min(left, pause))
                        pause *= 2
                    continue
                query.begin_try()
                server.ask(query, is_extended=is_first)
                await query.settled(min(left, whole * next(shares, 1.0)))
                if query.is_conclusive or not query.missing:
                    return
                if not (query.failures or query.has_heard):
                    server.note_silence()
        finally:
            query.close()

    def _tries(self) -> Iterator[tuple[NameServer | None, bool]]:
        """Yield which server to ask, round after round, each followed by None; and whether it is the first round."""
        for number in count():
            servers = self._in_order()
            yield from ((server, number == 0) for server in servers)
            yield None, False

    def _in_order(self) -> Sequence[NameServer]:
        chosen, now = self._chosen.servers, asyncio.get_running_loop().time()
        servers = [self._servers.get(one) or self._servers.setdefault(one, NameServer(one)) for one in chosen]
        if self._chosen.rotates and len(servers) > 1:
            first = next(self._turn) % len(servers)
            servers = servers[first:] + servers[:first]
        if len(servers) > 1:
            servers.sort(key=lambda server: server.seems_away(now) and not server.is_to_be_probed(now))
        return servers

    def _usual_kinds(self) -> tuple[int, ...]:
        now = asyncio.get_running_loop().time()
        if now >= self._kinds_until:
            self._kinds, self._kinds_until = (A, AAAA) if has_ipv6() else (A,), now + _IPV6_FOR
        return self._kinds


def missing_target(query: NameQuery) -> str | None:
    """Return the target of an alias of which a server said nothing, not even that it has no address."""
    replies = query.replies.values()
    if query.missing or any(reply.addresses or reply.code == NO_SUCH_NAME or reply.has_soa for reply in replies):
        return None
    targets = [reply.alias for reply in replies if reply.alias]
    return decode_labels(targets[0]) if targets else None


def decode_labels(encoded: bytes) -> str:
    labels, at = [], 0
    while size := encoded[at]:
        labels.append(encoded[at + 1 : at + 1 + size].decode("latin-1"))
        at += size + 1
    return ".".join(labels)


def result_of(query: NameQuery, ttls: Sequence[int]) -> LookupResult:
    """Return what the replies to a query mean together. `ttls` are those of the aliases that led to it."""
    replies = query.replies
    if any(reply.addresses for reply in replies.values()):
        found = [reply for reply in replies.values() if reply.addresses]
        return LookupResult(in_order(replies), ttl=float(min([*ttls, *(reply.ttl for reply in found)])))
    ended = [reply for reply in replies.values() if reply.code == NO_SUCH_NAME]
    if ended or not query.missing:
        said = ended or list(replies.values())
        known = [reply.ttl for reply in said if reply.has_soa]
        ttl = float(min([*ttls, *known])) if known else None
        what = "there is no such name" if ended else "the name has no address"
        return LookupResult(reason="dns_notfound", message=f"{query.name}: {what}", ttl=ttl)
    if query.failures:
        return LookupResult(reason="dns_failed", message=f"{query.name}: {next(iter(query.failures.values()))}")
    return LookupResult(reason="dns_timeout", message=f"no name server answered for {query.name} in time")


def in_order(replies: dict[int, DnsReply]) -> tuple[str, ...]:
    """Return the addresses of a name: first those of the better protocol, each in the order of the server."""
    ipv4, ipv6 = (replies[kind].addresses if kind in replies else () for kind in (A, AAAA))
    return ipv6 + ipv4 if ipv6 and (not ipv4 or prefers(ipv6[0])) else ipv4 + ipv6
