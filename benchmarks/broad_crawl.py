"""A broad crawl of a simulated web: do memory, files, politeness and speed hold as hosts and URLs grow?

    BENCH_HOSTS=1000000 BENCH_URLS=20000000 python -m benchmarks broad_crawl

One process of a crawl with its own parts: `ShardCrawler`, frontier, host schedule, robots.txt, links, traps, log, one
sync for each batch and file. Servers, network and clock are simulated (`broad_web.py`, which says where its statistics
come from): an event loop whose time jumps to the next timer, and a batch that takes 0.1 s of it to be stored. WARC
files are not written: `archiving` has their cost. It ends when `BENCH_URLS` URLs are known (1,000,000; hosts: a
twentieth).

Every request is checked by the servers: the shortest time between two to one host, domain and address is printed, and
one below the delay ends the program. *Memory* is what the process has more than before the crawl, without the servers'
notes; CPU is that of the crawl without the servers': for each request, for each URL visited, and of that what archive,
frontier and schedule take in the thread that stores. A request for a page with 62 links costs more than one for a
robots.txt, so CPU for each request follows the share of the latter. *Simulated* requests/s are those of 2,000
connections whose process costs no time: what politeness and slow servers allow. CPU says what a core allows.
"""

from __future__ import annotations

import asyncio
import os
import resource
import selectors
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.broad_web import (
    DEAD_NAMES,
    NOT_FOUND,
    REDIRECTS,
    REFUSING,
    SERVER_ERRORS,
    SILENT,
    SILENT_NAMES,
    SLOW_HOSTS,
    TRAP_HOSTS,
    BroadWeb,
    PolitenessJudge,
)
from webmill.collection import Collection
from webmill.crawl.backends import crawl_backends
from webmill.crawl.fetch import FetchedResponse, FetchFailure
from webmill.crawl.fetch.types import FetchRequest, SocketAddress
from webmill.crawl.frontier.base import domain_of
from webmill.crawl.layout import CrawlFolder, write_seeds
from webmill.crawl.options import CrawlBackends, CrawlLimits, CrawlOptions, CrawlRules, Politeness
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.inbox import publish_links
from webmill.crawl.scheduler.shard_crawler import ShardCrawler
from webmill.crawl.scheduler.shard_process import make_crawler, open_store
from webmill.formats.http.head import parse_response_head
from webmill.formats.url.normalise import host_of
from webmill.formats.warc.capture import Capture, WrittenCapture
from webmill.infra import atomic
from webmill.infra.clock import Anchor, SteadyClock
from webmill.infra.host_schedule.sqlite_schedule import SqliteHostSchedule
from webmill.model import CaptureRef, Exchange, Link
from webmill.settings import CrawlSettings

URLS = int(os.environ.get("BENCH_URLS", "1000000"))
HOSTS = int(os.environ.get("BENCH_HOSTS", str(URLS // 20)))
FOLDER = os.environ.get("BENCH_FOLDER")  # on the disk that is to be measured
DELAY, ADDRESS_DELAY, CONNECTIONS = 30.0, 1.0, 2000
BATCH_SECONDS = 0.1  # of simulated time
ROWS = 20
EPOCH = 1.75e9
ABOUT_EQUAL = 0.002


class SimulatedSelector(selectors.SelectSelector):
    """Waits in simulated time; nothing else ever becomes ready."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self.now += timeout or 0.0
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop without threads, whose time passes only while it waits."""

    def __init__(self) -> None:
        self.selector = SimulatedSelector()
        self.storing = 0.0  # seconds of CPU that batches took
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now

    def run_in_executor(self, _: Any, func: Callable[..., Any], *args: Any) -> Any:
        is_batch = getattr(func, "__name__", "") == "process_batch"
        done, takes, before = self.create_future(), BATCH_SECONDS if is_batch else 0.0, time.process_time()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            done.set_exception(error)
        else:
            self.call_later(takes, lambda: done.cancelled() or done.set_result(result))
        self.storing += (time.process_time() - before) * is_batch
        return done


class SimulatedServers:
    """The fetcher of a crawl whose servers are simulated."""

    def __init__(self, web: BroadWeb, judge: PolitenessJudge, clock: Callable[[], float]) -> None:
        self.web, self.judge, self.clock = web, judge, clock
        self.waiting_for_names = 0
        self.results: Counter[str] = Counter()
        self.cpu = 0.0  # seconds that the simulation of answers took

    def look_ahead(self, url: str) -> None: ...

    async def close(self) -> None: ...

    async def locate(self, url: str) -> SocketAddress | FetchFailure:
        host = host_of(url)
        dice = self.web.dice("name", host)
        chance = dice.random()
        self.waiting_for_names += 1
        await asyncio.sleep(10.0 if chance < SILENT_NAMES else 0.02 + 0.2 * dice.random())
        self.waiting_for_names -= 1
        if chance < SILENT_NAMES:
            return FetchFailure(url, "dns_timeout", "no answer", sent=False)
        if chance < SILENT_NAMES + DEAD_NAMES:
            return FetchFailure(url, "dns_notfound", "no such name", sent=False)
        return SocketAddress(self.web.address_of(self.web.number_of(host)), 443)

    async def fetch(self, request: FetchRequest, address: SocketAddress, **_: object) -> FetchedResponse | FetchFailure:
        host = host_of(request.url)
        number = self.web.number_of(host)
        about_host, dice = self.web.dice("host", host), self.web.dice("page", request.url)
        chance = about_host.random()
        domain = int(domain_of(request.url)[4:-8])
        self.judge.note(number, domain, address.ip, now=self.clock())
        if chance < REFUSING + SILENT:
            reason = "connect_refused" if chance < REFUSING else "connect_timeout"
            await asyncio.sleep(0.1 if chance < REFUSING else 20.0)
            self.results[reason] += 1
            return FetchFailure(request.url, reason, reason, sent=False, ip=address.ip)
        seconds = min(60.0, about_host.lognormvariate(-0.9, 0.8))
        if chance > 1 - SLOW_HOSTS:
            seconds = about_host.uniform(5.0, 25.0)
        began = datetime.fromtimestamp(self.clock(), UTC)
        await asyncio.sleep(seconds)
        before = time.process_time()
        answer = self._answer(request.url, number, dice, address=address, began=began, seconds=seconds)
        self.cpu += time.process_time() - before
        return answer

    def _answer(
        self, url: str, number: int, dice: Any, *, address: SocketAddress, began: datetime, seconds: float
    ) -> FetchedResponse:
        is_trap = self.web.dice("trap", str(number)).random() < TRAP_HOSTS
        chance, fields, body = dice.random(), b"Content-Type: text/html\r\n", b"<html><p>nothing here</p></html>"
        if url.endswith("/robots.txt"):
            status, body = self.web.robots(self.web.dice("robots", str(number)))
            fields = b"Content-Type: text/plain\r\n"
        elif chance < REDIRECTS:
            status, target = 301, f"https://{self.web.host(self.web.popular_host(dice))}/"
            fields += f"Location: {target}\r\n".encode()
        elif chance < REDIRECTS + NOT_FOUND:
            status = 404
        elif chance < REDIRECTS + NOT_FOUND + SERVER_ERRORS:
            status = 503
        else:
            status, body = 200, self.web.page(url, dice, is_trap=is_trap)
        self.results[str(status)] += 1
        head = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n" % (status, len(body), fields)
        exchange = Exchange(
            url=url, date=began, seconds=seconds, ip=address.ip, request=b"GET / HTTP/1.1\r\n\r\n", response=head + body
        )
        return FetchedResponse(exchange, parse_response_head(head), body, ())


class UncheckedWriter:
    """Says that captures are written, and keeps nothing."""

    def __init__(self) -> None:
        self.captures = self.bytes = 0

    def describe(self, captures: Sequence[Capture]) -> list[Capture]:
        return list(captures)

    def append(self, capture: Capture) -> WrittenCapture:
        self.captures += 1
        self.bytes += (length := len(capture.exchange.response))
        name = f"crawl-data/broad/segments/1/warc/broad-{self.bytes >> 30:06d}.warc.gz"
        ref = CaptureRef(
            url=capture.exchange.url,
            filename=name,
            offset=self.bytes & 0x3FFFFFFF,
            length=length,
            digest=capture.digest,
        )
        return WrittenCapture(ref, f"<urn:uuid:00000000-0000-4000-8000-{self.captures:012d}>")

    def sync(self) -> None: ...

    def close(self) -> None: ...


class NoArchive:
    def open_writer(self, **_: object) -> UncheckedWriter:
        return UncheckedWriter()

    def hold(self) -> str:
        return ""


class SimulatedSchedule(SqliteHostSchedule):
    """The host schedule of a machine whose clock is the loop's."""

    def __init__(self, path: Path, loop: SimulatedLoop) -> None:
        super().__init__(path)
        self._loop = loop

    def clock(self, _: Anchor | None) -> SteadyClock:
        return SteadyClock(None, wall=lambda: EPOCH, since_boot=self._loop.time, boot="simulated")


class BroadCrawl:
    """One shard that crawls a `BroadWeb` until `urls` URLs are known."""

    def __init__(self, folder: Path, *, hosts: int, urls: int) -> None:
        self.urls, self.loop = urls, SimulatedLoop()
        self.web = BroadWeb(hosts)
        self.judge = PolitenessJudge(self.web)
        self.servers = SimulatedServers(self.web, self.judge, lambda: EPOCH + self.loop.time())
        self.folder = CrawlFolder(Collection(folder, "broad"))
        self.rows: list[dict[str, float]] = []
        self.memory_before = memory()
        self.began, self.cpu_before = time.monotonic(), cpu_seconds()
        self.crawler: ShardCrawler | None = None
        self.next_row = urls / ROWS

    def options(self) -> CrawlOptions:
        local = crawl_backends()
        backends = CrawlBackends(
            open_frontier=local.open_frontier,
            open_inbox=local.open_inbox,
            open_host_schedule=partial(SimulatedSchedule, loop=self.loop),
            open_domain_budget=local.open_domain_budget,
        )
        return CrawlOptions(
            folder=self.folder,
            archive=NoArchive(),  # type: ignore[arg-type]
            backends=backends,
            politeness=Politeness(user_agent="simulated", delay=DELAY, address_delay=ADDRESS_DELAY),
            limits=CrawlLimits(),
            rules=CrawlRules(scope="any"),
            settings=CrawlSettings(concurrency=CONNECTIONS),
        )

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        atomic.make_folder(self.folder.path)
        seeds = self.web.seeds(max(100, self.web.hosts // 100))
        write_seeds(self.folder.seeds, seeds)
        signal.signal(signal.SIGTERM, lambda *_: self.crawler and self.crawler.stop(grace=0.0))  # it prints what it has
        self.loop.run_until_complete(self._crawl(seeds))
        self.loop.close()

    async def _crawl(self, seeds: list[str]) -> None:
        with ExitStack() as stack:
            options = self.options()
            store = open_store(options, 0, 1, stack)
            inbox = options.backends.open_inbox(self.folder.inbox(0))
            publish_links(inbox, [Link(url) for url in seeds])
            inbox.close()
            self.crawler = make_crawler(options, store, self.servers, report=self.note)  # type: ignore[arg-type]
            await self.crawler.run()

    def note(self, progress: CrawlProgress) -> None:
        known = progress.waiting + progress.visited
        if self.crawler and known >= self.next_row:
            self.next_row = self.urls / ROWS * (int(known / self.urls * ROWS) + 1)
            self.rows.append(row := self.measure(progress, known))
            print(
                "| " + " | ".join(f"{value:,.{DIGITS.get(name, 0)}f}" for name, value in row.items()) + " |", flush=True
            )
        if self.crawler and known >= self.urls:
            self.crawler.stop(grace=0.0)
        for name, delay in (("host", DELAY), ("domain", DELAY), ("address", ADDRESS_DELAY)):
            if self.judge.shortest[name] < delay - ABOUT_EQUAL:
                sys.exit(f"a {name} was asked after {self.judge.shortest[name]:.3f} s instead of {delay}")

    def measure(self, progress: CrawlProgress, known: int) -> dict[str, float]:
        cpu, simulated = cpu_seconds() - self.cpu_before - self.servers.cpu, self.loop.time()
        requests = self.judge.requests
        return {
            "URLs known": known,
            "visited": progress.visited,
            "domains": progress.domains,
            "requests": requests,
            "CPU, ms each": 1000 * cpu / max(1, requests),
            "a visit": 1000 * cpu / max(1, progress.visited),
            "storing it": 1000 * self.loop.storing / max(1, progress.visited),
            "requests/s, simulated": requests / max(1.0, simulated),
            "memory, MiB": (memory() - self.memory_before - len(self.judge.addresses) * 140) / (1 << 20),
        }


DIGITS = {"CPU, ms each": 2, "a visit": 2, "storing it": 2, "memory, MiB": 1}
COLUMNS = (
    *("URLs known", "visited", "domains", "requests", "CPU, ms each", "a visit", "storing it"),
    *("requests/s, simulated", "memory, MiB"),
)


def memory() -> int:
    """Return how many bytes of this process are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def print_memory(rows: list[dict[str, float]]) -> None:
    """Print what the second half of the crawl has added: before, buffers and caches fill up to their limits."""
    if len(rows) < 2:
        return
    half, last = rows[len(rows) // 2 - 1], rows[-1]
    grown, urls, domains = (last[name] - half[name] for name in ("memory, MiB", "URLs known", "domains"))
    print(f"- memory, from {half['URLs known']:,.0f} URLs on: {grown:,.1f} MiB", end="")
    print(f" for {urls:,.0f} URLs and {domains:,.0f} domains more: {grown / urls * 1e6:,.0f} MiB for a million URLs")


def print_files(folder: Path) -> None:
    """Print what the frontier takes of the disk, by part."""
    sizes: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for place, _, names in os.walk(folder):
        for name in names:
            found = Path(place, name).stat()
            part = Path(place, name).relative_to(folder).parts
            kind = "/".join(one for one in part[:2] if not one.startswith("shard-")) or name
            sizes[kind] += found.st_size
            blocks[kind] += found.st_blocks * 512
            files[kind] += 1
    print("\n| part of the frontier | files | MiB | MiB on the disk |\n|---|---:|---:|---:|")
    for kind, size in sizes.most_common():
        print(f"| {kind} | {files[kind]:,} | {size / (1 << 20):,.1f} | {blocks[kind] / (1 << 20):,.1f} |")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="webmill-broad-", dir=FOLDER) as folder:
        crawl = BroadCrawl(Path(folder), hosts=HOSTS, urls=URLS)
        print(f"## Broad crawl of {HOSTS:,} hosts until {URLS:,} URLs are known\n")
        print("| " + " | ".join(COLUMNS) + " |\n|" + "---:|" * len(COLUMNS))
        crawl.run()
        print()
        print_memory(crawl.rows)
        shortest = ", ".join(f"{name} {gap:.3f} s" for name, gap in crawl.judge.shortest.items())
        print(f"- shortest time between two requests to one: {shortest}")
        answers = ", ".join(f"{name}: {count:,}" for name, count in crawl.servers.results.most_common())
        print(f"- answers: {answers}")
        print(f"- wall clock: {time.monotonic() - crawl.began:,.0f} s")
        print_files(crawl.folder.path)


if __name__ == "__main__":
    main()
