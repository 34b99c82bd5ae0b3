"""Stop processes for a while (SIGSTOP) and let them go on (SIGCONT), and prove that they stood still."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0  # seconds for the kernel to stop all threads of a process


@contextmanager
def paused(*pids: int) -> Iterator[None]:
    """Stop processes; in the block they stand still. They go on afterwards, in the order given."""
    for pid in pids:
        pause(pid)
    try:
        yield
        assert all(is_stopped(pid) for pid in pids), "somebody else let it go on"
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def pause(pid: int) -> None:
    """Stop a process, and return when every thread of it stands still."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE
    while not is_stopped(pid):
        assert time.monotonic() < deadline, f"{pid} does not stop"
        time.sleep(0.005)


def is_stopped(pid: int) -> bool:
    """Return whether the state of all threads is T (proc(5)): stopped by a signal."""
    stats = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
