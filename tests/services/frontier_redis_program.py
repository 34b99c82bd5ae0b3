"""A crawl without a web on a frontier in Redis, to be killed; says what was acknowledged, after it was.

    python -m tests.services.frontier_redis_program URL PREFIX FOLDER LOG STEPS

As `tests.contracts.frontier_program`, whose web it crawls; when Redis is away it asks again until Redis is back.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.contracts.frontier_program import HOLD, LIMITS, links, number_of, page
from webmill.crawl.frontier.base import (
    ClaimRequest,
    DomainTurn,
    FrontierUpdate,
    LastVisit,
    NotTried,
    Outcome,
    RetryLater,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.errors import Unavailable
from webmill.model import Link

PATIENCE = 60.0
LEASE = 60.0  # lines of the log
Answer = TypeVar("Answer")


def patiently(ask: Callable[[], Answer]) -> Answer:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def outcome_of(at: int, url: str, attempts: int, now: float) -> Outcome:
    if at == 2:
        return NotTried(url)
    if number_of(url) % 7 == 3 and attempts == 1:
        return RetryLater(url, now + 5, "timeout")
    return VisitDone(LastVisit(url=url, time=now, status=200))


def settled(turn: DomainTurn, now: float) -> TurnOutcomes:
    outcomes = [outcome_of(at, item.url, item.attempts, now) for at, item in enumerate(turn.items)]
    return TurnOutcomes(turn.token, outcomes, now + HOLD)


def main() -> None:
    url, prefix, folder, log, steps = sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5])
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    now = float(log.read_text().count("\n"))

    def print_line(*words: object) -> None:
        nonlocal now
        os.write(out, (" ".join(map(str, words)) + "\n").encode())
        now += 1

    frontier = patiently(lambda: RedisFrontier(url, folder, prefix=prefix, strict=True, limits=LIMITS))
    patiently(lambda: frontier.commit(FrontierUpdate(links=[Link(page(0))], notes={"seeded": "1"}), now=now))
    print_line("opened")
    for step in range(steps):
        turns = patiently(
            lambda: frontier.claim(ClaimRequest(turns=3, urls_per_turn=3, now=now, lease=LEASE, hold=HOLD))
        )
        for turn in turns:
            print_line("claimed", turn.domain, now, *(number_of(item.url) for item in turn.items))
        if not turns and patiently(frontier.next_turn) is None:
            break
        printed = [settled(turn, now) for turn in turns]
        done = [number_of(each.url) for part in printed for each in part.outcomes if isinstance(each, VisitDone)]
        found = [link for number in done for link in links(number)]
        committed = patiently(lambda: frontier.commit(FrontierUpdate(links=found, settled=printed), now=now))  # noqa: B023
        assert not committed.lost
        for number in done:
            print_line("done", number)
        for link in found:
            print_line("found", number_of(link.url))
        if step % 10 == 9:
            patiently(frontier.compact)
        print_line("step")
    frontier.close()
    os.close(out)


if __name__ == "__main__":
    main()
