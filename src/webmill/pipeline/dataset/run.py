"""Run a dataset: every line of its manifest is a task, every task runs to its end once.

    manifest ─▶ ledger ─▶ executor ─▶ run_task (task.py) ─▶ output/, errors/, receipts/
                  ▲                        │
                  └── done, failed ────────┘

Killed at any moment and run again: finished tasks are not repeated, others go on from their receipts, and the output is
that of a run that nobody disturbed.
"""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from webmill.errors import Unavailable
from webmill.infra import atomic
from webmill.infra.executor.base import Done, Executor, Failed
from webmill.infra.ledger import Claim, Ledger, Task
from webmill.infra.retry import Policy
from webmill.pipeline.dataset.config import Dataset, is_address, is_queue
from webmill.pipeline.dataset.folder import Folder, running
from webmill.pipeline.dataset.ledger import RunLedger
from webmill.pipeline.dataset.manifest import Files
from webmill.pipeline.dataset.monitor import Monitor
from webmill.pipeline.dataset.task import Doors, Job, Totals, add_counts, open_receipts, run_task
from webmill.pipeline.watch import Watch

log = logging.getLogger(__name__)

BETWEEN_ROUNDS = Policy(first_wait=2.0, longest_wait=60.0)


class Failure(msgspec.Struct, frozen=True):
    task: str
    reason: str


class Report(msgspec.Struct, kw_only=True):
    """What this run did. Of all tasks of the dataset, `failed` are failed now, by whichever run, and `left` are neither
    done nor failed."""

    tasks: int = 0
    pages: int = 0
    documents: int = 0
    skipped: int = 0
    left_out: dict[str, int] = {}  # of those skipped: what is no document, by kind
    errors: int = 0
    failures: list[Failure] = []
    stopped: bool = False
    failed: int = 0
    left: int = 0


class Run(msgspec.Struct, frozen=True):
    """What is given to a run. `emit` takes the documents of a dataset that writes to stdout."""

    executor: Executor
    doors: Doors
    watch: Watch
    emit: Callable[[bytes], None]
    killable: bool = True  # False: tasks share this process


def run_dataset(folder: Folder, run: Run) -> Report:
    """Conflict when another run is at it."""
    report = Report()
    with running(folder.path), closing(RunLedger(folder.ledger)) as book:
        folder.stop_file.unlink(missing_ok=True)
        dataset = resolve(folder)
        sweep(dataset)
        plan(folder, book.ledger)
        with (
            run.watch("Making documents", unit="pages") as counter,
            Monitor(folder.stop_file, counter) as monitor,
        ):
            try:
                run_rounds(folder, dataset, run, book, monitor, report)
            except KeyboardInterrupt:
                if not monitor.stopping:
                    raise
            report.stopped = monitor.stopping
        sweep(dataset)  # again: when the run began, workers of a killed one may have been about to die
        report.failed, report.left = book.ledger.counts().failed, book.unsettled()
    return report


def resolve(folder: Folder) -> Dataset:
    """Relative places become those in the folder."""
    write, errors = folder.dataset.write, folder.dataset.errors
    if write.to == "stdout":
        write = msgspec.structs.replace(write, compression="none")
    return msgspec.structs.replace(
        folder.dataset,
        write=msgspec.structs.replace(write, to=folder.place(write.to)),
        errors=msgspec.structs.replace(errors, to=folder.place(errors.to)),
    )


def sweep(dataset: Dataset) -> None:
    """Drafts of workers that were killed."""
    for place in (dataset.write.to, dataset.errors.to):
        if not is_queue(place) and not is_address(place):
            for parent in {draft.parent for draft in Path(place).rglob(f"{atomic.RESERVED}tmp-*")}:
                atomic.remove_stale_temps(parent)


def plan(folder: Folder, ledger: Ledger) -> None:
    if not sum(msgspec.structs.astuple(ledger.counts())):  # all were planned, or none
        ledger.plan(Task(task, msgspec.json.encode(files)) for task, files in folder.tasks())


def run_rounds(folder: Folder, dataset: Dataset, run: Run, book: RunLedger, monitor: Monitor, report: Report) -> None:
    """What may work later is tried again when all others had their turn."""
    attempts = dataset.compute.attempts
    for number in range(1, attempts + 1):
        run_round(folder, dataset, run, book, monitor, report, last=number == attempts)
        if monitor.stopping or not book.unsettled():
            break
        wait = BETWEEN_ROUNDS.wait(number, retry_after=None, random=random.random())  # noqa: S311 - only spreads load
        log.warning("tasks wait for another try", extra={"tasks": book.unsettled(), "seconds": wait})
        monitor.wait(wait)


def run_round(
    folder: Folder,
    dataset: Dataset,
    run: Run,
    book: RunLedger,
    monitor: Monitor,
    report: Report,
    *,
    last: bool,
) -> None:
    held: dict[str, Claim] = {}

    def jobs() -> Iterator[Job]:
        for claim in book.round(f"{socket.gethostname()}:{os.getpid()}"):
            held[claim.task_id] = claim
            job = job_of(folder, dataset, run, claim)
            monitor.begin(claim.task_id, open_receipts(job))
            yield job

    with closing(run.executor.run(run_task, jobs(), attempts=dataset.compute.attempts)) as outcomes:
        for outcome in outcomes:
            claim = held.pop(outcome.item.task)
            match outcome:
                case Done(item=job, value=totals):
                    settle(folder, run, book, claim, job, totals, report)
                    monitor.end(job.task, totals.pages)
                case Failed(item=job, reason=reason, error=error, trace=trace):
                    again = isinstance(error, Unavailable) and not last
                    log.warning("a task failed", extra={"task": job.task, "reason": reason, "again": again})
                    book.failed(claim, f"{reason}\n{trace}" if trace and not error else reason, again=again)
                    monitor.end(job.task, 0)
                    if not again:
                        report.failures.append(Failure(job.task, reason))


def job_of(folder: Folder, dataset: Dataset, run: Run, claim: Claim) -> Job:
    return Job(
        task=claim.task_id,
        files=msgspec.json.decode(claim.payload, type=Files),
        dataset=dataset,
        receipts=folder.receipts,
        function=folder.function,
        doors=run.doors,
        killable=run.killable,
    )


def settle(folder: Folder, run: Run, book: RunLedger, claim: Claim, job: Job, totals: Totals, report: Report) -> None:
    if folder.dataset.write.to == "stdout":
        storage = run.doors.storage(job.dataset.write.to)
        for receipt in open_receipts(job).read():
            if receipt.output:
                run.emit(storage.read(receipt.output.name))
    book.ledger.done(claim, msgspec.json.encode(totals))
    report.tasks += 1
    report.pages += totals.pages
    report.documents += totals.documents
    report.skipped += totals.skipped
    add_counts(report.left_out, totals.left_out)
    report.errors += totals.errors
