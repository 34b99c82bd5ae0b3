"""Looking at real processes: every test here must leave none behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def children() -> set[int]:
    """Processes and zombies whose parent is this process, in any thread."""
    for _ in range(100):
        try:
            lists = [(task / "children").read_text() for task in Path("/proc/self/task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread has just ended, and another has its children now
        return {int(pid) for each in lists for pid in each.split()}
    raise AssertionError("threads come and go, or the kernel does not tell of children")


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int, *, patience: float = 100.0) -> None:
    """A condition with a deadline; not a sleep for luck."""
    end = time.monotonic() + patience
    while exists(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.01)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """No new child, not even a zombie, and no new open file."""
    processes, files = children(), open_files()
    yield
    assert children() <= processes
    assert open_files() <= files
