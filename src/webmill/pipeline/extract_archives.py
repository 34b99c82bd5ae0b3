"""Documents of a collection's own archives: those that were not read before."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from webmill.collection import Publishing, crawls_in
from webmill.infra.executor.backends import open_executor
from webmill.infra.queue.backends import open_queue
from webmill.infra.queue.base import Queue, QueueOptions
from webmill.infra.sinks.backends import open_stream
from webmill.infra.storage.backends import locate, open_readable, open_storage
from webmill.pipeline.dataset.config import Make, Write
from webmill.pipeline.dataset.own import datasets_due
from webmill.pipeline.dataset.run import Report, Run, run_dataset
from webmill.pipeline.dataset.task import Doors, add_counts
from webmill.pipeline.watch import Watch
from webmill.settings import ExtractSettings, HttpSettings, Settings

Refuse = Callable[[str, str, str], None]  # path, reason, message


def extract_archives(root: Path, settings: Settings, *, watch: Watch, refuse: Refuse = lambda *_: None) -> Report:
    """Make documents of the archives that were not read before."""
    total, chosen = Report(), settings.executor
    document, write = shape_of(root, settings.extract)
    with closing(open_executor(chosen.url, workers=chosen.jobs)) as executor:
        work = Run(executor, doors(settings.http), watch, emit=lambda _: None, killable=chosen.url != "inline")
        for folder in datasets_due(root, crawls_in(root), document=document, write=write, refuse=refuse):
            total = added(total, run_dataset(folder, work))
    return total


def shape_of(root: Path, settings: ExtractSettings) -> tuple[Make, Write]:
    keep = Make(keep="captures" if settings.all_captures else "documents")
    return keep, Write(to=str(Publishing(root).documents), format=settings.format)


def doors(http: HttpSettings) -> Doors:
    return Doors(
        storage=open_storage,
        readable=partial(open_readable, contact=http.contact, timeout=http.timeout),
        locate=partial(locate, contact=http.contact, timeout=http.timeout),
        queue=open_named_queue,
        stream=open_stream,
    )


def open_named_queue(url: str, name: str) -> Queue:
    """The path of an SQLite queue is absolute by now."""
    return open_queue(url, QueueOptions(name=name))


def added(one: Report, other: Report) -> Report:
    add_counts(left_out := dict(one.left_out), other.left_out)
    return Report(
        tasks=one.tasks + other.tasks,
        pages=one.pages + other.pages,
        documents=one.documents + other.documents,
        skipped=one.skipped + other.skipped,
        left_out=left_out,
        errors=one.errors + other.errors,
        failures=[*one.failures, *other.failures],
        stopped=one.stopped or other.stopped,
        failed=one.failed + other.failed,
        left=one.left + other.left,
    )
