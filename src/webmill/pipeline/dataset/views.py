"""Looking at a dataset, while it runs or not: its tasks, their progress, its errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.decompressors import Gzip, Zstd
from webmill.formats.typed_records import FileType
from webmill.infra.address import hide_secrets
from webmill.infra.ledger import Counts, Entry
from webmill.pipeline.dataset.config import is_queue
from webmill.pipeline.dataset.folder import Folder
from webmill.pipeline.dataset.ledger import looking
from webmill.pipeline.dataset.manifest import Files
from webmill.pipeline.dataset.receipts import Receipt, Receipts
from webmill.pipeline.dataset.run import resolve
from webmill.pipeline.dataset.task import Doors, Totals, totals_of


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is planned, running, done or failed; and paused: begun, and no run is at it. `progress` is 0 to 1."""

    id: str
    state: str
    files: Files
    attempts: int
    worker: str
    reason: str
    changed: float
    progress: float
    totals: Totals


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    path: str
    running: bool
    tasks: int
    counts: Counts


def overview(folder: Folder) -> Overview:
    with looking(folder.ledger) as ledger:
        counts = ledger.counts()
    tasks = sum(msgspec.structs.astuple(counts)) or sum(1 for _ in folder.tasks())
    return Overview(
        name=folder.dataset.name, path=str(folder.path), running=folder.is_running(), tasks=tasks, counts=counts
    )


def task_views(folder: Folder, doors: Doors) -> Iterator[TaskView]:
    """In the order of the manifest."""
    running = folder.is_running()
    with looking(folder.ledger) as ledger:
        for task, files in folder.tasks():
            entry = ledger.find(task) or Entry(task, "planned", 0, "", "", None, 0.0)
            yield _view(entry, files, _totals(folder, doors, entry), running=running)


def redrive(folder: Folder, tasks: Iterable[str]) -> int:
    """Failed tasks (none named: all) are planned again, and go on from their receipts; how many."""
    tasks = check_tasks(folder, tasks)
    with looking(folder.ledger) as ledger:
        return ledger.redrive(tasks or None)


def check_tasks(folder: Folder, tasks: Iterable[str]) -> list[str]:
    """The same. NotFound when the dataset has no such task."""
    tasks = list(tasks)
    if missing := set(tasks) - {task for task, _ in folder.tasks()}:
        name = folder.dataset.name
        raise NotFound(f"{name} has no task {min(missing)}: `webmill dataset tasks {name}` shows what there is")
    return tasks


def receipts_of(folder: Folder, doors: Doors, task: str) -> list[Receipt]:
    """All there are: the log of what the task has done."""
    return Receipts(doors.storage(folder.receipts), task, files=None, error_files=None).read_after(0)


def error_lines(folder: Folder, doors: Doors) -> Iterator[bytes]:
    """JSON lines. BadInput when errors went to a queue, or into Parquet files: read them there."""
    target = resolve(folder).errors
    if is_queue(target.to) or target.format == "parquet":
        raise BadInput(
            f"its errors are in {hide_secrets(target.to)}: read them there", reason="elsewhere", source=str(folder.path)
        )
    storage = doors.storage(target.to)
    for task, _ in folder.tasks():
        for receipt in receipts_of(folder, doors, task):
            if receipt.errors:
                yield from _lines(storage.read(receipt.errors.name), receipt.errors.name)


def _lines(data: bytes, name: str) -> Iterator[bytes]:
    if name.endswith(".gz"):
        data = b"".join(Gzip().feed(data))
    elif name.endswith(".zst"):
        data = b"".join(Zstd().feed(data))
    yield from data.splitlines(keepends=True)


def _totals(folder: Folder, doors: Doors, entry: Entry) -> Totals:
    if entry.result:
        return msgspec.json.decode(entry.result, type=Totals)
    return totals_of(receipts_of(folder, doors, entry.id)) if entry.attempts or entry.state == "failed" else Totals()


def _view(entry: Entry, files: Files, totals: Totals, *, running: bool) -> TaskView:
    state: str = entry.state
    if not running and (state == "running" or (state == "planned" and totals.parts)):
        state = "paused"
    return TaskView(
        id=entry.id,
        state=state,
        files=files,
        attempts=entry.attempts,
        worker=entry.worker,
        reason=entry.reason,
        changed=entry.changed,
        progress=1.0 if state == "done" else _progress(totals),
        totals=totals,
    )


def _progress(totals: Totals) -> float:
    """How far it has read into the WARC file."""
    size = totals.sources.get(FileType.WARC, 0)
    return round(totals.resume.get(FileType.WARC, 0) / size, 4) if size else 0.0
