"""Workers and Redis are killed at any moment: what was acknowledged is there, and the end is as if undisturbed.

Q10 with `appendfsync always`, Q11 where an answer is lost with the server, Q12 where a worker dies with turns in hand.
What weaker settings lose is in `test_frontier_redis_loss`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
import redis

from tests.contracts.frontier_checker import unpack
from tests.contracts.frontier_redis_bench import forget, new_prefix
from tests.contracts.test_frontier_kills import ALL, check_against, kind_of, weigh
from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.services.base import Running
from tests.services.frontier_redis_checker import RedisFound
from tests.services.frontier_redis_workers import DELAY, LEASE, SHARDS, pages
from tests.services.redis_kinds import private_redis

pytestmark = [pytest.mark.server("redis"), pytest.mark.slow, pytest.mark.crash]

KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "6"))
COMPONENT = "frontier (Redis)"
DEADLINE = 100.0


@pytest.fixture
def base() -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


def start(module: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", f"tests.services.{module}", *map(str, arguments)])


def wait_for_lines(log: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DEADLINE
    while log.read_bytes().count(b"\n") < count and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)


@needs_killer
def test_a_process_killed_before_its_durable_calls_loses_nothing(redis_url: str, base: Path) -> None:
    deaths, kinds = 0, set[str]()
    with Stage("tests.services.frontier_redis_program", under=base / "crawl") as stage:  # and what else begins so
        warm = new_prefix()
        assert stage.warm_up(redis_url, warm, base / "warm", base / "warm-log", "3").code == 0
        forget(redis_url, warm)
        for crawl, stride in enumerate((2, 3, 7)):
            prefix, folder, log = new_prefix(), base / f"crawl{crawl}", base / f"log{crawl}"
            log.touch()
            life = iter(range(random.Random(seed(crawl)).randint(1, stride), 2000, stride))
            before = deaths
            while (ended := stage.run(redis_url, prefix, folder, log, "100", at=next(life))).killed:
                deaths += 1
                kinds.add(kind_of(ended.calls[-1]))
                if log.stat().st_size:
                    check_against(log, RedisFound(redis_url, prefix, folder))
            assert ended.code == 0, ended.output
            found, fault = RedisFound(redis_url, prefix, folder), "kill -9 before a durable call"
            record(COMPONENT, fault, injected=deaths - before, **weigh(log, found)._asdict())
            check_against(log, found)
            assert (set(found.visited), found.waiting.total(), found.in_hand.total()) == (ALL, 0, 0)
            forget(redis_url, prefix)
    print(f"{deaths} deaths before {sorted(kinds)}")
    assert deaths > 30
    assert any(kind.endswith("domains/") for kind in kinds)
    assert any(kind.endswith((".run", "seen/")) for kind in kinds)


def test_redis_and_worker_are_killed_in_turn_and_nothing_is_lost(base: Path) -> None:
    dice = random.Random(seed(7))
    kills = list(islice(cycle(["redis", "worker", "redis", "both", "redis", "worker"]), KILLS))
    folder, log = base / "crawl", base / "log"
    log.touch()
    with private_redis() as server:
        for kill in kills:
            process = start("frontier_redis_program", server.url, "a", folder, log, 100)
            wait_for_lines(log, log.read_bytes().count(b"\n") + dice.randrange(20, 90), process)
            if kill == "redis":
                server.kill()
                server.restart()
                wait_for_lines(log, log.read_bytes().count(b"\n") + 10, process)  # it goes on
            process.kill()
            process.wait(60)
            if kill == "both":
                server.kill()
                server.restart()
            check_against(log, RedisFound(server.url, "a", folder))
        process = start("frontier_redis_program", server.url, "a", folder, log, 1000)
        assert process.wait(DEADLINE) == 0
        found = RedisFound(server.url, "a", folder)
        record(COMPONENT, "Redis killed", injected=len(kills) - kills.count("worker"), **weigh(log, found)._asdict())
        check_against(log, found)
        assert (set(found.visited), found.waiting.total(), found.in_hand.total()) == (ALL, 0, 0)


def test_five_hundred_workers_in_three_processes_of_which_one_dies(base: Path) -> None:
    with private_redis() as server:
        log = base / "log"
        log.touch()

        def start_shard(shard: int) -> subprocess.Popen[bytes]:
            return start("frontier_redis_workers", server.url, shard, base / str(shard), log, shard, 500 // SHARDS + 1)

        coordinators = [start_shard(shard) for shard in range(SHARDS)]
        wait_for_lines(log, 900, coordinators[0])
        os.kill(coordinators[1].pid, signal.SIGKILL)
        coordinators[1].wait(60)
        coordinators[1] = start_shard(1)
        assert [process.wait(DEADLINE) for process in coordinators] == [0, 0, 0]
        lines = log.read_text().splitlines()
        reported = settled(lines)
        lost = reported - visited(server)
        record(COMPONENT, "kill -9 at random", injected=1, acknowledged=len(reported), lost=len(lost))
        assert not lost
        check_claims(lines)
        check_visits(server)


def settled(lines: list[str]) -> set[str]:
    """The first URL of each turn that was acknowledged."""
    first: dict[tuple[str, str], str] = {}
    found = set()
    for word, shard, _, *rest in map(str.split, lines):
        if word == "claimed":
            first.setdefault((shard, rest[0]), rest[1])
        elif word == "settled":
            found.add(first[shard, rest[0]])
    return found


def visited(server: Running) -> set[str]:
    with redis.Redis.from_url(server.url) as client:
        bodies = [body for shard in range(SHARDS) for body in client.hvals(f"{{{shard}}}:visited")]
    return {unpack(body)[4][0] for body in bodies}


def check_claims(lines: list[str]) -> None:
    """Nobody claims a URL that another has, and no domain is asked inside its delay."""
    held: dict[str, tuple[str, float]] = {}  # URL: whose, until
    asked: dict[str, tuple[str, float]] = {}  # domain: by whom, when
    for word, shard, at, *rest in map(str.split, lines):
        now = float(at)
        if word == "opened":  # its leases ended with the process that had them
            held = {url: entry for url, entry in held.items() if not entry[0].startswith(f"{shard} ")}
        elif word == "settled":
            held = {url: entry for url, entry in held.items() if entry[0] != f"{shard} {rest[0]}"}
        else:
            whose, url = f"{shard} {rest[0]}", rest[1]
            assert url not in held or held[url][1] <= now, f"{url} was claimed by {held[url]} and {whose}"
            held[url] = (whose, now + LEASE)
            domain = url.split("/")[2]
            by, when = asked.get(domain, ("", 0.0))
            assert by == whose or now - when >= DELAY
            asked[domain] = (whose, now)


def check_visits(server: Running) -> None:
    with redis.Redis.from_url(server.url) as client:
        for shard in range(SHARDS):
            tally = client.hgetall(f"{{{shard}}}:tally")
            assert (
                int(tally[b"pages"])
                == int(tally[b"visited"])
                == len(pages(shard))
                == client.hlen(f"{{{shard}}}:visited")
            )
            assert int(tally[b"waiting"]) == int(tally[b"in_hand"]) == 0
