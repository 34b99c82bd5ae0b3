"""The frontier in Redis: links in, turns out, and what it takes of Redis's memory. `BENCH_URLS=2000000` for more.

Rivals run on the same server, at `appendfsync always` (what is acknowledged is kept) and at `everysec`:
- the reference's frontier as its document has it: one call for each step of each URL (`BF.EXISTS`, `BF.ADD`, `RPUSH`,
  `HSETNX`, `ZADD`); with `SETBIT`s where the server has no Bloom filter;
- the same, with the calls of a page in one pipeline;
- scrapy-redis's way: `SADD` of a SHA-1 fingerprint, then `ZADD` of the pickled request, for each request.
None of them has leases, an exact set of known URLs, or a journal. Links are those of `benchmarks.frontier`: 50 a page,
half of them known. Ours come as a crawl brings them, a hundred pages at a time, and a page at a time too.

Times are of the wall: most of what others do is waiting. CPU of this process and of Redis stands beside them.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import resource
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from tests.services.redis_kinds import bloom, private_redis

from benchmarks.frontier import Web, take_turns
from webmill.crawl.frontier.base import FrontierUpdate, RobotsEntry, domain_of
from webmill.crawl.frontier.redis.filter import FIRST_SEGMENT, GROWTH, MAX_SEGMENT, segment_of_hash
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.sorted_hash_run import HASHES_PER_WORD
from webmill.model import Link

URLS = int(os.environ.get("BENCH_URLS", "200000"))
RACE = 20  # commits of ours; rivals get fewer pages, they need longer
RIVAL_PAGES = 60
MB = 1_000_000
GOAL_URLS, GOAL_DOMAINS, GOAL_VISITS = 160_000_000, 1_000_000, 7_500_000

Add = Callable[[list[Link]], int]  # the links of a page; how many were new


def cpu(client: Any) -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    info = client.info("cpu")
    return used.ru_utime + used.ru_stime, info["used_cpu_sys"] + info["used_cpu_user"]


def reference(client: Any, *, has_bloom: bool) -> Add:
    def is_new(url: str) -> bool:
        if has_bloom:
            if client.execute_command("BF.EXISTS", "seen:bloom", url):
                return False
            return bool(client.execute_command("BF.ADD", "seen:bloom", url))
        places = [int.from_bytes(hashlib.md5(b"%d" % n + url.encode()).digest()[:4]) for n in range(10)]
        if all(client.getbit("seen:bits", place) for place in places):
            return False
        for place in places:
            client.setbit("seen:bits", place, 1)
        return True

    def add(links: list[Link]) -> int:
        count = 0
        for link in links:
            if is_new(link.url):
                domain = domain_of(link.url)
                client.rpush(f"frontier:{domain}", f"{link.url}|{link.depth}")
                client.hsetnx(f"domain:{domain}", "is_seeded", 0)
                client.zadd("domains:queue", {domain: 0.0}, lt=True)
                count += 1
        return count

    if has_bloom:
        client.execute_command("BF.RESERVE", "seen:bloom", "0.001", 10_000_000)
    return add


def pipelined_reference(client: Any) -> Add:
    """What its later code does: one round trip to ask, one to add."""

    def add(links: list[Link]) -> int:
        with client.pipeline(transaction=False) as pipe:
            for link in links:
                pipe.execute_command("BF.EXISTS", "seen:bloom", link.url)
            fresh = {link.url: link for link, known in zip(links, pipe.execute(), strict=True) if not known}
            for link in fresh.values():
                domain = domain_of(link.url)
                pipe.execute_command("BF.ADD", "seen:bloom", link.url)
                pipe.rpush(f"frontier:{domain}", f"{link.url}|{link.depth}")
                pipe.hsetnx(f"domain:{domain}", "is_seeded", 0)
                pipe.zadd("domains:queue", {domain: 0.0}, lt=True)
            pipe.execute()
        return len(fresh)

    client.execute_command("BF.RESERVE", "seen:bloom", "0.001", 10_000_000)
    return add


def scrapy_redis(client: Any) -> Add:
    def add(links: list[Link]) -> int:
        count = 0
        for link in links:
            fingerprint = hashlib.sha1(b"GET" + link.url.encode()).hexdigest()
            if client.sadd("spider:dupefilter", fingerprint):
                request = {"url": link.url, "method": "GET", "meta": {"depth": link.depth}, "priority": link.priority}
                client.zadd("spider:requests", {pickle.dumps(request): -link.priority})
                count += 1
        return count

    return add


def pages(count: int) -> list[list[Link]]:
    web = Web(2000)
    return [list(web.page()) for _ in range(count)]


def timed(client: Any, name: str, work: Callable[[], int], *, rates: dict[str, float]) -> None:
    before, start = cpu(client), time.perf_counter()
    added = work()
    took = time.perf_counter() - start
    own, server = (after - was for after, was in zip(cpu(client), before, strict=True))
    rates[name] = added / took
    ours = next(iter(rates.values()))
    print(
        f"| {name} | {added:,} | {added / took:,.0f} | {own / added * MB:.0f} | {server / added * MB:.0f} "
        f"| {ours / rates[name]:.1f} |",
        flush=True,
    )


def race(flags: tuple[str, ...], *, title: str, has_bloom: bool) -> None:
    print(f"\n## {title}\n\n| | added | adds/s | µs CPU/add, ours | µs CPU/add, Redis | times slower |")
    print("|---|---:|---:|---:|---:|---:|")
    rates: dict[str, float] = {}
    many, few = pages(RACE * 100), pages(RIVAL_PAGES)
    steps = [[link for page in many[at : at + 100] for link in page] for at in range(0, len(many), 100)]
    with private_redis(*flags) as server, redis.Redis.from_url(server.url) as client, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(RedisFrontier(server.url, folder / "a", prefix="a"))
        page = stack.enter_context(RedisFrontier(server.url, folder / "b", prefix="b"))
        for frontier in (ours, page):
            frontier.commit(FrontierUpdate(links=[Link("https://warm.example/")]), now=0.0)
        work = [
            (
                f"webmill, {RACE} x 100 pages",
                lambda: sum(ours.commit(FrontierUpdate(links=s), now=1.0).added for s in steps),
            )
        ]
        work += [
            ("webmill, a page at a time", lambda: sum(page.commit(FrontierUpdate(links=p), now=1.0).added for p in few))
        ]
        rivals: list[tuple[str, Callable[[], Add]]] = [
            ("reference, a call for each", lambda: reference(client, has_bloom=has_bloom)),
            ("scrapy-redis", lambda: scrapy_redis(client)),
        ]
        if has_bloom:
            rivals.append(("reference, a pipeline for each page", lambda: pipelined_reference(client)))
        for name, run in work:
            timed(client, name, run, rates=rates)
        ours.close()
        page.close()
        for name, make in rivals:
            client.flushall()
            add = make()
            timed(client, name, lambda: sum(map(add, few)), rates=rates)  # noqa: B023
        turns(server.url, folder / "c", client)


def turns(url: str, folder: Path, client: Any) -> None:
    with RedisFrontier(url, folder, prefix="c") as frontier:
        for at in range(4):
            links = [Link(f"https://site{number}.example/{at}") for number in range(5000)]
            frontier.commit(FrontierUpdate(links=links), now=0.0)
        before, start = cpu(client), time.perf_counter()
        count = take_turns(frontier, count=10_000, start=100.0)
        took = time.perf_counter() - start
        own, server = (after - was for after, was in zip(cpu(client), before, strict=True))
        print(
            f"\n{count:,} turns claimed and settled, 500 at a time: {count / took:,.0f}/s; "
            f"{own / count * MB:.0f} µs of CPU each, Redis {server / count * MB:.0f} µs"
        )


# Memory


def growth(client: Any, work: Callable[[], object]) -> int:
    before: int = client.info("memory")["used_memory"]
    work()
    used: int = client.info("memory")["used_memory"]
    return used - before


def filter_bytes(client: Any, prefix: str) -> int:
    keys = list(client.scan_iter(f"{{{prefix}}}:seen:*"))
    return sum(int(client.memory_usage(key, samples=0) or 0) for key in keys)


def memory(flags: tuple[str, ...], *, title: str) -> None:
    dice = random.Random(3)
    with private_redis(*flags) as server, redis.Redis.from_url(server.url) as client, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def fill(prefix: str, links: Callable[[int], Link], count: int) -> None:
            with RedisFrontier(server.url, folder / prefix, prefix=prefix) as frontier:
                for start in range(0, count, 5000):
                    step = [links(number) for number in range(start, min(start + 5000, count))]
                    frontier.commit(FrontierUpdate(links=step), now=float(start))

        per_url = growth(client, lambda: fill("a", lambda n: Link(f"https://site{n % 100}.example/{n}"), URLS)) / URLS
        in_filter = filter_bytes(client, "a") / URLS
        domains = URLS // 4
        grown = growth(client, lambda: fill("b", lambda n: Link(f"https://www.company-{n:06d}.example/"), domains))
        per_domain = (grown - filter_bytes(client, "b")) / domains

        def visit() -> None:
            with RedisFrontier(server.url, folder / "b", prefix="b") as frontier:
                take_turns(frontier, count=domains // 2, start=float(URLS))

        before = domains // 2
        per_visit = growth(client, visit) / before
        with RedisFrontier(server.url, folder / "b", prefix="b") as frontier:
            per_robots = growth(client, lambda: keep_robots(frontier, dice)) / 2000
        whole_filter = growth(client, lambda: make_filter(client, is_bitmap=not flags))
    in_whole = (per_url - in_filter, per_domain, per_visit, per_robots)
    print_memory(title, in_filter=in_filter, others=in_whole, whole_filter=whole_filter)


def keep_robots(frontier: RedisFrontier, dice: random.Random) -> None:
    """Of about a kilobyte, as most are, on 2,000 hosts; and a gate for each host and address."""
    for number in range(2000):
        rules = "".join(f"Disallow: /{dice.choice(WORDS)}/{dice.choice(WORDS)}\n" for _ in range(45))
        body = f"User-agent: *\n{rules}Sitemap: https://host{number}.example/sitemap.xml\n".encode()
        robots = RobotsEntry(origin=f"https://host{number}.example", fetched=1.0, expires=2.0, status=200, body=body)
        frontier.commit(FrontierUpdate(robots=[robots]), now=1.0)


WORDS = [
    f"{first}{second}" for first in ("adm", "car", "log", "user", "tmp", "api") for second in ("in", "t", "s", "x")
]


def make_filter(client: Any, *, is_bitmap: bool) -> None:
    """Of the size that the goal needs, empty: its memory is the same. RedisBloom halves the error with each segment."""
    for number in range(segment_of_hash(GOAL_URLS) + 1):
        size = min(MAX_SEGMENT, FIRST_SEGMENT * GROWTH**number)
        if is_bitmap:
            client.setrange(f"filter:{number}", size // HASHES_PER_WORD * 8 - 1, b"x")
        else:
            client.execute_command("BF.RESERVE", f"filter:{number}", 0.001 / 2**number, size)


def print_memory(title: str, *, in_filter: float, others: tuple[float, ...], whole_filter: int) -> None:
    per_url, per_domain, per_visit, per_robots = others
    goal = f"{GOAL_URLS // MB} M URLs, {GOAL_DOMAINS // MB} M domains, {GOAL_VISITS / MB:.1f} M visits"
    rows = [
        ("filter, per URL", in_filter, whole_filter),
        ("else, per URL that waits", per_url, max(0.0, per_url) * GOAL_URLS),
        ("domain that waits", per_domain, per_domain * GOAL_DOMAINS),
        ("visit", per_visit, per_visit * GOAL_VISITS),
        ("robots.txt of 1 KB", per_robots, per_robots * GOAL_DOMAINS),
    ]
    print(f"\n## Memory of Redis, {title}: {URLS:,} URLs, {URLS // 4:,} domains\n")
    print(f"| | bytes each | MB for 1 M | MB for {goal} |\n|---|---:|---:|---:|")
    for name, each, whole in rows:
        print(f"| {name} | {each:,.1f} | {each:,.1f} | {whole / MB:,.0f} |")
    print(f"| sum | | | {sum(row[2] for row in rows) / MB:,.0f} |", flush=True)


def main() -> None:
    domain_of("https://www.example.com/")  # reads the list of suffixes
    module = bloom()
    race(module, title="Adding links, appendfsync always, BF.*", has_bloom=True)
    race((*module, "--appendfsync", "everysec"), title="Adding links, appendfsync everysec, BF.*", has_bloom=True)
    race(("--appendfsync", "everysec"), title="Adding links, appendfsync everysec, bitmaps", has_bloom=False)
    memory((), title="bitmaps")
    memory(module, title="BF.*")


if __name__ == "__main__":
    main()
