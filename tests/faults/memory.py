"""Processes that have little memory, and that the kernel itself kills when they want more. For root, on Linux.

with small_memory(64 << 20) as group:
    subprocess.run(command, preexec_fn=group.join)
assert group.killed > 0
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# The memory controller, by its first version and by its second: where groups are, the limit, where kills are counted.
KINDS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.oom_control"),
    (Path("/sys/fs/cgroup"), "memory.max", "memory.events"),
)


class Group:
    def __init__(self, folder: Path, counter: str) -> None:
        self._counter = folder / counter
        self.processes = folder / "cgroup.procs"  # who writes its number there belongs to it

    def join(self) -> None:
        self.processes.write_text(str(os.getpid()))

    @property
    def killed(self) -> int:
        found = re.search(r"^oom_kill (\d+)$", self._counter.read_text(), re.MULTILINE)
        return int(found[1]) if found else 0


@contextmanager
def small_memory(size: int) -> Iterator[Group]:
    """Skips the test where there are no such groups to be made."""
    for root, limit, counter in KINDS:
        folder = root / f"webmill-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if not (folder / limit).exists() or not (folder / counter).exists():
                continue
            (folder / limit).write_text(str(size))
            yield Group(folder, counter)
            return
        finally:
            folder.rmdir()
    pytest.skip("needs root and control groups of memory")
