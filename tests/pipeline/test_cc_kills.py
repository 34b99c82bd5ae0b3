"""`webmill cc run`, `batch`, `work` and the broker are killed: the output is that of a calm run.

At random and at chosen moments. The output is compared by bytes, and read by code that shares nothing with what wrote
it. WEBMILL_TEST_KILLS=50 kills longer.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults import Ended, Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.pipeline.cc_commands import DEADLINE, cc, environment, wait_for
from tests.pipeline.cc_pages import index_crawl, lines_of_index, rows, snapshot, stamp, write_crawl
from tests.services import Running, started
from tests.services.nginx import Nginx
from tests.thoroughness import kills

KILLS = kills(5)
SEED = seed(11)
PART = "Common Crawl workers"
# trafilatura takes its time: most kills meet work half done
FLAGS = ("--extractor", "trafilatura", "--format", "jsonl", "--file-size", "1", "--rate", "0", "--no-metrics")
FAULTS = {"kills": "kill -9 at random", "restarts": "broker restarted"}
PATIENT = {"WEBMILL_QUEUE_ATTEMPTS": "1000", "WEBMILL_QUEUE_LEASE": "2"}


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    write_crawl(base / "crawl", pages=600, files=4)
    index_crawl(base / "crawl")
    yield base
    shutil.rmtree(base)


def judge(out: Path, calm: Path, root: Path, **faults: int) -> None:
    """`faults`: how often which of them happened."""
    expected = [
        (fields["url"], timestamp, f"sha1:{fields['digest']}")
        for _, timestamp, fields in lines_of_index(root / "crawl")
        if fields["status"] == "200"
    ]
    lost, twice = weigh(out, expected)
    for name, times in faults.items():
        numbers = {"acknowledged": len(expected), "lost": lost, "duplicated": twice}
        record(PART, FAULTS[name], injected=times, **numbers)
    assert (lost, twice) == (0, 0)
    assert pages_in(out) == expected
    assert all(row["text"] for row in rows(out))
    assert snapshot(out) == snapshot(calm)
    assert leftovers(out) == []


def pages_in(out: Path) -> list[tuple[str, str, str]]:
    return [(row["url"], stamp(row), row["digest"]) for row in rows(out)]


def weigh(out: Path, expected: Iterable[tuple[str, str, str]]) -> tuple[int, int]:
    """Pages that are missing, and those that are there again."""
    found = pages_in(out)
    return len({*expected} - {*found}), len(found) - len({*found})


def leftovers(out: Path) -> list[Path]:
    """Batches in the spool, and what killed writers have not finished."""
    state = out / ".webmill"
    drafts = [*(state / "spool").glob("*.zst"), *state.glob("receipts/*/*"), *out.rglob(".webmill-tmp-*")]
    return [*drafts, *(path for path in out.rglob("*") if path.is_file() and is_stray(path.relative_to(out)))]


def is_stray(path: Path) -> bool:
    """Besides hidden names an output has nothing but data files."""
    return not any(part.startswith(".") for part in path.parts) and not path.name.startswith("part-")


def kill_at_random(
    commands: dict[str, tuple[str, ...]], *, out: Path, ending: str, after: Callable[[int], None] = lambda _: None
) -> None:
    """All at once, one of them killed again and again and started anew; then `ending` is let run to its end.

    Some die while they start, most a moment after they have done something.
    """
    dice, done = random.Random(SEED), 0
    with ExitStack() as stack:
        running = {name: start(command, stack) for name, command in commands.items()}
        for number in range(KILLS):
            name = dice.choice(sorted(running))
            if dice.random() < 0.8:
                # `ending` may end before others have begun: then there is work to come.
                wait_for(lambda done=done: worked(out) > done or (done and running[ending].poll() is not None))  # type: ignore[misc]
            time.sleep(dice.uniform(0, 0.3))  # a moment, not a condition: any will do
            running[name].kill()
            running[name].wait(DEADLINE)
            done = worked(out)
            after(number)
            running[name] = start(commands[name], stack)
        assert running[ending].wait(DEADLINE) == 0
    assert done > 0


def worked(out: Path) -> int:
    """Batches in the spool and in parts."""
    parts = [json.loads(path.read_bytes()) for path in out.glob(".webmill/sealed/*/*.json")]
    spooled = len(list((out / ".webmill" / "spool").glob("*.zst")))
    return spooled + sum(part["last"] - part["first"] + 1 for part in parts)


def start(command: tuple[str, ...], stack: ExitStack) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment(**PATIENT))
    stack.callback(process.wait, DEADLINE)
    stack.callback(process.kill)
    return process


def command(*arguments: str | Path) -> tuple[str, ...]:
    return (sys.executable, "-m", "webmill", "--quiet", "cc", *map(str, arguments))


@pytest.fixture(scope="module")
def calm(root: Path) -> Path:
    """What an undisturbed run gives."""
    flags = ("--crawl", "TEST-2024", "--status", "200", "--base-url", root / "crawl", "--batch-size", "10")
    done = cc("run", *flags, "--out", root / "calm", *FLAGS)
    assert done.returncode == 0, done.stderr
    return root / "calm"


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(300 + 30 * KILLS)  # for a machine that is busy with other things
def test_killed_at_random_moments_a_run_gives_the_output_of_a_calm_one(root: Path, calm: Path) -> None:
    out = root / "disturbed"
    flags = ("--crawl", "TEST-2024", "--status", "200", "--base-url", root / "crawl", "--batch-size", "10")
    run = command("run", *flags, "--out", out, *FLAGS, "--executor", "pool", "--processes", "2")
    kill_at_random({"run": run}, out=out, ending="run")
    judge(out, calm, root, kills=KILLS)


@contextmanager
def small_runs(folder: Path, module: str, *first: str, under: Path) -> Iterator[Callable[..., Ended]]:
    """`webmill cc run` in one process, of a few batches; what it takes is where to write, and when to die."""
    write_crawl(folder / "crawl", pages=60, files=2)
    index_crawl(folder / "crawl")
    chosen = ("--crawl", "TEST-2024", "--status", "200", "--base-url", folder / "crawl", "--batch-size", "5")
    arguments = (*first, "--quiet", "cc", "run", *chosen, *FLAGS[2:], "--processes", "1", "--extractor", "none")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (PATIENT | {"WEBMILL_QUEUE_LEASE": "0.3", "WEBMILL_EXECUTOR_URL": "inline"}).items():
            patch.setenv(name, value)
        with Stage(module, under=under) as stage:
            assert stage.warm_up(*arguments, "--out", folder / "calm").code == 0
            yield lambda out, at=0: stage.run(*arguments, "--out", out, at=at)


@needs_killer
@pytest.mark.slow
@pytest.mark.crash
def test_killed_before_durable_calls_of_every_kind_a_run_goes_on(root: Path) -> None:
    """From a fresh start and from every state that such deaths leave."""
    folder = root / "stage"
    with small_runs(folder, "webmill.cli.main", under=folder) as run:
        calls = len(run(folder / "whole").calls)
        dice, deaths, promised, lost, twice = random.Random(SEED), 0, 0, 0, 0
        expected = pages_in(folder / "calm")
        until = time.monotonic() + 30  # of a slow machine only a few deaths are asked
        while deaths < KILLS * 3 and (deaths < 5 or time.monotonic() < until):
            out = folder / f"out-{deaths}"
            while (ended := run(out, at=dice.randint(1, calls))).killed:
                deaths += 1
            assert ended.code == 0, ended.output
            missing, again = weigh(out, expected)
            promised, lost, twice = promised + len(expected), lost + missing, twice + again
            assert snapshot(out) == snapshot(folder / "calm")
            assert leftovers(out) == []
    numbers = {"acknowledged": promised, "lost": lost, "duplicated": twice}
    record(PART, "kill -9 before a durable call", injected=deaths, **numbers)
    assert (lost, twice) == (0, 0)
    assert deaths >= 5


@needs_killer
@pytest.mark.crash
def test_a_worker_that_acknowledges_what_it_has_not_written_loses_it(root: Path) -> None:
    """The negative control: killed before it writes the rows of its first batch."""
    folder = root / "too_early"
    drafts = folder / "out" / ".webmill" / "spool" / ".webmill-tmp"
    with small_runs(folder, "tests.pipeline.broken_promises", "ack", under=drafts) as run:
        assert run(folder / "out", at=1).killed
        run(folder / "out")
    expected = pages_in(folder / "calm")
    lost, _ = weigh(folder / "out", expected)
    fault = "acknowledged before it is written"
    record(PART, fault, injected=1, acknowledged=len(expected), lost=lost, control=True)
    assert lost


# --- RabbitMQ ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with started("rabbitmq") as server:
        yield server


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.server("rabbitmq")
@pytest.mark.server("nginx")
@pytest.mark.timeout(300 + 30 * KILLS)
def test_batcher_workers_and_broker_are_killed_and_the_output_is_that_of_a_calm_run(
    root: Path, calm: Path, broker: Running, nginx: Callable[..., Nginx]
) -> None:
    base, out, queue = nginx(root / "crawl").url, root / "rabbit", ("--queue", broker.url)
    chosen = ("--crawl", "TEST-2024", "--base-url", root / "crawl", "--status", "200", "--batch-size", "10")
    batch = command("batch", *chosen, *queue, "--state", root / "state", "--no-metrics")
    flags = (*queue, "--base-url", base, "--out", out, *FLAGS, "--executor", "pool", "--processes", "1")
    work = command("work", *flags)

    def restart(number: int) -> None:
        if number == KILLS // 2:
            broker.kill()
            broker.restart()

    kill_at_random({"batch": batch, "a": work, "b": work}, out=out, ending="batch", after=restart)
    done = cc("work", *flags, "--until-empty", **PATIENT)
    assert done.returncode == 0, done.stderr
    judge(out, calm, root, kills=KILLS, restarts=1)


def test_a_killed_command_takes_its_processes_with_it(root: Path) -> None:
    flags = ("--crawl", "TEST-2024", "--base-url", root / "crawl", *FLAGS, "--executor", "pool", "--processes", "2")
    with ExitStack() as stack:
        process = start(command("run", *flags, "--out", root / "orphans"), stack)
        deadline = time.monotonic() + DEADLINE
        while len(children := descendants_of(process.pid)) < 4:  # workers, and the parser of each
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE)
        while any(map(is_running, children)):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def descendants_of(pid: int) -> list[int]:
    children = children_of(pid)
    return [*children, *(one for child in children for one in descendants_of(child))]


def children_of(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def is_running(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.strip().startswith("Z")
