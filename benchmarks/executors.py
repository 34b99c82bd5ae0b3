"""Tiny tasks through our pool and the standard library's, and pages through a sandbox: the cost of not trusting code.

Wall time is printed beside the races' CPU time where waiting is the point: a start, a round trip.
"""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.frame import race
from webmill.infra.child import PICKLED, Child, ChildJob, ChildLimits
from webmill.infra.executor.base import TaskDone
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.sandbox import Sandbox

TASKS = 5000
WORKERS = 2
PAGES = 2000


def square(number: int) -> int:
    return number * number


def measure_page(page: bytes) -> int:
    return len(page)


def ours() -> int:
    return sum(isinstance(outcome, TaskDone) for outcome in PoolExecutor(workers=WORKERS).run(square, range(TASKS)))


def standard() -> int:
    """With spawn, as ours: fork is not safe beside threads. It takes all items at once."""
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        return sum(1 for _ in pool.map(square, range(TASKS)))


def sandboxed(page: bytes) -> Callable[[], int]:
    def run() -> int:
        with Sandbox("benchmarks.executors:measure_page", returns=int) as sandbox:
            return sum(1 for _ in range(PAGES) if sandbox.call(page) == len(page))

    return run


def trusted(page: bytes) -> Callable[[], int]:
    return lambda: sum(1 for _ in range(PAGES) if measure_page(page) == len(page))


def print_wall(title: str, action: Callable[[], object], *, times: int) -> None:
    best = min(_timed(action) for _ in range(times))
    print(f"| {title} | {best * 1e3:.2f} ms |")


def _timed(action: Callable[[], object]) -> float:
    before = time.perf_counter()
    action()
    return time.perf_counter() - before


def start_child() -> None:
    child = Child(ChildJob(pickle.dumps(abs), ChildLimits()), PICKLED)
    child.receive()
    child.kill()


def start_spawned() -> None:
    process = multiprocessing.get_context("spawn").Process(target=abs, args=(1,))
    process.start()
    process.join()


def start_forkserved() -> None:
    process = multiprocessing.get_context("forkserver").Process(target=abs, args=(1,))
    process.start()
    process.join()


def print_latencies() -> None:
    print("\n## Starts and round trips, best wall time\n\n| | |\n|---|---:|")
    print_wall("start of a child of ours, until Ready", start_child, times=10)
    print_wall("start and end, multiprocessing spawn", start_spawned, times=10)
    print_wall("start and end, multiprocessing forkserver", start_forkserved, times=10)
    with Sandbox("benchmarks.executors:measure_page", returns=int) as sandbox:
        for size in (100, 100_000, 1_000_000):
            print_wall(f"sandbox call with {size:,} bytes", partial(sandbox.call, b"x" * size), times=500)


def main() -> None:
    race("Tiny tasks over two processes", {"webmill pool": ours, "ProcessPoolExecutor": standard}, unit="tasks")
    page = b"x" * 50_000
    race(
        "Pages of 50 kB, with a killable parser",
        {"sandbox": sandboxed(page), "in process": trusted(page)},
        unit="pages",
    )
    print_latencies()


if __name__ == "__main__":
    from importlib import import_module  # under its name: children cannot find what is defined in __main__

    import_module("benchmarks.executors").main()
