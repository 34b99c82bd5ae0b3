"""A process of many logical workers on one shard of a frontier in Redis. Says what it claims and what is settled.

    python -m tests.services.frontier_redis_workers URL PREFIX FOLDER LOG SHARD WORKERS

Time is that of the machine, one clock for all processes. A worker keeps its turn for a while that a die chooses.
"""

from __future__ import annotations

import os
import random
import sys
import time
import zlib
from pathlib import Path

from webmill.crawl.frontier.base import (
    ClaimRequest,
    DomainTurn,
    FrontierUpdate,
    LastVisit,
    NotTried,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.model import Link

DOMAINS, URLS, SHARDS = 600, 4, 3
LEASE, HOLD, DELAY = 30.0, 1.0, 0.2


def shard_of(domain: str) -> int:
    return zlib.crc32(domain.encode()) % SHARDS


def pages(shard: int) -> list[str]:
    names = [f"site{number}.com" for number in range(DOMAINS)]
    return [f"https://{name}/{number}" for name in names if shard_of(name) == shard for number in range(URLS)]


def main() -> None:
    url, prefix, folder, log, shard, count = sys.argv[1:]
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    dice = random.Random(int(shard))
    idle, busy = list(range(int(count))), dict[int, tuple[float, DomainTurn]]()

    def print_line(lines: list[str]) -> None:
        os.write(out, "".join(line + "\n" for line in lines).encode())

    with RedisFrontier(url, Path(folder), prefix=prefix, strict=True) as frontier:
        print_line([f"opened {shard} {time.monotonic()}"])
        frontier.commit(FrontierUpdate(links=[Link(page) for page in pages(int(shard))]), now=time.monotonic())
        while True:
            now = time.monotonic()
            turns = (
                frontier.claim(ClaimRequest(turns=len(idle), urls_per_turn=2, now=now, lease=LEASE, hold=HOLD))
                if idle
                else []
            )
            print_line([f"claimed {shard} {now} {turn.token} {item.url}" for turn in turns for item in turn.items])
            for turn in turns:
                busy[idle.pop()] = (now + dice.random() / 4, turn)
            over = [(worker, turn) for worker, (until, turn) in busy.items() if until <= now]
            settle(frontier, [turn for _, turn in over], now=now)
            print_line([f"settled {shard} {now} {turn.token}" for _, turn in over])
            for worker, _ in over:
                del busy[worker]
                idle.append(worker)
            if not busy and not turns and frontier.next_turn() is None:
                break
            time.sleep(0.01)
    os.close(out)


def settle(frontier: RedisFrontier, turns: list[DomainTurn], *, now: float) -> None:
    """The second URL of a turn comes back, as one that is not asked any more."""
    done = []
    for turn in turns:
        first, *others = turn.items
        visit = LastVisit(url=first.url, time=now, status=200)
        done.append(TurnOutcomes(turn.token, [VisitDone(visit), *(NotTried(item.url) for item in others)], now + DELAY))
    assert not frontier.commit(FrontierUpdate(settled=done), now=now).lost


if __name__ == "__main__":
    main()
