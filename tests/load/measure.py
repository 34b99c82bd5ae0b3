"""Starts `webmill serve` and the clients, each kind in a process of its own, and measures what the readers get."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.load.abuse import ABUSES, Abuser
from tests.load.client_loop import ClientLoop
from tests.load.reader import Reader, Tally, reader_address
from tests.load.served_collection import Targets
from tests.serve.server_process import RunningServer, descendants

TICK = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ONE_ADDRESS = "127.9.0.1"
FILES = 16_000


class LoadPlan(Struct, frozen=True, kw_only=True):
    readers: int
    think: float  # seconds
    abuses: tuple[str, ...] = ()  # the kind of each abusive client
    together: float = 0.5  # share of the abusive clients that have one address, the others have their own
    seconds: float
    source: str = ""  # the address of all readers; empty: each has its own
    warm_up: float = 2.0  # seconds before anything is counted; the abuse begins with it


class LoadFigures(Struct, frozen=True, kw_only=True):
    tally: Tally
    abused: int  # requests and connections of abusive clients
    server_cpu: float  # seconds, all processes
    reader_cpu: float
    abuser_cpu: float
    all_cpu: float  # of the machine, all programs
    memory: int  # bytes that all processes of the server had at most
    seconds: float

    @property
    def others(self) -> float:
        """Return how many cores other programs used."""
        used = self.all_cpu - self.server_cpu - self.reader_cpu - self.abuser_cpu
        return max(0.0, used) / self.seconds

    def quantile(self, share: float, kind: str | None = None) -> float:
        """Return the seconds within which this share of the answers came."""
        found = sorted(one for name, times in self.tally.seconds.items() if kind in (None, name) for one in times)
        return found[min(len(found) - 1, int(share * len(found)))] if found else float("inf")


def measure(server: RunningServer, there: Targets, plan: LoadPlan) -> LoadFigures:
    """Return what the readers got. The abusive clients begin with the readers and end after them."""
    ports = (server.port, server.replay_port)
    readers = ClientProcess(_read, plan, ports, there)
    abusers = ClientProcess(_abuse, plan, ports, there) if plan.abuses else None
    clients = [one for one in (readers, abusers) if one]
    for one in clients:
        one.wait_until_ready()
    counts_from = time.monotonic() + plan.warm_up
    ends = counts_from + plan.seconds
    for one in clients:
        one.begin(counts_from, ends)
    peak = PeakMemory(server)
    time.sleep(max(0.0, counts_from - time.monotonic()))
    before = [server_cpu(server), readers.cpu(), abusers.cpu() if abusers else 0.0, machine_cpu()]
    time.sleep(max(0.0, ends - time.monotonic()))
    after = [server_cpu(server), readers.cpu(), abusers.cpu() if abusers else 0.0, machine_cpu()]
    cpu, reader_cpu, abuser_cpu, machine = (end - start for start, end in zip(before, after, strict=True))
    tally = readers.result()
    abused = abusers.result() if abusers else 0
    return LoadFigures(
        tally=tally,
        abused=abused,
        server_cpu=cpu,
        reader_cpu=reader_cpu,
        abuser_cpu=abuser_cpu,
        all_cpu=machine,
        memory=peak.stop(),
        seconds=plan.seconds,
    )


class ClientProcess:
    """Clients in a process of their own, which sends what they have seen when it ends."""

    def __init__(self, main: Callable[..., None], *arguments: object) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=main, args=(*arguments, theirs))
        self._process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        """Wait until it has loaded what it needs, which takes seconds on a busy machine."""
        self._ours.recv()

    def begin(self, counts_from: float, ends: float) -> None:
        self._ours.send((counts_from, ends))

    def cpu(self) -> float:
        return _cpu_of(self._process.pid or 0)

    def result(self) -> Any:
        found = self._ours.recv()
        self._process.join()
        return found


def _read(plan: LoadPlan, ports: tuple[int, int], there: Targets, out: Connection) -> None:
    _allow_files()
    out.send("ready")
    counts_from, ends = out.recv()
    tally = Tally()
    readers = [
        Reader(
            plan.source or reader_address(number),
            ports=ports,
            there=there,
            tally=tally,
            think=plan.think,
            counts_from=counts_from,
        )
        for number in range(plan.readers)
    ]
    ClientLoop().run([one.live() for one in readers], until=ends)
    out.send(tally)


def _abuse(plan: LoadPlan, ports: tuple[int, int], there: Targets, out: Connection) -> None:
    _allow_files()
    out.send("ready")
    _, ends = out.recv()
    alone = round(len(plan.abuses) * plan.together)
    clients = [
        Abuser(
            source=ONE_ADDRESS if number < alone else f"127.9.{1 + number // 250}.{number % 250 + 1}",
            ports=ports,
            there=there,
            rng=random.Random(number),
        )
        for number in range(len(plan.abuses))
    ]
    loop = ClientLoop()
    order = list(plan.abuses)
    random.Random(1).shuffle(order)
    loop.run([ABUSES[kind](client) for client, kind in zip(clients, order, strict=True)], until=ends + 0.5)
    out.send(sum(one.sent for one in clients))


def _allow_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard) if hard >= 0 else FILES, hard))


def server_cpu(server: RunningServer) -> float:
    return sum(_cpu_of(pid) for pid in (server.process.pid, *descendants(server.process.pid)))


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK


def machine_cpu() -> float:
    """Return the seconds for which all cores together have worked."""
    user, nice, system, _, _, interrupts, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + interrupts + soft) * TICK


class PeakMemory:
    """Watches the memory of a server's processes, ten times a second."""

    def __init__(self, server: RunningServer) -> None:
        self._server, self._most = server, 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stopped.wait(0.1):
            pids = (self._server.process.pid, *descendants(self._server.process.pid))
            self._most = max(self._most, sum(map(_resident, pids)))

    def stop(self) -> int:
        self._stopped.set()
        self._thread.join()
        return self._most


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0
