"""Crawls to be judged: `crawl(root, setup)` runs one from here, `start(root, setup)` one to be killed.

What a crawl has in hand is read from its frontiers, what it archived from its WARC files, what it asked from the log of
the server. The three must agree.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace
from warcio.archiveiterator import ArchiveIterator

from webmill.archive.segment import open_stored
from webmill.collection import Collection
from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier.base import LastVisit, domain_of
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.layout import CrawlFolder
from webmill.crawl.options import CrawlLimits, CrawlOptions, CrawlRules, NetworkAccess, Politeness, RevisitSchedule
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.coordinator import Coordinator
from webmill.crawl.scheduler.shard_process import crawl_shard, run_event_loop
from webmill.crawl.start import CrawlRunReport, RunWatcher, start_crawl
from webmill.pipeline.crawl_archive import WarcArchive
from webmill.settings import CrawlSettings, SiteSettings
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest

NAME = "TEST-2024"
ALLOW = b"User-agent: *\nAllow: /\n"
AGENT = "webmill-test (nobody@example.org)"
Resolve = Mapping[str, tuple[str, int]]


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """All that a crawl of the tests may be told, as it travels to a program of its own."""

    seeds: tuple[str, ...] = ()
    resolve: dict[str, tuple[str, int]] = {}
    dns_servers: tuple[str, ...] = ()
    processes: int = 1
    delay: float = 0.0
    address_delay: float = 0.0
    page_resource_delay: float = 1.0
    window: float = 3.0
    max_retry_after: float = 86400.0
    obey_robots: bool = True
    obey_nofollow: bool = True
    limits: CrawlLimits = CrawlLimits(retry_wait=0.2)
    rules: CrawlRules = CrawlRules(scope="any")
    parks: bool = False  # patterns that give nothing new: most hosts of the tests have hardly a text
    revisits: RevisitSchedule = RevisitSchedule()
    allow_private: bool = True
    excluded: tuple[str, ...] = ()
    concurrency: int = 500
    cookies: str = "session"
    sites: tuple[SiteSettings, ...] = ()
    file_bytes: int = 1 << 30
    segment: str = "20240101000000"

    def options(self, root: Path) -> CrawlOptions:
        return CrawlOptions(
            folder=CrawlFolder(collection := Collection(root.resolve(), NAME)),
            archive=WarcArchive(
                collection,
                operator="nobody@example.org",
                max_bytes=self.file_bytes,
                languages=False,
                segment=self.segment,
            ),
            backends=crawl_backends(),
            politeness=Politeness(
                user_agent=AGENT,
                delay=self.delay,
                address_delay=self.address_delay,
                page_resource_delay=self.page_resource_delay,
                window=self.window,
                max_retry_after=self.max_retry_after,
                obey_robots=self.obey_robots,
                obey_nofollow=self.obey_nofollow,
            ),
            limits=self.limits,
            network=NetworkAccess(allow_private=self.allow_private, resolve=self.resolve, dns_servers=self.dns_servers),
            rules=self.rules if self.parks else replace(self.rules, trap_budget=0, domain_trap_budget=0),
            revisits=self.revisits,
            settings=CrawlSettings(
                exclude_domains=self.excluded,
                concurrency=self.concurrency,
                cookies=self.cookies,
                sites=self.sites,
            ),
        )


def crawl(root: Path, setup: Setup, **watcher: Any) -> CrawlRunReport:
    return start_crawl(setup.options(root), setup.seeds, processes=setup.processes, watcher=RunWatcher(**watcher))


def crawl_until(root: Path, setup: Setup, condition: Callable[[CrawlProgress], object]) -> CrawlRunReport:
    """In threads, stopped in good order when the condition holds of its progress."""
    coordinators: list[Coordinator] = []

    def show(progress: CrawlProgress) -> None:
        if condition(progress):
            coordinators[0].stop()

    watcher = RunWatcher(show=show, started=coordinators.append)
    return start_crawl(setup.options(root), setup.seeds, processes=setup.processes, watcher=watcher, start=ShardThread)


def crawl_here(root: Path, setup: Setup) -> CrawlRunReport:
    """With threads for processes: nothing has to be started, and whoever measures sees all of it."""
    return crawl_until(root, setup, lambda _: False)


class ShardThread:
    """As much of a process as the coordinator asks for, as a thread of ours."""

    deadline = None
    lived = 0.0

    def __init__(self, options: CrawlOptions, shard: int, shards: int) -> None:
        self._pipe, theirs = Pipe()
        self.has_ended = False
        self._thread = threading.Thread(target=run_shard, args=(options, shard, shards, theirs), name=f"{shard:02d}")
        self._thread.start()

    def waitables(self) -> list[Connection]:
        return [] if self.has_ended else [self._pipe]

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def send(self, message: object) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            pass

    def receive(self) -> list[Any]:
        messages = []
        try:
            while self._pipe.poll():
                messages.append(self._pipe.recv())
        except (EOFError, OSError):
            self.has_ended = True
        return messages

    def hang_up(self) -> None:
        self._pipe.close()

    def kill(self) -> None:
        raise AssertionError("it does not end")

    def reap(self, grace: float) -> None:
        self._thread.join(grace)
        assert not self._thread.is_alive(), "it does not end"
        self._pipe.close()


def run_shard(options: CrawlOptions, shard: int, shards: int, parent: Connection) -> None:
    try:
        run_event_loop(crawl_shard(options, shard, shards, parent))
    finally:
        parent.close()


class Linked:
    """A host of pages that all link to each other; `replies` are other answers, by path without the slash."""

    def __init__(self, pages: int, *, robots: Any = ALLOW, **replies: Answer) -> None:
        self._pages, self._robots = pages, robots
        self.replies = {f"/{path}": reply for path, reply in replies.items()}

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path in self.replies:
            return self.replies[request.path]
        if request.path == "/robots.txt":
            return HttpReply(body=self._robots, media_type="text/plain")
        links = "".join(f'<a href="/{number}">{number}</a>' for number in range(self._pages))
        return HttpReply(body=f"<html><body>{request.host}{request.path}{links}</body></html>".encode())

    def pages(self, version: int) -> Iterator[ExpectedPage]:
        yield from ()


class Growing(Linked):
    """A host that has always two more pages, until it is told not to grow: no crawl of it ends before that."""

    grows = True

    def __init__(self, **replies: Answer) -> None:
        super().__init__(0, **replies)

    def answer(self, request: ReceivedRequest) -> Answer:
        last = request.path.strip("/") or "0"
        if request.path in self.replies or not last.isdecimal() or not self.grows:
            return super().answer(request)
        links = "".join(f'<a href="/{int(last) + step}">on</a>' for step in (1, 2))
        return HttpReply(body=f"<html><body>{request.host}{request.path}{links}</body></html>".encode())


def moved_to(place: str, status: int = 302) -> HttpReply:
    return HttpReply(status=status, headers=(("Location", place),))


# --- a program of its own, to be killed ---


def start(root: Path, setup: Setup, *, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """In a session of its own. What it says goes to files beside the collection: no pipe waits for its children."""
    with (root.parent / "out").open("wb") as out, (root.parent / "err").open("ab") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.crawl_program", str(root), msgspec.json.encode(setup).decode()],
            stdout=out,
            stderr=err,
            start_new_session=True,
            env=environment,
        )


def children(parent: int) -> list[int]:
    """The shards of a crawl's program, the first first. Linux."""
    try:
        text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    except OSError:
        return []
    return [int(child) for child in text.split() if b"spawn_main" in _command(int(child))]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


# --- what it left behind ---


@contextmanager
def frontiers(root: Path) -> Iterator[list[LocalFrontier]]:
    opened = [LocalFrontier(folder) for folder in sorted(root.glob("frontier/shard-*"))]
    try:
        yield opened
    finally:
        for one in opened:
            one.close()


def visits(root: Path) -> dict[str, LastVisit]:
    with frontiers(root) as opened:
        return {visit.url: visit for one in opened for visit in one.visits()}


def archives(root: Path) -> list[Path]:
    return sorted(root.glob("crawl-data/*/segments/*/*/*.warc.gz"))


def captures(root: Path, *, disputed: Container[str] = ()) -> list[tuple[str, str, str]]:
    """(type, URL, record id), by warcio, which agrees with all digests but those of URLs that are `disputed`."""
    found = []
    for path in archives(root):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests=True):
                record.raw_stream.read()
                header = record.rec_headers.get_header
                assert record.digest_checker.passed is not False or header("WARC-Target-URI") in disputed, header
                if record.rec_type in ("response", "revisit"):
                    found.append((record.rec_type, header("WARC-Target-URI"), header("WARC-Record-ID")))
    return found


def check_records(root: Path) -> None:
    """Each visit that had an answer points exactly to a whole record of its URL."""
    collection = Collection(root.resolve(), NAME)
    for visit in visits(root).values():
        assert bool(visit.status) == bool(visit.filename), visit
        assert visit.status or visit.error, visit
        if visit.filename:
            with open_stored(collection, visit.filename) as stream:
                stream.seek(visit.offset)
                stored = stream.read(visit.length)
            record = next(iter(ArchiveIterator(BytesIO(gzip.decompress(stored)))))
            assert record.rec_headers.get_header("WARC-Target-URI") == visit.url
            assert record.rec_type in ("response", "revisit")


# --- what the server saw ---


class Seen(msgspec.Struct, frozen=True):
    """A request, as the log of either server tells of it."""

    host: str
    address: str
    path: str
    status: int
    started: float
    ended: float

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"

    @property
    def is_robots(self) -> bool:
        return self.path == "/robots.txt"


def seen_by(log: Iterable[Any]) -> list[Seen]:
    """Of TestWeb's visits, or of nginx's lines."""
    found = []
    for one in log:
        started = one.started if hasattr(one, "started") else one.at
        found.append(Seen(one.host.partition(":")[0], one.address, one.path, one.status, started, one.ended))
    return sorted(found, key=lambda each: each.started)


def counts(seen: Iterable[Seen]) -> Counter[str]:
    return Counter(one.url for one in seen)


def smallest_gaps(seen: Iterable[Seen], *, by: str) -> dict[str, float]:
    """Between two starts, by `host`, `domain` or `address`."""
    starts: dict[str, list[float]] = {}
    for one in seen:
        key = domain_of(one.url) if by == "domain" else getattr(one, by)
        starts.setdefault(key, []).append(one.started)
    gaps = {key: min((b - a for a, b in pairwise(sorted(times))), default=1e9) for key, times in starts.items()}
    return dict(sorted(gaps.items(), key=lambda pair: pair[1]))


def most_at_once(seen: Iterable[Seen]) -> int:
    """On any one host."""
    by_host: dict[str, list[tuple[float, int]]] = {}
    for one in seen:
        by_host.setdefault(one.host, []).extend([(one.started, 1), (max(one.ended, one.started + 1e-6), -1)])
    most = 0
    for edges in by_host.values():
        level = 0
        for _, step in sorted(edges):
            level += step
            most = max(most, level)
    return most


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")
