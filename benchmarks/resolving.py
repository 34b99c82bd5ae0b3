"""Look up 10,000 names, 60 % of them dead, from a name server that is honest, silent, slow, lying or truncating.

The server is that of `webmill.testing`, in a process of its own (whose CPU does not count), on port 53 of a network
namespace of its own, because getaddrinfo asks nowhere else: so this needs root, `unshare` and `ip`. Live names are
answered after 20 ms; the order of names is the same for all. What happens to dead ones, or to all:

    honest       dead names do not exist, which is said at once
    silent       nobody answers for dead names
    slow         dead names fail after 3 s
    lying        before each reply ten forged ones arrive, with other numbers or questions, that lead elsewhere
    truncating   each reply has to be asked for again over TCP

Contestants: ours, asked for all names at once (it has its own queue); aiodns (c-ares), if it is installed, with 1,000
at once, 2 s and three tries; and what webmill did before, getaddrinfo in 32 threads for 500 at once with 10 s for each,
waiting included. Each is a process of its own that ends after `BENCH_LIMIT` seconds (60).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

from benchmarks.frame import cpu_seconds
from webmill.crawl.fetch import DnsResolver
from webmill.crawl.fetch.types import FetchError
from webmill.formats.dns import NO_SUCH_NAME, SERVER_FAILURE, A
from webmill.formats.url.domains import registered_domain
from webmill.testing.name_server import WRONG_ADDRESS, SimulatedNameServer, ZoneAnswer

NAMES = int(os.environ.get("BENCH_NAMES", "10000"))
LIMIT = float(os.environ.get("BENCH_LIMIT", "60"))
DEAD = 0.6
KINDS = ("honest", "silent", "slow", "lying", "truncating")
LookUp = Callable[[str], Awaitable[str]]  # an address, or nothing


def names() -> list[str]:
    chosen = random.Random(1)
    return [f"www.{'dead' if chosen.random() < DEAD else 'live'}{n}.test" for n in range(NAMES)]


def zone_of(kind: str) -> Callable[[str, int], ZoneAnswer]:
    missing = ZoneAnswer(code=NO_SUCH_NAME, missing_ttl=300)
    dead = {
        "silent": ZoneAnswer(is_silent=True),
        "slow": ZoneAnswer(code=SERVER_FAILURE, delay=3.0),
        "lying": ZoneAnswer(code=NO_SUCH_NAME, missing_ttl=300, delay=0.02, lies=("id", "question", "source")),
        "truncating": ZoneAnswer(code=NO_SUCH_NAME, missing_ttl=300, is_cut=True),
    }.get(kind, missing)
    lies = ("id", "question", "source") if kind == "lying" else ()
    live = ZoneAnswer(addresses=("192.0.2.1",), delay=0.02, is_cut=kind == "truncating", lies=lies)
    empty = ZoneAnswer(missing_ttl=300, delay=0.02, is_cut=kind == "truncating", lies=lies)
    return lambda name, asked: dead if "dead" in name else live if asked == A else empty


def serve(kind: str, pipe: Pipe) -> None:
    with SimulatedNameServer(zone_of(kind), port=53):
        pipe.send("ready")
        pipe.recv()


# --- contestants ---


async def with_webmill(wanted: Iterator[str], note: Callable[[str, str], None]) -> None:
    resolver = DnsResolver()

    async def look_up(name: str) -> None:
        try:
            note(name, (await resolver.resolve(name))[0])
        except FetchError:
            note(name, "")

    try:
        await asyncio.gather(*map(look_up, wanted))
    finally:
        resolver.close()


async def with_aiodns(wanted: Iterator[str], note: Callable[[str, str], None]) -> None:
    import aiodns

    resolver = aiodns.DNSResolver(timeout=2.0, tries=3)

    async def look_up(name: str) -> str:
        try:
            found = await resolver.getaddrinfo(name, socket.AF_UNSPEC)
        except aiodns.error.DNSError:
            return ""
        return str(found.nodes[0].addr[0].decode())

    await _share(wanted, note, look_up, 1000)


async def with_threads(wanted: Iterator[str], note: Callable[[str, str], None]) -> None:
    loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(32)

    def ask(name: str) -> str:
        try:
            return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)[0][4][0])
        except OSError:
            return ""

    async def look_up(name: str) -> str:
        lookup = loop.run_in_executor(threads, ask, name)
        await asyncio.wait((lookup,), timeout=10.0)
        if lookup.done():
            return lookup.result()
        lookup.cancel()
        return ""

    await _share(wanted, note, look_up, 500)


async def _share(wanted: Iterator[str], note: Callable[[str, str], None], look_up: LookUp, workers: int) -> None:
    async def work() -> None:
        for name in wanted:
            note(name, await look_up(name))

    await asyncio.gather(*(work() for _ in range(workers)))


CONTESTANTS = {"webmill": with_webmill, "aiodns": with_aiodns, "getaddrinfo, 32 threads": with_threads}


def contest(contestant: str) -> None:
    """Look up all names in this process; print what came of it."""
    registered_domain("www.example.test")  # reads the Public Suffix List, which a crawl needs anyway
    began, cpu = time.monotonic(), cpu_seconds()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = {"live": 0, "asked": 0, "wrong": 0, "all_live": 0.0, "done": False}
    living = sum("live" in name for name in names())

    def note(name: str, address: str) -> None:
        report["asked"] += 1
        report["wrong"] += address == WRONG_ADDRESS or bool(address and "dead" in name)
        if "live" in name and address:
            report["live"] += 1
            if report["live"] == living:
                report["all_live"] = time.monotonic() - began

    async def main() -> None:
        try:
            async with asyncio.timeout(LIMIT):
                await CONTESTANTS[contestant](iter(names()), note)
                report["done"] = True
        except TimeoutError:
            pass

    asyncio.run(main())
    report |= {"living": living, "seconds": time.monotonic() - began, "cpu": cpu_seconds() - cpu}
    report["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps(report), flush=True)
    os._exit(0)  # threads of getaddrinfo take their time


# --- the race ---


def race() -> None:
    """Run all contestants with each kind of server, in the namespace."""
    for command in (
        "ip link set lo up",
        "ip addr add 192.0.2.99/32 dev lo",
        "ip addr add 2001:db8::1/128 dev lo nodad",
    ):
        subprocess.run(command.split(), check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write("nameserver 127.0.0.1\n")
        conf.flush()
        mount = ["mount", "--bind", conf.name, str(Path("/etc/resolv.conf").resolve())]
        subprocess.run(mount, check=True)
        for kind in KINDS:
            print_kind(kind)


def print_kind(kind: str) -> None:
    head = "names done | live names known | all live known after | all done after | CPU µs a name | MB"
    print(f"\n## {NAMES:,} names, 60 % dead: {kind}\n\n| | {head} |\n|---|---:|---:|---:|---:|---:|---:|", flush=True)
    there = [name for name in CONTESTANTS if name != "aiodns" or importlib.util.find_spec("aiodns")]
    for contestant in there:
        inside, outside = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(kind, outside), daemon=True)
        server.start()
        inside.recv()
        command = [sys.executable, "-m", "benchmarks.resolving", contestant]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        server.terminate()
        server.join()
        print(row(contestant, json.loads(done.stdout)), flush=True)


def row(contestant: str, report: dict[str, float]) -> str:
    after = f"{report['all_live']:.1f} s" if report["all_live"] else "never"
    end = f"{report['seconds']:.1f} s" if report["done"] else f"not in {LIMIT:.0f} s"
    wrong = f" ({report['wrong']} wrong!)" if report["wrong"] else ""
    cpu = 1e6 * report["cpu"] / max(1, report["asked"])
    live = f"{report['live']:,} of {report['living']:,}{wrong}"
    return f"| {contestant} | {report['asked']:,} | {live} | {after} | {end} | {cpu:,.0f} | {report['memory']:.0f} |"


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("this needs root: it asks a name server on port 53 of a network namespace of its own")
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "benchmarks.resolving", "--race"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    if "--race" in sys.argv:
        race()
    elif len(sys.argv) > 1:
        contest(sys.argv[1])
    else:
        main()
