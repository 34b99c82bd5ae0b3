"""What a Redis that is not durable loses is what was announced (Q10): whole steps, the newest first, and no more.

A cut of the power leaves the log of Redis without its end, or only a snapshot. Files and the exact set are ahead then.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import redis

from tests.faults.matrix import record, seed
from tests.services.base import Running
from tests.services.redis_kinds import private_redis
from webmill.crawl.frontier.base import CommitResult, FrontierUpdate
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.redis.backup import restore
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.redis.server import RedisDurability
from webmill.errors import Misconfigured
from webmill.model import Link

pytestmark = pytest.mark.server("redis")

NOW = 1_700_000_000.0
STEPS, LINKS = 24, 10
# Checkpoints are frequent, and the filter says "maybe" to everything: what the exact set knows wrongly would be lost.
TINY = FrontierLimits(table=16, journal=2000, file=256, open_files=3, waiting=300, fan=2, hashes_per_word=1 << 15)


def links(step: int) -> list[Link]:
    return [Link(f"https://site{at % 7}.com/{step}/{at}") for at in range(LINKS)]


def opened(server: Running, folder: Path) -> RedisFrontier:
    return RedisFrontier(server.url, folder, prefix="a", limits=TINY)


def work(frontier: RedisFrontier, steps: range) -> None:
    for step in steps:
        assert frontier.commit(FrontierUpdate(links=links(step), notes={"step": str(step)}), now=NOW).added == LINKS


def steps_left(frontier: RedisFrontier) -> int:
    """All steps but the newest ones are there whole, and what is gone can be found again."""
    steps = int(frontier.notes().get("step", -1)) + 1
    every = [link for step in range(STEPS) for link in links(step)]
    assert {link.url for link in frontier.waiting()} == {link.url for step in range(steps) for link in links(step)}
    gone = (STEPS - steps) * LINKS
    assert frontier.commit(FrontierUpdate(links=every), now=NOW) == CommitResult(added=gone, known=len(every) - gone)
    assert {link.url for link in frontier.waiting()} == {link.url for link in every}
    return steps


@pytest.mark.crash
def test_with_everysec_the_end_of_the_log_is_lost_in_whole_steps(tmp_path: Path) -> None:
    dice = random.Random(seed(3))
    with private_redis("--appendfsync", "everysec") as server:
        frontier = opened(server, tmp_path / "a")
        assert frontier.promise is RedisDurability.SECOND
        work(frontier, range(STEPS))
        frontier._stack.close()  # as a kill leaves it
        server.stop()
        logs = server.folder / "appendonlydir"
        shutil.copytree(logs, tmp_path / "log")
        (name,) = [path.name for path in logs.glob("*.incr.aof")]
        whole = (tmp_path / "log" / name).read_bytes()
        cuts = sorted(dice.randrange(len(whole) // 3, len(whole)) for _ in range(4))
        left = []
        for number, cut in enumerate([*cuts, len(whole)]):
            (logs / name).write_bytes(whole[:cut])
            server.restart()
            shutil.copytree(tmp_path / "a", tmp_path / str(number))
            with opened(server, tmp_path / str(number)) as frontier:
                left.append(steps_left(frontier))
            server.stop()
            shutil.rmtree(logs)
            shutil.copytree(tmp_path / "log", logs)
        lost = sum(STEPS - steps for steps in left) * LINKS
        fault, promised = "the log of `appendfsync everysec` lost its end", STEPS * LINKS * len(cuts)
        record("frontier (Redis)", fault, injected=len(cuts), acknowledged=promised, lost=lost, control=True)
        assert left == sorted(left)
        assert left[0] < left[-1] == STEPS


@pytest.mark.crash
def test_with_snapshots_alone_it_goes_back_to_the_last_one_when_redis_is_killed(tmp_path: Path) -> None:
    with private_redis("--appendonly", "no", "--save", "3600 1") as server:
        frontier = opened(server, tmp_path / "a")
        assert frontier.promise is RedisDurability.NONE
        work(frontier, range(10))
        with redis.Redis.from_url(server.url) as client:
            client.save()
        work(frontier, range(10, STEPS))
        frontier._stack.close()
        server.kill()
        server.restart()
        with opened(server, tmp_path / "a") as frontier:
            steps = steps_left(frontier)
        numbers = {"acknowledged": STEPS * LINKS, "lost": (STEPS - steps) * LINKS}
        record("frontier (Redis)", "Redis with snapshots alone killed", injected=1, **numbers, control=True)
        assert steps == 10


def test_with_nothing_kept_a_killed_redis_is_noticed_and_a_backup_brings_all_back(tmp_path: Path) -> None:
    with private_redis("--appendonly", "no") as server:
        with opened(server, tmp_path / "a") as frontier:
            assert frontier.promise is RedisDurability.NONE
            work(frontier, range(10))
            frontier.back_up(tmp_path / "backup")
            work(frontier, range(10, STEPS))
        server.kill()
        server.restart()
        with pytest.raises(Misconfigured, match="knows nothing of the frontier"):
            opened(server, tmp_path / "a")
        restore(server.url, tmp_path / "backup", tmp_path / "b", prefix="a", limits=TINY)
        with opened(server, tmp_path / "b") as frontier:
            assert steps_left(frontier) == 10
