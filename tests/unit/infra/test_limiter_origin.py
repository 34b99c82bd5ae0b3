"""Several processes of rude readers before an origin that misbehaves: the request log of the origin is the judge.

The log shows when a request arrived, not when its turn was given: a thread may have had its turn long before, and has
one request under way at most. And it shows when an answer was sent, not when it was heard: that is seen in the limiter.
So each bound allows one request for each thread after something was heard, and holds however slow the machine is.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from tests.conftest import ROOT
from tests.services.misbehaving import (
    IGNORES_RANGE,
    OK,
    REFUSED,
    RESET,
    SHORT,
    SLOW_DOWN,
    Answer,
    Origin,
    Request,
    misbehaving,
    too_many,
)
from tests.unit.infra.limited_reader import Task

from webmill.infra.host_schedule.adaptive_rate import LimiterPolicy
from webmill.infra.host_schedule.limiter import Limiter

PROCESSES = 3
DEADLINE = 90.0
Process = subprocess.Popen[str]


@dataclass
class Fleet:
    """Processes of readers with one limiter, which begin together."""

    folder: Path
    rate: float
    burst: float = 1.0
    policy: LimiterPolicy = field(default_factory=LimiterPolicy)
    threads: int = 2
    reads: int = 10
    patience: float = 60.0
    began: float = 0.0

    def is_at_most(self, rate: float) -> float:
        """When it was seen that the limiter has heard of a complaint: it forgets it after minutes only."""
        limiter = Limiter(self.folder / "state", rate=self.rate, burst=self.burst, policy=self.policy)
        return wait_until(lambda: limiter.status().rate <= rate)

    @property
    def readers(self) -> int:
        return PROCESSES * self.threads

    def run(self, origin: Origin, *, meanwhile: Callable[[list[Process]], None] = lambda _: None) -> None:
        processes = [self.start(origin, str(number)) for number in range(PROCESSES)]
        try:
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            self.began = time.monotonic()
            (self.folder / "go").touch()
            meanwhile(processes)
            for process in processes:
                process.wait(DEADLINE)
        finally:
            for process in processes:
                process.kill()
                process.communicate()

    def start(self, origin: Origin, name: str) -> Process:
        task = Task(
            name=name,
            url=origin.url,
            state=str(self.folder / "state"),
            go=str(self.folder / "go"),
            rate=self.rate,
            burst=self.burst,
            policy=self.policy,
            threads=self.threads,
            reads=self.reads,
            patience=self.patience,
        )
        command = [sys.executable, "-m", "tests.unit.infra.limited_reader", msgspec.json.encode(task).decode()]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def check_rate(log: list[Request], fleet: Fleet, *, since: float) -> None:
    """From `since`, when at most `burst` tokens were saved, and in any window of the log."""
    times = [request.at for request in log]
    for count, at in enumerate(times, 1):
        assert count <= fleet.burst + fleet.rate * (at - since) + 0.01
    for first, begin in enumerate(times):
        for last, end in enumerate(times[first:], first):
            assert last - first + 1 <= fleet.burst + fleet.rate * (end - begin) + fleet.readers


def wait_until(true: Callable[[], bool]) -> float:
    """When it was seen."""
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)
    return time.monotonic()


def between(log: list[Request], begin: float, end: float) -> int:
    return sum(begin < request.at < end for request in log)


def test_no_fault_makes_readers_ask_faster_than_the_rate_not_even_a_killed_process(tmp_path: Path) -> None:
    faults = [OK, RESET, SHORT, IGNORES_RANGE, Answer(500), OK, Answer(502, body="short"), Answer(delay=0.02)]
    fleet = Fleet(tmp_path, rate=40, burst=3, policy=LimiterPolicy(failures=10**6), reads=8)

    def kill_one(processes: list[Process]) -> None:
        wait_until(lambda: len(origin.log) >= 20)
        processes[0].kill()

    with misbehaving(lambda _, before: faults[before % len(faults)]) as origin:
        fleet.run(origin, meanwhile=kill_one)
        check_rate(origin.log, fleet, since=fleet.began)
    finished = (PROCESSES - 1) * fleet.threads * fleet.reads  # each read is asked for at least once
    assert len(origin.log) >= finished


def test_nobody_asks_before_retry_after_and_then_slower_than_before(tmp_path: Path) -> None:
    fleet, heard = Fleet(tmp_path, rate=60, burst=2), []
    with misbehaving(lambda _, before: too_many(1) if before == 10 else OK) as origin:
        fleet.run(origin, meanwhile=lambda _: heard.append(fleet.is_at_most(30)))
    log, over = origin.log, origin.log[10].answered + 1
    assert between(log, heard[0], over) <= fleet.readers
    after = [request for request in log if request.at >= over]
    assert after
    for count, request in enumerate(after, 1):
        assert count <= fleet.rate / 2 * (request.at - over) + fleet.readers + 0.01


def test_503_without_a_time_slows_everybody_down_step_by_step(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, rate=60, policy=LimiterPolicy(least=1 / 4, failures=10**6))
    heard: list[tuple[float, float]] = []
    with misbehaving(lambda _, before: SLOW_DOWN if before % 6 == 5 else OK) as origin:
        fleet.run(origin, meanwhile=lambda _: heard.extend((rate, fleet.is_at_most(rate)) for rate in (30, 15)))
    for rate, since in heard:
        after = [request for request in origin.log if request.at > since]
        for count, request in enumerate(after, 1):
            assert count <= fleet.burst + rate * (request.at - since) + fleet.readers + 0.01


class Refusing:
    """Takes its time, so that all threads have a request under way when the eleventh is refused, at once. All are
    refused until the pause is over; then each answer takes its time again, until one was given.
    """

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self.first: Request | None = None
        self.slow: list[Request] = []

    def __call__(self, request: Request, before: int) -> Answer:
        if before < 10:
            return Answer(delay=0.4)
        self.first = self.first or request
        if not self.first.answered or request.at < self.first.answered + self.pause:
            return REFUSED
        if any(slow.answered for slow in self.slow):
            return OK
        self.slow.append(request)
        return Answer(delay=0.4)


def test_a_refusal_stops_all_processes_and_one_probe_comes_back(tmp_path: Path) -> None:
    script, heard = Refusing(pause=1.0), []
    fleet = Fleet(tmp_path, rate=60, burst=3, policy=LimiterPolicy(pause_refused=1.0))
    with misbehaving(script) as origin:
        fleet.run(origin, meanwhile=lambda _: heard.append(fleet.is_at_most(30)))
    probed = min(request.answered for request in script.slow)
    late = [
        request
        for before, request in by_thread(origin.log)
        if heard[0] < request.at < probed and before and before.answered > heard[0]
    ]
    assert len(late) <= 1  # of those who took their turn later only the probe
    assert between(origin.log, heard[0], probed) <= fleet.readers + 1  # the others were under way
    assert max(request.at for request in origin.log) > probed  # then they go on


def by_thread(log: list[Request]) -> Iterator[tuple[Request | None, Request]]:
    """Each request with the one before it of the same thread, whose answer it has waited for."""
    last: dict[str, Request] = {}
    for request in log:
        thread = request.path.rpartition("/")[0]
        yield last.get(thread), request
        last[thread] = request


def test_a_dead_server_is_asked_a_few_times_and_then_by_probes_only(tmp_path: Path) -> None:
    fleet = Fleet(
        tmp_path, rate=200, burst=5, policy=LimiterPolicy(failures=5, pause_failed=0.2), reads=2, patience=0.8
    )
    with misbehaving(lambda *_: RESET) as origin:
        fleet.run(origin)
        log = list(origin.log)
    passed = max(request.at for request in log) - fleet.began
    probes = math.log2(passed / 0.2 + 1)  # pauses of 0.2, 0.4, 0.8, … fit into this time
    assert 5 <= len(log) <= 5 + fleet.readers - 1 + probes


def test_a_probe_whose_process_dies_is_followed_by_another(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, rate=50, policy=LimiterPolicy(pause_refused=0.3, probe_lease=0.5), threads=1, reads=6)
    stalled = Answer(delay=1000)

    def script(_: Request, before: int) -> Answer:
        return REFUSED if before < PROCESSES else stalled if before == PROCESSES else OK

    def kill_the_prober(processes: list[Process]) -> None:
        wait_until(lambda: len(origin.log) > PROCESSES)
        processes[int(origin.log[PROCESSES].path.split("/")[1])].kill()

    with misbehaving(script) as origin:
        fleet.run(origin, meanwhile=kill_the_prober)
    assert origin.log[-1].answer is OK
