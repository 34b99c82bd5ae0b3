"""The frontier alone: links in, turns out. `BENCH_URLS=10000000` for the size of a real crawl (about ten minutes).

A commit is what a hundred pages bring: fifty links each, 30 to their own domain, the others to domains of which few are
linked to often and most seldom. Half of all links are known already; then all are new, in a frontier of their own.
Turns come 500 at a time, one URL each, and are settled with one commit. Every commit and every claim is synced to the
disk.

A machine that others share is not always equally fast: a yardstick, a piece of work that never changes, is timed beside
each part. An ext4 without a journal passes over the inodes of files that were deleted in the last minutes: there the
first part, which makes the files of domains, is slow after an earlier run.

Rivals do less: the plain table has no domains, turns nor leases; the queues have no memory of what they had.
They are raced on 10,000 links, ours too, so that opening and closing count for all.
"""

from __future__ import annotations

import importlib.util
import os
import random
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from statistics import median

from benchmarks.frame import Contestant, race
from webmill.crawl.frontier.base import (
    ClaimRequest,
    FrontierStats,
    FrontierUpdate,
    LastVisit,
    TurnOutcomes,
    VisitDone,
    domain_of,
)
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.frontier.sqlite_schema import SCHEMA
from webmill.crawl.scheduler.shard_process import collect_garbage_seldom
from webmill.infra.sqlite import Database
from webmill.model import Link

URLS = int(os.environ.get("BENCH_URLS", "200000"))
PAGES, LINKS = 100, 50  # of a commit
PER_DOMAIN = 160  # URLs, in the end: a frontier is made for 160 million on a million domains
RACE = 10_000
TURNS = 500
MIB = 1 << 20


class Web:
    """Endless pages. A link is a number; its domain follows from it, so that known ones need no memory. One in so many
    links is new."""

    def __init__(self, domains: int, *, one_new_in: int = 2) -> None:
        self.domains, self.one_new_in = domains, one_new_in
        self.dice = random.Random(1)
        self.made: list[int] = [0] * domains  # URLs that were linked to, by domain

    def links(self) -> list[Link]:
        return [link for _ in range(PAGES) for link in self.page()]

    def page(self) -> Iterator[Link]:
        own = self.popular()
        for number in range(LINKS):
            domain = own if number < 30 else self.popular()
            is_new = number % self.one_new_in == 0 or not self.made[domain]
            self.made[domain] += is_new
            at = self.made[domain] if is_new else self.dice.randrange(self.made[domain]) + 1
            yield Link(f"https://www.site{domain}.example/articles/2024/{at:07d}.html", 1)

    def popular(self) -> int:
        return int(self.domains * self.dice.random() ** 3)


def resident() -> int:
    """Bytes of memory that this process has of its own now; mapped files, which the kernel may take back, left out."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0  # no Linux
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


def yardstick() -> float:
    """Seconds of CPU that the same work takes: hashes, a table of them, and their order, as the frontier has it."""
    before = time.process_time()
    hashes = [blake2b(b"https://www.example.com/%d" % number, digest_size=16).digest() for number in range(5000)]
    table = {hash_: at for at, hash_ in enumerate(hashes)}
    sorted(table)
    return time.process_time() - before


def fill(frontier: LocalFrontier, web: Web, *, until: int) -> None:
    print("\n| URLs | links/s of CPU | links/s | slowest commit, s | memory, MiB | yardstick, ms |")
    print("|---:|---:|---:|---:|---:|---:|")
    total = 0
    for part in range(1, 6):
        cpu = wall = slowest = 0.0
        links = 0
        sticks = []
        while total < until * part // 5:
            step = FrontierUpdate(links=web.links())
            if links % (20 * PAGES * LINKS) == 0:
                sticks.append(yardstick())
            before = time.process_time(), time.perf_counter()
            total += frontier.commit(step, now=float(total)).added
            took = time.perf_counter() - before[1]
            cpu, wall, slowest = cpu + time.process_time() - before[0], wall + took, max(slowest, took)
            links += len(step.links)
        print(
            f"| {total:,} | {links / cpu:,.0f} | {links / wall:,.0f} | {slowest:.2f} | {resident() / MIB:.0f} "
            f"| {1000 * median(sticks):.1f} |",
            flush=True,
        )


def take_turns(frontier: LocalFrontier, *, count: int, start: float) -> int:
    done, now = 0, start
    while done < count:
        turns = frontier.claim(ClaimRequest(turns=TURNS, urls_per_turn=1, now=now, lease=600, hold=70))
        settled = [TurnOutcomes(turn.token, [VisitDone(visit(turn.items[0].url, now))], now + 70) for turn in turns]
        frontier.commit(FrontierUpdate(settled=settled), now=now)
        done += len(turns)
        now += 1 if turns else 70
    return done


def visit(url: str, now: float) -> LastVisit:
    name = "crawl-data/TEST-2024/segments/1700000000.1/warc/TEST-20240101000000-00001.warc.gz"
    return LastVisit(
        url=url, time=now, status=200, filename=name, offset=123_456_789, length=12_345, digest="sha1:" + "A" * 32
    )


def disk_bytes(path: Path) -> int:
    """As the file system counts them: a file of one line takes a block."""
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


def our_figures(folder: Path) -> None:
    web = Web(max(100, URLS // PER_DOMAIN))
    print(f"\n## Frontier of {URLS:,} URLs on up to {web.domains:,} domains")
    domain_of("https://www.example.com/")  # reads the list of suffixes
    collect_garbage_seldom()
    before = resident()
    frontier = LocalFrontier(folder)
    fill(frontier, web, until=URLS)
    own = resident() - before
    cpu, wall = time.process_time(), time.perf_counter()
    turns = take_turns(frontier, count=min(URLS // 5, 50_000), start=float(URLS))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"\n{turns:,} turns claimed and settled: {turns / cpu:,.0f}/s of CPU, {turns / wall:,.0f}/s")
    wall = time.perf_counter()
    stats = frontier.stats()
    print(f"stats: {(time.perf_counter() - wall) * 1000:.1f} ms")
    frontier.close()
    print_sizes(folder, stats, own=own)
    print_start(folder)


def our_figures_when_all_is_new(folder: Path) -> None:
    web = Web(max(100, URLS // PER_DOMAIN), one_new_in=1)
    print(f"\n## Frontier of {URLS:,} URLs, no link known before")
    frontier = LocalFrontier(folder)
    fill(frontier, web, until=URLS)
    frontier.close()


def print_start(folder: Path) -> None:
    wall = time.perf_counter()
    frontier = LocalFrontier(folder)
    print(f"opened in {time.perf_counter() - wall:.2f} s", end="; ")
    for _ in range(24):  # most of what the journal may hold, each on a domain of its own
        links = [Link(f"https://{secrets.token_hex(8)}.example/") for _ in range(5000 if URLS >= 1_000_000 else 100)]
        frontier.commit(FrontierUpdate(links=links), now=1e12)
    frontier._stack.close()  # as a kill leaves it: without a checkpoint
    wall = time.perf_counter()
    frontier = LocalFrontier(folder)
    print(f"after a death, {len(frontier._seen):,} URLs in the journal: {time.perf_counter() - wall:.2f} s")
    frontier.close()


def print_sizes(folder: Path, stats: FrontierStats, *, own: int) -> None:
    """Of SQLite by table: a page that is free is nobody's."""
    print("\n| what | MiB | bytes for each |\n|---|---:|---:|")
    tables = ["domain", "turn", "retry", "visit", "robots", "note", "tally", "run", "journal"]
    database = Database(folder / "state.sqlite", schema=SCHEMA)
    sizes = {
        table: database.read(
            "SELECT sum(pgsize) FROM dbstat WHERE name = ?1 OR name LIKE ?1 || '\\_%' ESCAPE '\\'", (table,)
        )[0][0]
        for table in tables
    }
    database.close()
    known = stats.waiting + stats.visited
    print_size("files of domains", disk_bytes(folder / "domains"), stats.domains, "domain")
    print_size("rows of domains", sizes["domain"], stats.domains, "domain")
    print_size("rows of visits", sizes["visit"], stats.visited, "visit")
    print_size("hashes of known URLs", disk_bytes(folder / "seen"), known, "URL")
    print_size("memory, more than before", own, known, "URL")


def print_size(what: str, size: int, count: int, unit: str) -> None:
    print(f"| {what} | {size / MIB:.1f} | {size / max(count, 1):.1f} per {unit} ({count:,}) |")


# The race


def ours(folder: Path, links: list[Link]) -> int:
    path = folder / secrets.token_hex(4)
    frontier = LocalFrontier(path)
    for start in range(0, len(links), PAGES * LINKS):
        frontier.commit(FrontierUpdate(links=links[start : start + PAGES * LINKS]), now=1.0)
    waiting = frontier.stats().waiting
    done, now = 0, 2.0
    while turns := frontier.claim(ClaimRequest(turns=TURNS, urls_per_turn=20, now=now, lease=600, hold=70)):
        settled = [
            TurnOutcomes(turn.token, [VisitDone(visit(item.url, now)) for item in turn.items], now) for turn in turns
        ]
        frontier.commit(FrontierUpdate(settled=settled), now=now)
        done += sum(len(turn.items) for turn in turns)
    frontier.close()
    assert done == waiting
    return done


def plain_sqlite(folder: Path, links: list[Link]) -> int:
    """What one writes in an afternoon: a table of URLs, a transaction for each page, and one for each visit."""
    connection = sqlite3.connect(folder / secrets.token_hex(4), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT UNIQUE, done INTEGER DEFAULT 0)")
    connection.execute("CREATE INDEX waiting ON urls (id) WHERE done = 0")
    for start in range(0, len(links), LINKS):
        connection.execute("BEGIN")
        rows = [(link.url,) for link in links[start : start + LINKS]]
        connection.executemany("INSERT OR IGNORE INTO urls (url) VALUES (?)", rows)
        connection.execute("COMMIT")
    done = 0
    while row := connection.execute("SELECT min(id) FROM urls WHERE done = 0").fetchone()[0]:
        connection.execute("UPDATE urls SET done = 1 WHERE id = ?", (row,))
        done += 1
    connection.close()
    return done


def persist_queue(folder: Path, links: list[Link]) -> int:
    import persistqueue

    queue = persistqueue.UniqueAckQ(str(folder / secrets.token_hex(4)), auto_commit=True)
    for link in links:
        queue.put(link.url)
    done = 0
    while queue.size:
        queue.ack(queue.get(timeout=1))
        done += 1
    queue.close()
    return done


def scrapy_queue(folder: Path, links: list[Link]) -> int:
    """Scrapy keeps what it has seen in memory, and syncs nothing."""
    from queuelib import FifoDiskQueue  # type: ignore[import-not-found,unused-ignore]

    queue, seen = FifoDiskQueue(str(folder / secrets.token_hex(4))), set()
    for link in links:
        if link.url not in seen:
            seen.add(link.url)
            queue.push(link.url.encode())
    done = 0
    while queue.pop():
        done += 1
    queue.close()
    return done


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        our_figures(Path(temporary) / "frontier")
        our_figures_when_all_is_new(Path(temporary) / "new")
    web = Web(400)
    links = [link for _ in range(RACE // (PAGES * LINKS)) for link in web.links()]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        contestants: dict[str, Contestant] = {
            "webmill": lambda: ours(folder, links),
            "plain SQLite, a transaction per page": lambda: plain_sqlite(folder, links),
        }
        offer(contestants, "persist-queue", module="persistqueue", run=lambda: persist_queue(folder, links))
        offer(contestants, "Scrapy's disk queue", module="queuelib", run=lambda: scrapy_queue(folder, links))
        race(f"{RACE:,} links in, every URL claimed and settled", contestants, unit="URLs", rounds=1)


def offer(contestants: dict[str, Contestant], name: str, *, module: str, run: Callable[[], int]) -> None:
    if importlib.util.find_spec(module):
        contestants[name] = run


if __name__ == "__main__":
    main()
