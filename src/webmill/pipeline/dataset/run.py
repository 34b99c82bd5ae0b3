"""Run a dataset: every line of its manifest is a task, every task runs to its end once."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import msgspec

from webmill.infra.executor.base import Executor
from webmill.infra.sources.backends import open_source
from webmill.infra.storage.backends import open_storage
from webmill.pipeline.dataset.config import ErrorsSection, WriteSection
from webmill.pipeline.dataset.folder import DatasetFolder, document_filter
from webmill.pipeline.extract.engine import EngineTimes
from webmill.pipeline.extract.jobs import ExtractJob, run_job
from webmill.pipeline.extract.plan import ArchiveFetching, ExtractPlan, OutputTarget, StreamReading
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.extract.totals import ExtractReport, TaskTotals
from webmill.pipeline.extract.worker import open_receipts
from webmill.pipeline.progress import ProgressReporter
from webmill.settings import HttpSettings

Emit = Callable[[bytes], None]


def run_dataset(
    folder: DatasetFolder,
    executor: Executor,
    *,
    http: HttpSettings,
    progress: ProgressReporter,
    emit: Emit,
    killable: bool = True,
    pace: EngineTimes = EngineTimes(),  # noqa: B008 - it is frozen
) -> ExtractReport:
    """Do all tasks that are not done. `emit` takes the documents of a dataset that writes to stdout.

    `killable`: tasks have processes of their own. Conflict when another run is at it. Misconfigured: what documents are
    made with is not installed here.
    """
    folder.making.check()
    folder.note_first_run(time.time())
    plan = dataset_plan(folder, http=http, killable=killable)

    def done(task: Task, _totals: TaskTotals) -> None:
        if folder.dataset.write.to == "stdout":
            emit_documents(plan, task, emit)

    if folder.dataset.reads_messages:
        with closing(open_source(plan.source)) as source:
            folder.add_shards(source.shards())
    job = ExtractJob(
        folder=folder.path,
        plan=plan,
        tasks=folder.tasks,
        attempts=folder.dataset.compute.attempts,
        repeat=folder.dataset.reads_messages,
    )
    return run_job(job, executor, progress=progress, pace=pace, done=done)


def dataset_plan(folder: DatasetFolder, *, http: HttpSettings, killable: bool = True) -> ExtractPlan:
    """Return the dataset's description as workers need it. Relative places become those in the folder."""
    dataset, write = folder.dataset, folder.dataset.write
    if write.to == "stdout":
        write = msgspec.structs.replace(write, compression="none")
    return ExtractPlan(
        name=dataset.name,
        source=dataset.read.source,
        output=_resolve_target(folder, write),
        errors=_resolve_target(folder, dataset.errors),
        state=folder.state,
        recipe=folder.making.recipe,
        otherwise=folder.making.otherwise,
        keep=document_filter(dataset.document),
        function=None if dataset.reader_name else folder.function,
        reader=folder.function if dataset.reader_name else None,
        stream=StreamReading(
            since=folder.first_run() if dataset.read.start == "latest" else 0.0,
            follow=dataset.read.follow,
            empty_receives=dataset.read.empty_receives,
        ),
        pages_per_part=write.pages_per_part,
        bytes_per_part=write.bytes_per_part,
        fetching=ArchiveFetching(http=http),
        timeout=dataset.compute.timeout,
        memory=dataset.compute.memory,
        killable=killable,
    )


def emit_documents(plan: ExtractPlan, task: Task, emit: Emit) -> None:
    storage = open_storage(plan.output.to)
    for receipt in open_receipts(plan, task).read():
        if receipt.output:
            emit(storage.read(receipt.output.name))


def _resolve_target(folder: DatasetFolder, target: WriteSection | ErrorsSection) -> OutputTarget:
    return OutputTarget(to=folder.place(target.to), format=target.format, compression=target.compression)
