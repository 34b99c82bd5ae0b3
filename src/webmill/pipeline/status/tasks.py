"""Tasks of datasets, and queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.errors import NotFound
from webmill.infra.lock import is_locked
from webmill.infra.queue.backends import view_queue
from webmill.infra.queue.base import QueueOptions
from webmill.infra.queue.sqlite_reader import view_file
from webmill.pipeline.dataset.folder import MANIFEST, find_datasets
from webmill.pipeline.extract.collection import count_known_archives, holds_pages, refuse_outdated
from webmill.pipeline.extract.jobs import TASKS
from webmill.pipeline.extract.manifest import parse_manifest
from webmill.pipeline.status.files import MAX_FILES
from webmill.pipeline.status.stages import ArchiveStats
from webmill.pipeline.status.types import ExtractStatus, QueueStatus


def read_extract_status(root: Path, found: ArchiveStats) -> ExtractStatus | None:
    """`waiting` are archives that were not read yet, or not to their end. Misconfigured: read by an earlier webmill."""
    refuse_outdated(root)
    folder = PublishFolders(root).extract_state
    work = read_tasks_status(folder)
    known = count_known_archives(root, keys := {key for key in found if holds_pages(key)})
    unread = min(MAX_FILES, len(keys) - known)
    if work is None:
        return ExtractStatus(waiting=unread) if unread else None
    return msgspec.structs.replace(work, waiting=work.waiting + unread)


def read_datasets_status(folder: Path) -> ExtractStatus | None:
    """Return the status of all datasets of a folder together."""
    total = ExtractStatus()
    for path in find_datasets(folder):
        one = read_tasks_status(path) or ExtractStatus(waiting=count_tasks(path))
        total = ExtractStatus(
            datasets=total.datasets + 1,
            done=total.done + one.done,
            failed=total.failed + one.failed,
            waiting=total.waiting + one.waiting,
            documents=total.documents + one.documents,
            errors=total.errors + one.errors,
            is_running=total.is_running or one.is_running,
            with_failures=total.with_failures + [str(path)] * bool(one.failed),
        )
    return total if total.datasets else None


def count_tasks(path: Path) -> int:
    lines = (path / MANIFEST).read_text(encoding="utf-8").splitlines()
    return len(parse_manifest(lines, source=MANIFEST))


def read_tasks_status(folder: Path) -> ExtractStatus | None:
    """Return the status of a job's tasks, which may be hundreds of thousands. None: it was never run."""
    documents = errors = 0
    try:
        with view_file(folder / TASKS) as queue:
            stats = queue.stats()
            for entry in queue.entries():
                if entry.result:
                    made = msgspec.json.decode(entry.result, type=_TaskResult)
                    documents, errors = documents + made.documents, errors + made.errors
    except NotFound:
        return None
    return ExtractStatus(
        datasets=1,
        done=stats.done,
        failed=stats.buried,
        waiting=stats.waiting,
        documents=documents,
        errors=errors,
        is_running=is_locked(folder, "run"),
        with_failures=[str(folder)] * bool(stats.buried),
    )


class _TaskResult(msgspec.Struct):
    """Of a task's totals."""

    documents: int = 0
    errors: int = 0


def read_queue_statuses(root: Path) -> Iterator[QueueStatus]:
    """Yield the status of queues that are files of the collection; brokers are not asked."""
    for name, file in {"publish": PublishFolders(root).queue, "extract": root / "queue.sqlite"}.items():
        if file.is_file():
            with view_queue(f"sqlite:{file}", QueueOptions(name=name)) as queue:
                yield QueueStatus(name, str(file), queue.stats())
