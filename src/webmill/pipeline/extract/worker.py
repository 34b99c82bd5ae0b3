"""One task, in a worker: its captures become parts of the output.

    captures ─▶ documents ─▶ part ─▶ sink ─▶ receipt        and again, from the receipt on

Nothing but the receipts and the archives decide what is done: a task may be started anywhere, at any time, by two
workers at once, and its output is the same. A worker's process keeps what it has opened for the next task: the sandbox,
connections, sinks.
"""

from __future__ import annotations

import atexit
import faulthandler
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.batch import BatchItem, RejectedItem, decode_batch
from webmill.commoncrawl.capture_fetcher import CaptureFetcher, StoredCapture
from webmill.commoncrawl.page import Page
from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.extract.error_record import ErrorRecord
from webmill.extract.own_reader import load_file_reader, load_message_reader
from webmill.formats.warc.typed_records import FileType
from webmill.infra.address import below, scheme_of
from webmill.infra.request_outcome import AccessRefused
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.sources.backends import is_source, open_source
from webmill.infra.storage.backends import open_storage
from webmill.pipeline.extract.parts import PartSinks, TaskPart
from webmill.pipeline.extract.plan import ExtractPlan, OutputTarget, is_queue
from webmill.pipeline.extract.reader_parts import ReaderTask, reader_parts
from webmill.pipeline.extract.receipts import Receipt, Receipts
from webmill.pipeline.extract.resources import ArchiveLocator, open_fetcher, open_sink
from webmill.pipeline.extract.row_maker import open_row_maker
from webmill.pipeline.extract.stream_parts import SHARD, StreamTask, stream_parts
from webmill.pipeline.extract.task_files import ReplayStream, open_task_files
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.extract.totals import TaskTotals, add_up_receipts

SPOOL = "spool"
CAPTURES = "CAPTURES"  # how many of a batch are done
DELIVERY = BackoffPolicy(attempts=6, first_wait=0.5, longest_wait=15.0)

T = TypeVar("T")

_worker: Worker | None = None  # of this process


class OutputFailed(Misconfigured):
    """The output cannot be written: no other task would fare better."""


def run_task(plan: ExtractPlan, task: Task) -> TaskTotals:
    """Run a task to its end and return its totals. Executors call this."""
    global _worker  # noqa: PLW0603 - what a process keeps between two tasks
    if _worker is None or _worker.plan != plan:
        close_worker()
        _worker = Worker(plan)
        atexit.register(close_worker)
    return _worker.run(task)


def close_worker() -> None:
    """Close what the worker of this process has opened, if there is one."""
    global _worker
    worker, _worker = _worker, None
    if worker:
        worker.close()


class Worker:
    def __init__(self, plan: ExtractPlan) -> None:
        self.plan = plan
        self._downloaded = 0
        self._fetcher: CaptureFetcher | None = None
        self._archives = ArchiveLocator(plan)
        self._stack = ExitStack()
        self._maker = self._stack.enter_context(closing(open_row_maker(plan)))

    def close(self) -> None:
        self._stack.close()

    def run(self, task: Task) -> TaskTotals:
        plan = self.plan
        with ExitStack() as stack:
            watchdog = stack.enter_context(TaskWatchdog(timeout=plan.timeout, memory=plan.memory, active=plan.killable))
            receipts = open_receipts(plan, task)
            sinks = self._sinks(receipts, stack)
            done = receipts.read_and_clear()
            if done and done[-1].last:
                return add_up_receipts(done)
            began = time.monotonic()
            for part in self._parts(task, done, sinks, watchdog):
                receipt = self._delivered(task, part, len(done), sinks, seconds=time.monotonic() - began)
                _deliver_durably(partial(receipts.add, receipt))
                done.append(receipt)
                began = time.monotonic()
                watchdog.reset()
            return add_up_receipts(done)

    def _sinks(self, receipts: Receipts, stack: ExitStack) -> PartSinks:
        plan, counts = self.plan, receipts.counts
        if plan.spooled:
            spool = OutputTarget(to=below(plan.state, SPOOL), format="jsonl", compression="zstd")
            output = open_sink(spool, self._maker.type, name=plan.name, counts=counts)
        else:
            output = open_sink(plan.output, self._maker.type, name=f"{plan.name}-write", counts=counts)
        errors = open_sink(plan.errors, ErrorRecord, name=f"{plan.name}-errors", counts=counts)
        return PartSinks(stack.enter_context(closing(output)), stack.enter_context(closing(errors)))

    def _delivered(self, task: Task, part: TaskPart, number: int, sinks: PartSinks, *, seconds: float) -> Receipt:
        name = f"{task.id}-{number:05d}"  # of its errors another: both may go to one place
        downloaded, self._downloaded = self._downloaded, 0
        return Receipt(
            number=number,
            resume=part.resume,
            used=part.still_used(),
            sources=part.sources,
            position=part.position,
            messages=part.messages,
            output=_deliver_durably(partial(sinks.output.deliver, name, rows)) if (rows := part.rows) else None,
            errors=_deliver_durably(partial(sinks.errors.deliver, f"{name}-errors", part.errors))
            if part.errors
            else None,
            captures=part.captures,
            bytes=part.bytes,
            outcomes=part.outcomes,
            left_out=part.left_out,
            reasons=part.reasons,
            downloaded=downloaded,
            last=part.last,
            seconds=round(seconds, 3),
        )

    def _parts(self, task: Task, done: list[Receipt], sinks: PartSinks, watchdog: TaskWatchdog) -> Iterator[TaskPart]:
        new_part = partial(TaskPart, task, self.plan, self._maker, sinks)
        if task.run:
            return self._batch_parts(task, done, sinks, watchdog)
        if is_source(self.plan.source):
            return self._stream_parts(task, done, new_part, watchdog)
        if self.plan.reader:
            work = ReaderTask(task, load_file_reader(self.plan.reader), self._archives.find, done)
            return reader_parts(work, new_part=new_part, progressed=watchdog.reset)
        return self._file_parts(task, done, sinks, watchdog)

    def _stream_parts(
        self, task: Task, done: list[Receipt], new_part: Callable[[], TaskPart], watchdog: TaskWatchdog
    ) -> Iterator[TaskPart]:
        reader = load_message_reader(self.plan.reader)
        with closing(open_source(self.plan.source)) as source:
            work = StreamTask(source, task.files[SHARD], reader, self.plan.stream, done)
            yield from stream_parts(work, new_part=new_part, progressed=watchdog.reset)

    # --- files ---

    def _file_parts(
        self, task: Task, done: list[Receipt], sinks: PartSinks, watchdog: TaskWatchdog
    ) -> Iterator[TaskPart]:
        """Yield parts. Each resumes as after a kill, so that a kill changes nothing, whatever the files hold."""
        if FileType.WARC not in task.files:
            raise BadInput("a task without a WARC file", reason="bad_task")
        start = done[-1].resume if done else {}
        known = done[-1].sources if done else {}
        used = done[-1].used if done else ()
        with open_task_files(task.files, self._archives.find, start=start, known=known) as (streams, sources):
            while True:
                part = TaskPart(task, self.plan, self._maker, sinks, used=used)
                part.sources, part.resume = sources, dict(start)
                _fill_part(part, streams, start, watchdog, filename=task.files[FileType.WARC])
                yield part
                if part.last:
                    return
                start, used = part.resume, part.still_used()
                for file_type, stream in streams.items():
                    stream.rewind(start[file_type])

    # --- batches ---

    def _batch_parts(
        self, task: Task, done: list[Receipt], sinks: PartSinks, watchdog: TaskWatchdog
    ) -> Iterator[TaskPart]:
        """Yield parts, nearly always one. Captures come in the order of the archive's files, the same each time."""
        entries = decode_batch(task.batch)
        wanted = {number: item for number, item in enumerate(entries) if not isinstance(item, RejectedItem)}
        behind = done[-1].resume.get(CAPTURES, 0) if done else 0
        part = TaskPart(task, self.plan, self._maker, sinks)
        if not behind:
            for item in entries:
                if isinstance(item, RejectedItem):
                    part.add_bad_item(item)
        for at, (number, stored) in enumerate(self._fetched(wanted), start=1):
            if at <= behind:
                continue
            part.add_stored(wanted[number], stored, number=number)
            part.resume = {CAPTURES: at}
            watchdog.reset()
            if part.is_full() and at < len(wanted):
                yield part
                part = TaskPart(task, self.plan, self._maker, sinks)
        part.last = True
        yield part

    def _fetched(self, wanted: Mapping[int, BatchItem]) -> Iterator[StoredCapture]:
        if self._fetcher is None:
            self._fetcher = self._stack.enter_context(open_fetcher(self.plan, fetched=self._count))
        try:
            yield from self._fetcher.fetch({number: item.capture for number, item in wanted.items()})
        except AccessRefused as error:
            if is_paced(self.plan):  # a breaker keeps us from asking on: the others wait, too
                raise Unavailable(str(error)) from error
            raise

    def _count(self, size: int) -> None:
        self._downloaded += size


def is_paced(plan: ExtractPlan) -> bool:
    return scheme_of(plan.source)[0] in ("http", "https") and plan.fetching.commoncrawl.rate > 0


def _deliver_durably(deliver: Callable[[], T]) -> T:
    """Deliver; rows are durable on return. If the output cannot be written after retries, all work stops."""
    try:
        return retrying(deliver, policy=DELIVERY)
    except (Unavailable, Misconfigured) as error:
        raise OutputFailed(str(error)) from error
    except BadInput as error:
        if error.reason == "bad_path":  # a file is where a folder should be
            raise OutputFailed(str(error)) from error
        raise


def _fill_part(
    part: TaskPart,
    streams: Mapping[str, ReplayStream],
    start: Mapping[str, int],
    watchdog: TaskWatchdog,
    *,
    filename: str,
) -> None:
    """Add captures until the part is full, or the files end."""
    typed = {FileType(name): stream for name, stream in streams.items()}
    warc, wat, wet = (typed.get(file_type) for file_type in (FileType.WARC, FileType.WAT, FileType.WET))
    assert warc  # every task of files has one
    begin = {file_type: start[file_type] for file_type in typed if file_type in start}
    for item in read_pages(warc, wat, wet, start=begin, filename=filename):
        # Errors follow their page, and have its place to read on, which lies behind all of them: a part ends before a
        # page, or, when there are very many errors, before one that has another place. It never ends where it began.
        if isinstance(item, Page):
            if part.is_full():
                return
        elif part.is_full_of_errors() and part.resume not in (start, item.resume):
            return
        part.add(item)
        for file_type, stream in typed.items():
            stream.forget(item.resume[file_type])
        watchdog.reset()
    part.last = True


def open_receipts(plan: ExtractPlan, task: Task) -> Receipts:
    """Open the receipts of a task. Where parts are files, each receipt is verified against its file."""
    to, errors = plan.output.to, plan.errors.to
    files = below(plan.state, SPOOL) if plan.spooled else to
    return Receipts(
        open_storage(plan.state),
        task.prefix,
        files=None if is_queue(files) else open_storage(files),
        error_files=None if is_queue(errors) else open_storage(errors),
    )


class TaskWatchdog:
    """Ends the process of a task that hangs or takes too much memory, with its stack as the reason.

    A loop in C code cannot be stopped from within Python; faulthandler's watchdog thread ends the process all the same.
    `reset` says that the task makes progress; call it as often as you like.
    """

    def __init__(self, *, timeout: float, memory: int, active: bool) -> None:
        """`timeout` in seconds without a move, `memory` in MiB; 0: none."""
        self._timeout = timeout if active and timeout > 0 else 0.0
        self._memory = memory << 20 if active and sys.platform == "linux" else 0
        self._armed = 0.0

    def __enter__(self) -> Self:
        self._limits = resource.getrlimit(resource.RLIMIT_AS)
        if self._memory:
            resource.setrlimit(resource.RLIMIT_AS, (_address_space() + self._memory, self._limits[1]))
        self._arm()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timeout:
            faulthandler.cancel_dump_traceback_later()
        if self._memory:
            resource.setrlimit(resource.RLIMIT_AS, self._limits)

    def reset(self) -> None:
        """Restart the timeout, at most ten times per timeout: arming starts a thread."""
        if self._timeout and time.monotonic() - self._armed > self._timeout / 10:
            self._arm()

    def _arm(self) -> None:
        if self._timeout:
            self._armed = time.monotonic()
            faulthandler.dump_traceback_later(self._timeout, exit=True, file=sys.__stderr__ or sys.stderr)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
