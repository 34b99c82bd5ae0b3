"""The limiter as processes meet it: one file, whatever happens to it and to them."""

from __future__ import annotations

import asyncio
import fcntl
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable
from webmill.infra.host_schedule import state_file as module
from webmill.infra.host_schedule.adaptive_rate import LimiterPolicy
from webmill.infra.host_schedule.limiter import Limiter, NoLimit, limiter_at
from webmill.infra.log import TextLines
from webmill.infra.request_outcome import AccessRefused, RequestOutcome, SlowDown, outcome_of


class Clock:
    """Time that only sleeping moves."""

    def __init__(self, now: float = 5000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 0.5  # in small steps
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.example.org"


def make(path: Path, clock: Clock, *, rate: float = 10.0, burst: float = 1.0, **policy: float) -> Limiter:
    return Limiter(
        path,
        rate=rate,
        burst=burst,
        policy=LimiterPolicy(**policy),  # type: ignore[arg-type]
        clock=clock,
        sleep=clock.sleep,
    )


def test_limiters_of_one_path_share_their_turns(path: Path, clock: Clock) -> None:
    one, other = make(path, clock), make(path, clock)
    began = clock.now
    for limiter in (one, other, one, other, other):
        limiter.acquire()
    assert clock.now - began >= 0.4 - 1e-6


def test_what_one_hears_holds_for_all(path: Path, clock: Clock) -> None:
    one, other = make(path, clock), make(path, clock)
    with pytest.raises(SlowDown), one.request():
        raise SlowDown("busy", retry_after=77)
    assert other.status().blocked_for == 77
    assert other.status().rate == 5
    began = clock.now
    other.acquire()
    assert clock.now - began >= 77


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (SlowDown("x"), "slow_down"),
        (AccessRefused("x"), "refused"),
        (Unavailable("x"), "failed"),
        (NotFound("x"), "ok"),
        (Misconfigured("x"), "ok"),
        (BadInput("x", reason="bad_range"), "ok"),
        (KeyboardInterrupt(), "lost"),
        (ValueError(), "lost"),
    ],
    ids=repr,
)
def test_an_error_says_how_the_server_is(error: BaseException, answer: RequestOutcome) -> None:
    assert outcome_of(error) == answer


def test_who_cannot_wait_so_long_is_told_at_once_and_why(path: Path, clock: Clock) -> None:
    limiter = make(path, clock, pause_refused=180)
    with pytest.raises(AccessRefused), limiter.request():
        raise AccessRefused("no")
    began = clock.now
    with pytest.raises(Unavailable, match=r"data\.example\.org: the server refuses us .* asks for 180 s") as reported:
        limiter.acquire(patience=60)
    assert (reported.value.retry_after, clock.now) == (180, began)
    assert limiter.status().refused
    limiter.acquire(patience=200)


@pytest.fixture
def printed() -> Iterator[io.StringIO]:
    """What a person reads on stderr."""
    ours, lines = logging.getLogger("webmill"), io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(TextLines())
    ours.addHandler(handler)
    yield lines
    ours.removeHandler(handler)


def test_an_open_breaker_is_told_in_words_by_everybody_who_waits_and_once(
    path: Path, clock: Clock, printed: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    mine, others = make(path, clock, rate=1000), make(path, clock, rate=1000)
    with pytest.raises(AccessRefused), mine.request():
        raise AccessRefused("status 403")
    assert printed.getvalue().endswith(
        " WARNING infra.limiter: data.example.org refuses us (403); asked again in 3 min\n"
    )
    first = caplog.records[-1]
    assert (first.getMessage(), vars(first)["refused"], vars(first)["seconds"]) == ("breaker_opened", True, 180)

    clock.now += 100
    for limiter in (mine, others):
        with limiter.request():
            pass
    reported = [line.partition("limiter: ")[2] for line in printed.getvalue().splitlines()[1:]]
    assert reported == [
        "data.example.org answers again",  # mine waited, and had said so before
    ]

    for _ in range(10):
        with pytest.raises(Unavailable), mine.request():
            raise Unavailable("nobody there")
    clock.now += 1
    with others.request():
        pass
    reported = [line.partition("limiter: ")[2] for line in printed.getvalue().splitlines()[2:]]
    assert reported == [
        "data.example.org did not answer 10 times in a row; asked again in 20 s",
        "data.example.org did not answer 10 times in a row; asked again in 19 s",
        "data.example.org answers again",
    ]


def test_who_waits_for_a_probe_waits_no_longer_than_its_patience(path: Path, clock: Clock) -> None:
    limiter = make(path, clock, pause_refused=1)
    with pytest.raises(AccessRefused), limiter.request():
        raise AccessRefused("no")
    with limiter.request(), pytest.raises(Unavailable, match="one request is out to see"):
        limiter.acquire(patience=3)
    limiter.acquire(patience=3)


def test_a_stop_ends_the_waiting(path: Path) -> None:
    limiter, stop = Limiter(path, rate=0.001), threading.Event()
    limiter.acquire()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(limiter.acquire, stop=stop)
        stop.set()
        with pytest.raises(Unavailable, match="stopped while waiting"):
            waiting.result(60)
    with pytest.raises(Unavailable, match="stopped while waiting"):
        limiter.acquire(stop=stop)


def test_an_extra_request_is_paid_by_the_next(path: Path, clock: Clock) -> None:
    limiter = make(path, clock)
    limiter.acquire()
    limiter.spend()
    began = clock.now
    limiter.acquire()
    assert clock.now - began >= 0.2 - 1e-6


def test_no_rate_is_no_limit(path: Path) -> None:
    for rate in (0, None):
        limiter = limiter_at(path, rate=rate)
        assert isinstance(limiter, NoLimit)
        for _ in range(1000):
            with limiter.request():
                limiter.spend()
    assert not path.exists()
    assert isinstance(limiter_at(path, rate=1), Limiter)


@pytest.mark.parametrize(("rate", "burst"), [(-1, 1), (float("nan"), 1), (float("inf"), 1), (1, 0), (1, float("nan"))])
def test_a_senseless_rate_is_refused(path: Path, rate: float, burst: float) -> None:
    with pytest.raises(Misconfigured):
        Limiter(path, rate=rate, burst=burst)


def damaged(data: bytes) -> Iterator[bytes]:
    yield from (data[:cut] for cut in (1, 50, len(data) - 1))
    yield bytes(len(data))
    yield b"\xff" * len(data)
    yield b"another program's file\n" * 50
    yield data[:30] + bytes([data[30] ^ 1]) + data[31:]


@pytest.mark.parametrize("which", range(7))
def test_a_damaged_state_is_begun_anew_and_slowly(path: Path, clock: Clock, which: int) -> None:
    limiter = make(path, clock, rate=8)
    limiter.acquire()
    path.write_bytes(list(damaged(path.read_bytes()))[which])
    began = clock.now
    assert limiter.status().rate == 1
    limiter.acquire()
    assert clock.now - began >= 1 - 1e-6
    limiter.acquire()
    assert clock.now - began >= 2 - 1e-6


def test_a_state_that_was_removed_is_begun_anew(path: Path, clock: Clock) -> None:
    limiter = make(path, clock)
    limiter.acquire()
    path.unlink()
    limiter.acquire()


def test_a_folder_that_is_not_there_or_a_link_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Limiter(tmp_path / "none" / "state", rate=1).acquire()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match="bad_path"):
        Limiter(tmp_path / "link", rate=1).acquire()
    assert not (tmp_path / "elsewhere").exists()


HOLDER = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


def test_the_lock_of_a_killed_process_holds_nobody(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        limiter = Limiter(path, rate=1000)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(limiter.acquire)
            holder.send_signal(signal.SIGKILL)
            waiting.result(60)


def test_a_lock_that_is_never_freed_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_PATIENCE", 0.05)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="locked by a process that is suspended"):
            Limiter(path, rate=1).acquire()
    finally:
        os.close(fd)


def test_threads_take_each_turn_once(path: Path) -> None:
    limiter = Limiter(path, rate=1e6, burst=1e6)
    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(lambda _: limiter.acquire().number, range(2000)))
    assert sorted(numbers) == list(range(1, 2001))


FORKED = """
import os, sys, threading
from pathlib import Path
from webmill.infra.host_schedule.limiter import Limiter

limiter, stop = Limiter(Path(sys.argv[1]), rate=2), threading.Event()
limiter.acquire()
thread = threading.Thread(target=lambda: [limiter.acquire() for _ in range(4)])
thread.start()
while thread.is_alive() and not limiter._waiting_lock().locked():
    pass
child = os.fork()
limiter.acquire()
if child:
    thread.join()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_is_not_held_by_a_thread_that_did_not_come_along(path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(path)]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def test_tasks_of_an_event_loop_share_the_turns_too(path: Path) -> None:
    limiter = Limiter(path, rate=200, burst=1)

    async def ask() -> int:
        async with limiter.request_async(patience=60) as turn:
            return turn.number

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(ask() for _ in range(20)))

    assert sorted(asyncio.run(all_of_them())) == list(range(1, 21))
