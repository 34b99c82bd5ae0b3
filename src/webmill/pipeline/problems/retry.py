"""Retry what failed, where a retry exists."""

from __future__ import annotations

from pathlib import Path

from webmill.errors import NotFound
from webmill.infra.queue.backends import existing_queue
from webmill.infra.queue.base import QueueOptions
from webmill.pipeline.problems.alerts import alert_files
from webmill.pipeline.problems.tasks import queue_files


def retry_problem(root: Path, name: str) -> int:
    """Put the failed tasks of a queue back into it; return how many. `name` is a group's `retry`; NotFound: there is no
    such queue."""
    file = {**queue_files(root), **alert_files(root)}.get(name)
    if file is None or not file.is_file():
        raise NotFound(f"nothing to retry under the name {name[:100]!r}")
    with existing_queue(f"sqlite:{file}", QueueOptions(name="")) as queue:
        return queue.requeue()
