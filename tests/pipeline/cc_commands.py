"""`webmill cc …` in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DEADLINE = 100.0


def environment(**settings: str) -> dict[str, str]:
    return {**os.environ, "WEBMILL_EXECUTOR_URL": "inline", **settings}


def cc(*arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "webmill", "cc", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=DEADLINE, env=environment(**settings)
    )


@contextmanager
def started(*arguments: str | Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Killed at the end, if it is there yet."""
    command = [sys.executable, "-m", "webmill", "cc", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(**settings))
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate(timeout=DEADLINE)


def wait_for(condition: Callable[[], object], *, process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        assert process is None or process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.02)
