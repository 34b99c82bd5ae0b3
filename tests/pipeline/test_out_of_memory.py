"""The kernel kills whoever eats all memory: the work is tried again, then given up; others go on (Q04, T09)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.memory import small_memory
from tests.pipeline.datasets import create, pool, run, views, write_files
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue

ROOT = Path(__file__).parents[2]
LIMIT = 128 << 20
LEASE = 2.0
pytestmark = pytest.mark.slow

GREEDY = """
import os
from webmill.extract.capture import document_of
from webmill.model import Document

def document(page) -> Document:
    if page.target_uri.endswith("1-20"):
        with open({group!r}, "w") as group:
            group.write(str(os.getpid()))
        b"x" * {size}
    return document_of(page)
"""


def test_a_worker_that_the_kernel_kills_fails_its_task_and_the_others_finish(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=3, count=30)
    with small_memory(LIMIT) as group:
        function = GREEDY.format(group=str(group.processes), size=4 * LIMIT)
        (tmp_path / "in" / "greedy.py").write_text(function)
        made: dict[str, object] = {"function": "greedy.py:document"}
        folder = create(tmp_path, lines, source=tmp_path / "in", document=made, compute={"attempts": 2})
        report = run(folder, pool())
        assert group.killed == 2
    assert [view.state for view in views(folder)] == ["done", "failed", "done"]
    assert report.documents == 60
    (failure,) = report.failures
    assert "SIGKILL" in failure.reason


WORKER = """
import sys
from pathlib import Path
from webmill.infra.queue.base import is_drained
from webmill.infra.queue.sqlite import SqliteQueue

queue = SqliteQueue(Path(sys.argv[1]), max_attempts=3, lease=float(sys.argv[2]))
with queue.consume() as consumer:
    while not is_drained(queue):
        if delivery := consumer.receive(timeout=0.2):
            if delivery.id == "greedy":
                delivery.body * int(sys.argv[3])
            delivery.ack()
"""


@pytest.mark.soak
def test_a_message_for_which_the_kernel_kills_each_worker_is_buried_and_others_flow(tmp_path: Path) -> None:
    queue = SqliteQueue(tmp_path / "queue.sqlite", max_attempts=3, lease=LEASE)
    queue.publish([Message("first", b""), Message("greedy", b"x"), *(Message(f"{n}", b"") for n in range(5))])
    command = [sys.executable, "-c", WORKER, str(tmp_path / "queue.sqlite"), str(LEASE), str(4 * LIMIT)]
    with small_memory(LIMIT) as group:
        for _ in range(3):
            assert subprocess.run(command, preexec_fn=group.join, check=False, cwd=ROOT).returncode == -signal.SIGKILL
        assert group.killed == 3
        assert subprocess.run(command, preexec_fn=group.join, check=False, cwd=ROOT).returncode == 0
    (buried,) = queue.dead_letters()
    stats = queue.stats()
    queue.close()
    assert (buried.id, buried.attempts) == ("greedy", 3)
    assert "the worker died or hung" in buried.reason
    assert (stats.ready, stats.leased, stats.delayed) == (0, 0, 0)
