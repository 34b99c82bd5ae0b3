"""A crawl without a web, to be killed: claims, settles, adds; says what was acknowledged, after it was.

    python -m tests.contracts.frontier_program FOLDER LOG STEPS [faulty]

Time is the number of lines in the log: it never goes backwards, over deaths too. A page `/N` of a domain links to pages
that follow from N, so that every life knows what an undisturbed one would have found. The faulty one says it before.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from webmill.crawl.frontier.base import (
    ClaimedUrl,
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
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.local import LocalFrontier
from webmill.model import Link

LIMITS = FrontierLimits(table=20, journal=4000, file=400, open_files=4, waiting=600, fan=2)
DOMAINS, PAGES, HOLD = 6, 120, 3.0


def page(number: int) -> str:
    return f"https://site{number % DOMAINS}.com/{'x' * (number % 40)}|\n/{number}"


def links(number: int) -> list[Link]:
    following = [number * 2 + 1, number * 2 + 2, number // 3]
    return [Link(page(other), 1, other % 3) for other in following if other < PAGES]


def main() -> None:
    folder, log = Path(sys.argv[1]), Path(sys.argv[2])
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    now = float(log.read_text().count("\n"))

    def print_line(*words: object) -> None:
        nonlocal now
        os.write(out, (" ".join(map(str, words)) + "\n").encode())
        now += 1

    def tell(done: list[int], found: list[Link]) -> None:
        for number in done:
            print_line("done", number)
        for link in found:
            print_line("found", number_of(link.url))

    is_careless = sys.argv[4:] == ["faulty"]
    frontier = LocalFrontier(folder, limits=LIMITS)
    if not frontier.notes():
        frontier.commit(FrontierUpdate(links=[Link(page(0))], notes={"seeded": "1"}), now=now)
    print_line("opened")
    for step in range(int(sys.argv[3])):
        claimed = now
        turns = frontier.claim(ClaimRequest(turns=3, urls_per_turn=3, now=claimed, lease=1000, hold=HOLD))
        for turn in turns:
            print_line("claimed", turn.domain, claimed, *(number_of(item.url) for item in turn.items))
        if not turns and frontier.stats().in_hand == 0 and frontier.next_turn() is None:
            break
        settled = [TurnOutcomes(turn.token, outcomes(turn, now), now + HOLD) for turn in turns]
        reported = [
            number_of(outcome.url) for entry in settled for outcome in entry.outcomes if isinstance(outcome, VisitDone)
        ]
        found = [link for number in reported for link in links(number)]
        if is_careless:
            tell(reported, found)
        done = frontier.commit(FrontierUpdate(links=found, settled=settled), now=now)
        assert not done.lost
        if not is_careless:
            tell(reported, found)
        if step % 10 == 9:
            frontier.compact()
        print_line("step")
    frontier.close()
    os.close(out)


def outcomes(turn: DomainTurn, now: float) -> list[Outcome]:
    return [outcome(at, item, now) for at, item in enumerate(turn.items)]


def outcome(at: int, item: ClaimedUrl, now: float) -> Outcome:
    if at == 2:
        return NotTried(item.url)
    if number_of(item.url) % 7 == 3 and item.attempts == 1:
        return RetryLater(item.url, now + 5, "timeout")
    return VisitDone(LastVisit(url=item.url, time=now, status=200))


def number_of(url: str) -> int:
    return int(url.rpartition("/")[2])


if __name__ == "__main__":
    main()
