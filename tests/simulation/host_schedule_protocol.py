"""Processes of one machine that send requests to shared hosts and addresses, politely, over kills and set clocks.

Each runs the product's `Requester`, with the reservations of a shard, on an event loop whose time is simulated. The
servers note when each request is sent. Checked: two requests to a host, a domain or an address are never closer than
their delay, whoever sent them, whatever was killed, paused, cut off power or set to another time in between; and every
process gets all its requests through.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation import seams
from tests.simulation.faults import FaultInjector, FaultRates, Service
from tests.simulation.world import World
from webmill.crawl.fetch import FetchFailure
from webmill.crawl.fetch.fetcher import FetchRequest
from webmill.crawl.options import Politeness
from webmill.crawl.politeness.requester import BatchedReservations, HostBusy, Requester, RequestPacing
from webmill.crawl.scheduler.shard_crawler import DISK_RETRY_INTERVAL
from webmill.errors import Unavailable
from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule

ABOUT_EQUAL = 0.002  # seconds that may lie between two readings of a clock


class SimulatedSelector(selectors.SelectSelector):
    """Waits in simulated time; nothing else ever becomes ready."""

    def select(self, timeout: float | None = None) -> list[Any]:
        assert seams.current
        if timeout is None or timeout > 0:
            seams.current.sleep(60.0 if timeout is None else timeout)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__(SimulatedSelector())

    def time(self) -> float:
        assert seams.current
        return seams.current.machine.since_boot()


class Address:
    def __init__(self, ip: str) -> None:
        self.ip = ip


class SimulatedFetcher:
    """Servers that note each request at the moment it is sent."""

    def __init__(self, model: HostScheduleModel) -> None:
        self._model = model

    async def locate(self, url: str) -> Address:
        await asyncio.sleep(self._model.world.latency())
        return Address(f"10.0.0.{len(host_of(url)) % 2}")

    async def fetch(
        self, request: FetchRequest, address: Address, *, reserve: Callable[[Any], Awaitable[bool]]
    ) -> FetchFailure:
        """Connect, which takes a while and has a time limit that also ends a process's pause, and send the request.
        Some connect to the address of the other hosts, if they may."""
        limit, rng = self._model.politeness.connect_time, self._model.world.rng
        try:
            async with asyncio.timeout(limit):
                await asyncio.sleep(rng.uniform(0.0, 0.5 * limit))
                if rng.random() < 0.3 and await reserve(other := Address(f"10.0.0.{1 - int(address.ip[-1])}")):
                    address = other
                await asyncio.sleep(rng.uniform(0.0, 0.6 * limit))
        except TimeoutError:
            return FetchFailure(request.url, "connect_timeout", "", sent=False)
        self._model.received(request.url, address.ip)
        await asyncio.sleep(self._model.world.latency())
        return FetchFailure(request.url, "reset", "", sent=True, ip=address.ip)


class HostScheduleModel:
    def __init__(self, world: World) -> None:
        self.world, rng = world, world.rng
        self.machine = world.machine("machine")
        delay = rng.choice((3.0, 30.0, 70.0))
        self.politeness = Politeness(user_agent="simulation", delay=delay, address_delay=rng.choice((1.0, delay)))
        self.hosts = [f"{'w' * number}.site-{number % 2}.example" for number in range(1, rng.randint(3, 5))]
        self.log: dict[str, float] = {}  # when a key was last asked, in true time
        self.left = {f"process-{number}": rng.randint(4, 9) for number in range(rng.randint(2, 3))}
        # A process that finds another in its way, one that is stopped, gives up after a while and is started again.
        self.services = [Service(world, self.machine, name, self._run, gives_up=(Unavailable,)) for name in self.left]
        cuts = rng.choice((0.0, 0.0, 10 * delay))
        rates = FaultRates(
            kills=rng.choice((0.0, 2 * delay, 2 * delay)),
            stalls=rng.choice((0.0, 4 * delay)),
            cuts=cuts,
            jumps=rng.choice((0.0, 2 * delay, 2 * delay)),
            longest_stall=3 * delay,
            may_jump_forward=not cuts,  # after a reboot nobody can tell a clock that was set from time that has passed
        )
        self.faults = FaultInjector(world, self.services, rates)

    def received(self, url: str, ip: str) -> None:
        world, host = self.world, host_of(url)
        domain = host.partition(".")[2]
        world.counts["requests"] += 1
        world.note("server", f"request for {host} at {ip}")
        delays = {host: self.politeness.delay, domain: self.politeness.delay, ip: self.politeness.address_delay}
        for key, delay in delays.items():
            gap = world.now - self.log.get(key, -1e9)
            world.check(gap >= delay - ABOUT_EQUAL, f"{key} was asked after {gap:.3f} s instead of {delay}")
            self.log[key] = world.now

    def _run(self) -> None:
        loop = SimulatedLoop()
        task = loop.create_task(self._crawl())
        try:
            loop.run_until_complete(task)
        finally:
            loop.close()

    async def _crawl(self) -> None:
        me = seams.current
        assert me
        schedule = SqliteHostSchedule(self.machine.disk.root / "hosts.sqlite")
        clock = schedule.clock(None)
        wakeup = asyncio.Event()
        reservations = BatchedReservations(clock=clock, wakeup=wakeup)
        requester = Requester(SimulatedFetcher(self), self.politeness, reservations, clock=clock)  # type: ignore[arg-type]
        storing = asyncio.create_task(self._store(schedule, clock, reservations, wakeup))
        while self.left[me.name]:
            url = f"https://{self.world.rng.choice(self.hosts)}/"
            answer = await requester.request(url, pacing=RequestPacing())
            if isinstance(answer, HostBusy):
                await asyncio.sleep(max(0.0, answer.until - clock()))
            else:
                self.left[me.name] -= 1
        wakeup.set()
        storing.cancel()
        schedule.update(reservations.take()[1], clock=clock)
        schedule.close()

    async def _store(self, schedule: SqliteHostSchedule, clock: Any, reservations: Any, wakeup: asyncio.Event) -> None:
        """Do what the store of a shard does with reservations (`ShardStore._reserve`)."""
        while True:
            await wakeup.wait()
            wakeup.clear()
            wanted, updates = reservations.take()
            longest = self.politeness.longest_reservation
            while True:
                try:
                    if updates:
                        schedule.update(updates, clock=clock)
                        updates = []
                    refused = schedule.reserve(wanted, now=clock(), longest=longest) if wanted else {}
                    break
                except Unavailable:
                    await asyncio.sleep(DISK_RETRY_INTERVAL)
            reservations.answer(wanted, refused)

    def finish(self) -> None:
        def is_done() -> bool:
            return all(service.is_done for service in self.services)

        self.world.run(is_done, seconds=60 * self.politeness.delay)
        self.faults.stop()
        if not self.world.run(is_done, seconds=3 * 86400.0):
            self.world.fail("requests were never sent")


def host_of(url: str) -> str:
    return url.split("/")[2]


def simulate(world: World) -> None:
    HostScheduleModel(world).finish()
