"""What a fetcher does in a network where private addresses exist and the name server lies.

Run as root by `unshare --net --mount python -m tests.unit.crawl.fetch.namespace TASK`; prints what happened as JSON.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.unit.crawl.fetch.fetching import PATIENCE, answer, fetching, get, read_request
from tests.unit.crawl.fetch.stub_dns import CNAME_LOOP, NXDOMAIN, SERVFAIL, StubDns
from webmill.crawl.fetch import (
    AddressRules,
    DnsLimits,
    DnsResolver,
    FetchedResponse,
    FetchFailure,
    FetchLimits,
    FetchRequest,
    HttpFetcher,
    SocketAddress,
)
from webmill.crawl.fetch.route import NetworkRoute

PUBLIC, PUBLIC_V6, FAR = "93.184.216.34", "2606:2800:220:1::1", "93.184.217.1"
FAR_V6 = ("2606:2800:220:2::1", "2606:2800:220:2::2")
PRIVATE = ("127.0.0.1", "10.0.0.8", "169.254.169.254", "100.64.0.1", "192.168.1.1", "fd00::1", "::1")
MANY = 3000

NAMES: dict[str, Any] = {
    "public.test": [PUBLIC],
    "sixth.test": [PUBLIC_V6],
    "mixed.test": [PUBLIC, PRIVATE[1]],
    "many.test": [f"93.185.{n // 250}.{n % 250}" for n in range(MANY)],
    "nx.test": NXDOMAIN,
    "failing.test": SERVFAIL,
    "silent.test": None,
    "blackholed.test": [*FAR_V6, PUBLIC],
    "dark.test": [FAR_V6[0], FAR, FAR_V6[1], PRIVATE[1]],
    "both.test": [PUBLIC_V6, PUBLIC],
    "circle.test": CNAME_LOOP,
    "empty.test": [],
    "mapped.test": ["::ffff:10.0.0.8"],
    **{f"private{n}.test": [ip] for n, ip in enumerate(PRIVATE)},
}


def names(name: str, turn: int) -> Any:
    if name == "rebind.test":  # as a vetted name turns private: each lookup differs
        return [PUBLIC] if turn % 2 else [PRIVATE[1]]
    return NAMES.get(name, NXDOMAIN)


class Servers:
    """One on port 80 of every address; counts the connections of each."""

    def __init__(self, *more: str) -> None:
        self.connected = dict.fromkeys((PUBLIC, PUBLIC_V6, *PRIVATE, *more), 0)
        self.half_sent, self.body = threading.Event(), b"x" * 20_000
        for ip in self.connected:
            family = socket.AF_INET6 if ":" in ip else socket.AF_INET
            threading.Thread(
                target=self._serve, args=(ip, socket.create_server((ip, 80), family=family)), daemon=True
            ).start()

    def _serve(self, ip: str, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            self.connected[ip] += 1
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _attend(self, connection: socket.socket) -> None:
        with connection:
            while request := read_request(connection):
                whole = answer(self.body)
                if b"GET /half" in request:
                    connection.sendall(whole[: len(whole) // 2])
                    self.half_sent.set()
                    connection.recv(1)
                connection.sendall(whole)


def ip_command(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def make_network(*more: str) -> None:
    ip_command("link", "set", "lo", "up")
    for ip in (PUBLIC, PUBLIC_V6, *PRIVATE, *more):
        if ip not in ("127.0.0.1", "::1"):
            ip_command(
                "addr", "add", f"{ip}/{128 if ':' in ip else 32}", "dev", "lo", *(["nodad"] if ":" in ip else [])
            )
    ip_command("route", "add", f"{FAR}/32", "dev", "lo")  # leads nowhere: packets vanish
    with tempfile.NamedTemporaryFile("w", delete=False) as conf:
        conf.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    target = Path("/etc/resolv.conf").resolve()
    subprocess.run(["mount", "--bind", conf.name, str(target)], check=True)
    Path(conf.name).unlink()


def make_black_hole(*addresses: str) -> None:
    """Send packets for IPv6 addresses to a network card that is none: nobody says that they do not arrive."""
    ip_command("link", "add", "hole", "type", "veth", "peer", "name", "sink")
    for link in ("hole", "sink"):
        ip_command("link", "set", link, "up")
    for ip in addresses:
        ip_command("-6", "route", "add", f"{ip}/128", "dev", "hole")
        ip_command("-6", "neigh", "add", ip, "lladdr", "02:00:00:00:00:99", "dev", "hole", "nud", "permanent")


def reported(outcome: FetchedResponse | FetchFailure | SocketAddress) -> list[str]:
    if isinstance(outcome, FetchFailure):
        return [outcome.reason, outcome.ip]
    if isinstance(outcome, SocketAddress):
        return ["located", outcome.ip]
    return [outcome.exchange.truncated or "whole", outcome.exchange.ip]


async def ask_all(servers: Servers, dns: StubDns) -> dict[str, Any]:
    """Names that resolve to all kinds of addresses, and the addresses themselves as literals."""
    async with fetching(resolver=DnsResolver(limits=DnsLimits(deadline=20)), address_rules=AddressRules()) as fetcher:
        left_out = ("many.test", "blackholed.test", "dark.test", "both.test")
        outcomes = {name: reported(await get(fetcher, f"http://{name}/")) for name in NAMES if name not in left_out}
        outcomes["many.test"] = reported(await fetcher.locate("http://many.test/"))
        for ip in PRIVATE:
            host = f"[{ip}]" if ":" in ip else ip
            outcomes[ip] = reported(await get(fetcher, f"http://{host}/"))
    async with fetching(resolver=DnsResolver(limits=DnsLimits(deadline=0.2)), address_rules=AddressRules()) as fetcher:
        outcomes["silent.test, impatient"] = reported(await get(fetcher, "http://silent.test/"))
    return {"outcomes": outcomes, "connected": servers.connected, "asked": dns.asked}


async def rebind(servers: Servers, dns: StubDns) -> dict[str, Any]:
    """The name is public when asked first, private the second time, and so on; nothing is cached."""
    url, outcomes = "http://rebind.test/", []
    async with fetching(resolver=DnsResolver(limits=DnsLimits(keep=0.0)), address_rules=AddressRules()) as fetcher:
        vetted = await fetcher.locate(url)
        assert isinstance(vetted, SocketAddress)
        outcomes.append(reported(await fetcher.locate(url)))  # by now the name is private
        outcomes.append(reported(await fetcher.fetch(FetchRequest(url=url), vetted)))
        outcomes.append(reported(await fetcher.fetch(FetchRequest(url=url), SocketAddress(PRIVATE[1], 80))))
        outcomes += [reported(await get(fetcher, url)) for _ in range(10)]
    return {"outcomes": outcomes, "connected": servers.connected, "asked": dns.asked}


async def partition(servers: Servers, _: StubDns) -> dict[str, Any]:
    """Packets that vanish; a network that goes away in the middle of an answer; one that comes back."""
    limits = FetchLimits(connect=2.0, total=5.0, window=PATIENCE)
    async with fetching(address_rules=AddressRules(), limits=limits) as fetcher:
        nowhere = reported(await fetcher.fetch(FetchRequest(url=f"http://{FAR}/"), SocketAddress(FAR, 80)))
        half = asyncio.create_task(_fetch_half(fetcher))
        await asyncio.to_thread(servers.half_sent.wait, PATIENCE)
        ip_command("link", "set", "lo", "down")
        cut = reported(await half)
        during = reported(await fetcher.fetch(FetchRequest(url=f"http://{PUBLIC}/"), SocketAddress(PUBLIC, 80)))
        ip_command("link", "set", "lo", "up")
    async with fetching(address_rules=AddressRules()) as fetcher:
        after = reported(await fetcher.fetch(FetchRequest(url=f"http://{PUBLIC}/"), SocketAddress(PUBLIC, 80)))
    return {"nowhere": nowhere, "cut": cut, "during": during, "after": after}


async def families(servers: Servers, _: StubDns) -> dict[str, Any]:
    """IPv6 that leads nowhere, beside IPv4 that leads to a server, to nothing, or to where none may go."""
    make_black_hole(*FAR_V6)
    limits, outcomes = FetchLimits(connect=3.0), dict[str, Any]()
    async with fetching(resolver=DnsResolver(), address_rules=AddressRules(), limits=limits) as fetcher:
        for name in ("blackholed.test", "blackholed.test", "dark.test", "both.test"):
            outcomes.setdefault(name, []).append(reported(await get(fetcher, f"http://{name}/")))
    async with fetching(
        resolver=DnsResolver(),
        address_rules=AddressRules(),
        limits=limits,
        route=NetworkRoute(source_addresses=(PUBLIC,)),
    ) as fetcher:
        outcomes["from IPv4"] = reported(await get(fetcher, "http://blackholed.test/"))
    return {"outcomes": outcomes, "connected": servers.connected}


async def _fetch_half(fetcher: HttpFetcher) -> FetchedResponse | FetchFailure:
    return await fetcher.fetch(FetchRequest(url=f"http://{PUBLIC}/half"), SocketAddress(PUBLIC, 80))


async def narrow(servers: Servers, _: StubDns) -> dict[str, Any]:
    """A link of 100 kbit/s whose short queue throws packets away."""
    ip_command("link", "set", "lo", "mtu", "1500")
    shape = "tc qdisc add dev lo root tbf rate 100kbit burst 3000 limit 6000"
    if subprocess.run(shape.split(), check=False).returncode:
        return {"skipped": "tc cannot shape this link"}
    url, address = f"http://{PUBLIC}/", SocketAddress(PUBLIC, 80)
    async with fetching(address_rules=AddressRules(), limits=FetchLimits(total=PATIENCE)) as fetcher:
        outcomes = await asyncio.gather(*(fetcher.fetch(FetchRequest(url=url), address) for _ in range(4)))
    shown = subprocess.run(["tc", "-s", "-j", "qdisc", "show", "dev", "lo"], check=True, capture_output=True, text=True)
    dropped = sum(each.get("drops", 0) for each in json.loads(shown.stdout))
    whole = [isinstance(each, FetchedResponse) and each.payload == servers.body for each in outcomes]
    return {"whole": whole, "dropped": dropped}


TASKS = {"ask_all": ask_all, "rebind": rebind, "partition": partition, "narrow": narrow, "families": families}

if __name__ == "__main__":
    make_network()
    print(json.dumps(asyncio.run(TASKS[sys.argv[1]](Servers(), StubDns(names)))))
