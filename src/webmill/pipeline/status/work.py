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
from webmill.pipeline.dataset.folder import MANIFEST, find_folders
from webmill.pipeline.extract.collection import holds_pages, known_archives, refuse_old
from webmill.pipeline.extract.jobs import TASKS
from webmill.pipeline.extract.manifest import parse_manifest
from webmill.pipeline.status.files import MOST_FILES
from webmill.pipeline.status.nouns import Queue, Work
from webmill.pipeline.status.stored import Found


def own_archives(root: Path, found: Found) -> Work | None:
    """`waiting` are archives that were not read yet, or not to their end. Misconfigured: read by an earlier webmill."""
    refuse_old(root)
    folder = PublishFolders(root).extract_state
    work = work_in(folder)
    known = known_archives(root, keys := {key for key in found if holds_pages(key)})
    unread = min(MOST_FILES, len(keys) - known)
    if work is None:
        return Work(waiting=unread) if unread else None
    return msgspec.structs.replace(work, waiting=work.waiting + unread)


def datasets_in(folder: Path) -> Work | None:
    """All datasets of a folder together."""
    total = Work()
    for path in find_folders(folder):
        one = work_in(path) or Work(waiting=tasks_of(path))
        total = Work(
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


def tasks_of(path: Path) -> int:
    lines = (path / MANIFEST).read_text(encoding="utf-8").splitlines()
    return len(parse_manifest(lines, source=MANIFEST))


def work_in(folder: Path) -> Work | None:
    """What became of the tasks of a job, which may be hundreds of thousands. None: it was never run."""
    documents = errors = 0
    try:
        with view_file(folder / TASKS) as queue:
            stats = queue.stats()
            for entry in queue.entries():
                if entry.result:
                    made = msgspec.json.decode(entry.result, type=_Made)
                    documents, errors = documents + made.documents, errors + made.errors
    except NotFound:
        return None
    return Work(
        datasets=1,
        done=stats.done,
        failed=stats.buried,
        waiting=stats.waiting,
        documents=documents,
        errors=errors,
        is_running=is_locked(folder, "run"),
        with_failures=[str(folder)] * bool(stats.buried),
    )


class _Made(msgspec.Struct):
    """Of a task's totals."""

    documents: int = 0
    errors: int = 0


def queues_in(root: Path) -> Iterator[Queue]:
    """Files of the collection; a broker is not asked."""
    for name, file in {"publish": PublishFolders(root).queue, "extract": root / "queue.sqlite"}.items():
        if file.is_file():
            with view_queue(f"sqlite:{file}", QueueOptions(name=name)) as queue:
                yield Queue(name, str(file), queue.stats())
