"""Looking at a dataset, while it runs or not: its tasks, their progress, its errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.compression.decompressors import GzipDecompressor, ZstdDecompressor
from webmill.formats.warc.typed_records import FileType
from webmill.infra.queue.base import QueueStats
from webmill.infra.queue.sqlite_reader import TaskEntry, view_file
from webmill.infra.storage.backends import open_storage
from webmill.masking import hide_secrets
from webmill.pipeline.dataset.folder import DatasetFolder
from webmill.pipeline.extract.jobs import open_tasks
from webmill.pipeline.extract.manifest import TaskFiles
from webmill.pipeline.extract.plan import is_queue
from webmill.pipeline.extract.receipts import Receipt, Receipts
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.extract.totals import TaskTotals, add_up_receipts

STATES = {"ready": "planned", "delayed": "planned", "leased": "running", "buried": "failed", "done": "done"}


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is planned, running, done or failed; and paused: begun, and no run is at it. `progress` is 0 to 1."""

    id: str
    state: str
    files: TaskFiles
    attempts: int
    reason: str
    changed: float
    progress: float
    totals: TaskTotals


class TaskCounts(msgspec.Struct, frozen=True):
    """The tasks by state, with the names that `TaskView` has."""

    planned: int
    running: int
    paused: int
    done: int
    failed: int


class DatasetOverview(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    path: str
    running: bool
    tasks: int
    counts: TaskCounts


def dataset_overview(folder: DatasetFolder) -> DatasetOverview:
    is_running = folder.is_running()
    counts = _count_tasks(folder, running=is_running)
    tasks = sum(msgspec.structs.astuple(counts))
    return DatasetOverview(
        name=folder.dataset.name, path=str(folder.path), running=is_running, tasks=tasks, counts=counts
    )


def _count_tasks(folder: DatasetFolder, *, running: bool) -> TaskCounts:
    """Return how many tasks are in which state. Without a run, those that were begun are looked at one by one."""
    stats = _stats(folder)
    if running and any(msgspec.structs.astuple(stats)):
        return TaskCounts(stats.ready + stats.delayed, stats.leased, 0, stats.done, stats.buried)
    states = Counter(view.state for view in task_views(folder))
    return TaskCounts(**{name: states[name] for name in TaskCounts.__struct_fields__})


def task_views(folder: DatasetFolder) -> Iterator[TaskView]:
    """Yield all tasks, in the order of the manifest."""
    is_running, known = folder.is_running(), _entries(folder)
    for task in folder.tasks():
        entry = known.get(task.id) or TaskEntry(task.id, "ready")
        yield _view(entry, task, _totals(folder, entry, task), running=is_running)


def redrive(folder: DatasetFolder, tasks: Iterable[str]) -> int:
    """Plan failed tasks (none named: all) again; they go on from their receipts. Return how many there were."""
    tasks = check_tasks(folder, tasks)
    if not folder.queue.exists():
        return 0
    with closing(open_tasks(folder.path, attempts=folder.dataset.compute.attempts)) as queue:
        return queue.requeue(tasks or None)


def check_tasks(folder: DatasetFolder, tasks: Iterable[str]) -> list[str]:
    """Return the tasks as a list. NotFound: the dataset has no such task."""
    tasks = list(tasks)
    if missing := set(tasks) - {task.id for task in folder.tasks()}:
        name = folder.dataset.name
        raise NotFound(f"{name} has no task {min(missing)}: `webmill dataset tasks {name}` shows what there is")
    return tasks


def read_receipts(folder: DatasetFolder, task: Task) -> list[Receipt]:
    """Return all receipts of a task: the log of what it has done."""
    return Receipts(open_storage(folder.state), task.prefix, files=None, error_files=None).read_after(0)


def error_lines(folder: DatasetFolder) -> Iterator[bytes]:
    """Yield JSON lines. BadInput when errors went to a queue, or into Parquet files: read them there."""
    target, place = folder.dataset.errors, folder.place(folder.dataset.errors.to)
    if is_queue(place) or target.format == "parquet":
        raise BadInput(
            f"its errors are in {hide_secrets(place)}: read them there", reason="elsewhere", source=str(folder.path)
        )
    storage = open_storage(place)
    for task in folder.tasks():
        for receipt in read_receipts(folder, task):
            if receipt.errors:
                yield from _lines(storage.read(receipt.errors.name), receipt.errors.name)


def _lines(data: bytes, name: str) -> Iterator[bytes]:
    if name.endswith(".gz"):
        data = b"".join(GzipDecompressor().feed(data))
    elif name.endswith(".zst"):
        data = b"".join(ZstdDecompressor().feed(data))
    yield from data.splitlines(keepends=True)


def _entries(folder: DatasetFolder) -> dict[str, TaskEntry]:
    try:
        with view_file(folder.queue) as queue:
            return {entry.id: entry for entry in queue.entries()}
    except NotFound:
        return {}


def _stats(folder: DatasetFolder) -> QueueStats:
    try:
        with view_file(folder.queue) as queue:
            return queue.stats()
    except NotFound:
        return QueueStats(0, 0, 0, 0)


def _totals(folder: DatasetFolder, entry: TaskEntry, task: Task) -> TaskTotals:
    if entry.result:
        return msgspec.json.decode(entry.result, type=TaskTotals)
    return add_up_receipts(read_receipts(folder, task)) if entry.changed else TaskTotals()  # it was begun


def _view(entry: TaskEntry, task: Task, totals: TaskTotals, *, running: bool) -> TaskView:
    state = STATES[entry.state]
    if not running and (state == "running" or (state == "planned" and totals.parts)):
        state = "paused"
    return TaskView(
        id=entry.id,
        state=state,
        files=task.files,
        attempts=entry.attempts,
        reason=entry.reason,
        changed=entry.changed,
        progress=1.0 if state == "done" else _progress(totals),
        totals=totals,
    )


def _progress(totals: TaskTotals) -> float:
    """Return how far a task has read its WARC file, 0 to 1."""
    size = totals.sources.get(FileType.WARC, 0)
    return round(totals.resume.get(FileType.WARC, 0) / size, 4) if size else 0.0
