"""Tasks of datasets, and queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from webmill.collection import Publishing
from webmill.errors import NotFound
from webmill.infra import ledger
from webmill.infra.looking import is_held
from webmill.infra.queue.backends import viewed_queue
from webmill.infra.queue.base import QueueOptions
from webmill.pipeline.dataset.folder import LEDGER, find_folders
from webmill.pipeline.dataset.own import holds_pages, warcs_of
from webmill.pipeline.status.files import MOST_FILES
from webmill.pipeline.status.nouns import Queue, Work
from webmill.pipeline.status.stored import Found


class _Made(msgspec.Struct):
    """Of a task's totals."""

    documents: int = 0
    errors: int = 0


def own_archives(root: Path, found: Found) -> Work | None:
    """`waiting` are archives that were not read yet, or not to their end."""
    folder = Publishing(root).extract
    work, read = work_in(folder), set[str]()
    for path in find_folders(folder):
        read |= warcs_of(path)
    unread = min(MOST_FILES, sum(1 for key in found if holds_pages(key) and key not in read))
    if work is None:
        return Work(waiting=unread) if unread else None
    return msgspec.structs.replace(work, waiting=work.waiting + unread)


def work_in(folder: Path) -> Work | None:
    total = Work()
    for path in find_folders(folder):
        one = work_of(path)
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


def work_of(path: Path) -> Work:
    tasks = len(warcs_of(path))
    try:
        counts = ledger.peek(path / LEDGER)
        made = made_in(path / LEDGER)
    except NotFound:  # planned, and never run
        return Work(waiting=tasks)
    return Work(
        done=counts.done,
        failed=counts.failed,
        waiting=max(counts.planned + counts.running, tasks - counts.done - counts.failed),
        documents=made.documents,
        errors=made.errors,
        is_running=is_held(path, "run"),
    )


def made_in(path: Path) -> _Made:
    """Of all tasks of a ledger together: there may be hundreds of thousands."""
    total = _Made()
    with closing(ledger.peek_results(path)) as results:
        for result in filter(None, results):
            one = msgspec.json.decode(result, type=_Made)
            total = _Made(total.documents + one.documents, total.errors + one.errors)
    return total


def queues_in(root: Path) -> Iterator[Queue]:
    """Files of the collection; a broker is not asked."""
    for name, file in {"publish": Publishing(root).queue, "extract": root / "queue.sqlite"}.items():
        if file.is_file():
            with viewed_queue(f"sqlite:{file}", QueueOptions(name=name)) as queue:
                yield Queue(name, str(file), queue.stats())
