"""The flags that `webmill cc work` and `webmill cc run` share, and the engine they make."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.metrics_server import linger_option
from webmill.cli.cc.queues import queue_option, queue_type_option
from webmill.cli.main import INTERRUPTED
from webmill.cli.options import SettingOption, together
from webmill.cli.param_types import ANY_COUNT, AT_LEAST_ONE
from webmill.collection import STATE_FOLDER
from webmill.commoncrawl.batch import QUEUE
from webmill.errors import Conflict
from webmill.infra import lock
from webmill.infra.address import below, scheme_of
from webmill.infra.custom_function import read_function
from webmill.infra.executor.backends import open_executor
from webmill.infra.executor.pool import available_cores
from webmill.infra.interrupts import StopFile
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import BrokerQueueType, Queue
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.pipeline.extract.batches import PeriodicSealer
from webmill.pipeline.extract.engine import EngineTimes, ExtractEngine
from webmill.pipeline.extract.metrics import count_failure, count_task
from webmill.pipeline.extract.monitor import ExtractMonitor
from webmill.pipeline.extract.output import ExtractOutput, OutputShape
from webmill.pipeline.extract.plan import (
    FILE_SIZE,
    ArchiveFetching,
    DocumentFilter,
    ExtractPlan,
    Format,
    OutputTarget,
    choose_recipe,
)
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.progress import ProgressBar
from webmill.settings import Settings

MIB = 1 << 20

worker_options = together(
    click.option(
        "-o",
        "--output",
        "out",
        cls=SettingOption,
        old=["--out"],
        required=True,
        metavar="DIR|URL",
        help="Where to write documents: a folder or s3://BUCKET/PREFIX.",
    ),
    queue_option,
    queue_type_option,
    click.option(
        "--extractor",
        default="auto",
        help="Text extractor: trafilatura (best), resiliparse (fast), union (of both), markdown, plain or none  "
        "[default: the best installed]",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["parquet", "jsonl"]),
        default="parquet",
        show_default=True,
        help="File format of the documents; parquet needs webmill[parquet].",
    ),
    click.option(
        "--file-size",
        type=AT_LEAST_ONE,
        default=FILE_SIZE // MIB,
        show_default=True,
        metavar="MIB",
        help="Start a new file at this size, before compression.",
    ),
    click.option("--function", metavar="FILE.py:NAME", help="Your own Python function, used instead of the extractor."),
    click.option("--links", is_flag=True, help="Also store the links of each page."),
    click.option("--min-text", type=ANY_COUNT, help="Skip pages with fewer characters of text than this."),
    click.option("--max-text", type=ANY_COUNT, help="Skip pages with more characters of text than this."),
    click.option(
        "--executor",
        help="Where tasks run: pool, inline, ray:local, ray:auto or ray://HOST:PORT  [default: from the settings]",
    ),
    click.option(
        "--processes", type=AT_LEAST_ONE, help="Number of batches to process in parallel  [default: one per core]"
    ),
    click.option(
        "--concurrency", type=AT_LEAST_ONE, default=8, show_default=True, help="Number of parallel downloads."
    ),
    click.option(
        "--cache-size",
        type=ANY_COUNT,
        default=4096,
        show_default=True,
        metavar="MIB",
        help="Disk space for WARC files that are downloaded whole; 0 to never do that.",
    ),
    linger_option,
    click.option("--no-metrics", is_flag=True, help="Do not serve metrics."),
)


class WorkerFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `worker_options`."""

    out: str
    queue: str | None
    queue_type: BrokerQueueType | None
    extractor: str
    function: str | None
    links: bool
    form: Format
    file_size: int
    min_text: int | None
    max_text: int | None
    languages: tuple[str, ...]
    executor: str | None
    processes: int | None
    concurrency: int
    cache_size: int
    linger: float
    no_metrics: bool

    def shape(self) -> OutputShape:
        if self.min_text is not None and self.max_text is not None and self.min_text > self.max_text:
            raise click.UsageError("--min-text is more than --max-text: no page would be kept")
        if self.extractor == "none" and (self.min_text is not None or self.max_text is not None):
            raise click.UsageError("--min-text and --max-text need text: choose an --extractor")
        shape = OutputShape(
            recipe=choose_recipe(self.extractor, links=self.links),
            keep=DocumentFilter(min_text=self.min_text, max_text=self.max_text, languages=self.languages),
            format=self.form,
            file_size=self.file_size * MIB,
            function=read_function(self.function) if self.function else None,
        )
        shape.check()
        return shape

    def executor_url(self, settings: Settings) -> str:
        return self.executor or settings.executor.url

    def workers(self, settings: Settings) -> int:
        return self.processes or settings.executor.jobs


def open_output(place: str, shape: OutputShape) -> ExtractOutput:
    output = ExtractOutput(place, below(place, STATE_FOLDER), shape=shape, row=shape.row())
    output.prepare()
    return output


def make_plan(
    base: str, settings: Settings, choice: WorkerFlags, output: ExtractOutput, *, stop: StopFile
) -> ExtractPlan:
    workers = choice.workers(settings) or available_cores()
    folder = output.folder()
    return ExtractPlan(
        name=QUEUE,
        source=base,
        output=OutputTarget(to=output.place, format=output.shape.format),
        errors=OutputTarget(to=below(output.state, "errors"), compression="none"),
        state=output.state,
        recipe=output.shape.recipe,
        keep=output.shape.keep,
        function=output.shape.function,
        spooled=True,
        file_size=output.shape.file_size,
        fetching=ArchiveFetching(
            http=settings.http,
            commoncrawl=settings.commoncrawl,
            concurrency=max(1, choice.concurrency // workers),
            cache=str(folder / "files") if folder else "",
            cache_size=choice.cache_size * MIB,
            stop=str(stop.path),
        ),
        killable=choice.executor_url(settings) != "inline",
    )


def is_sealed(output: ExtractOutput, task: Task) -> bool:
    """Return whether a batch that was handed out before is in a part already."""
    return bool(task.run) and output.holds(task.run, task.number)


@contextmanager
def release_dead_leases(queue: SqliteQueue, file: Path) -> Iterator[None]:
    """Release the leases of killed workers at once, unless another worker uses this file."""
    folder, name = file.parent, f"{file.name}-workers"
    try:
        with lock.exclusive(folder, name, doing="working this queue"):
            queue.end_leases()
    except Conflict:
        pass  # another worker is alive, and may hold some of the leases
    with lock.shared(folder, name, doing="beginning to work this queue", patience=60.0):
        yield


@contextmanager
def open_engine(
    queue: Queue,
    output: ExtractOutput,
    plan: ExtractPlan,
    choice: WorkerFlags,
    settings: Settings,
    metrics: Metrics,
    counter: ProgressBar,
) -> Iterator[ExtractEngine]:
    """Yield the engine that processes the queue; complete parts are sealed meanwhile."""
    with ExitStack() as stack:
        if isinstance(queue, SqliteQueue):
            stack.enter_context(release_dead_leases(queue, Path(scheme_of(settings.queue.url)[1])))
        executor = stack.enter_context(
            closing(open_executor(choice.executor_url(settings), workers=choice.workers(settings)))
        )
        hear, fail = partial(count_task, metrics), partial(count_failure, metrics)
        watcher = stack.enter_context(ExtractMonitor(plan, counter, also=PeriodicSealer(output), hear=hear, fail=fail))
        pace = EngineTimes(heartbeat=max(0.1, min(15.0, settings.queue.lease / 4)))
        yield ExtractEngine(
            queue,
            executor,
            plan,
            pace=pace,
            observer=watcher,
            attempts=settings.queue.attempts,
            is_done=partial(is_sealed, output),
        )


@contextmanager
def stop_on_signals(what: str = "batches") -> Iterator[StopFile]:
    """Stop after the work in progress on SIGINT or SIGTERM; a second signal exits at once.

    Workers in other processes see the stop file.
    """
    with tempfile.TemporaryDirectory(prefix="webmill-") as folder:
        stop = StopFile(Path(folder) / "stop")

        def stop_or_leave(_number: int, _frame: Any) -> None:
            if stop.is_set():
                if os.isatty(2):
                    os.write(2, b"\x1b[?25h\n")  # the progress bar has hidden the cursor
                os._exit(INTERRUPTED)
            stop.set()
            os.write(2, f"webmill: finishing the {what} in progress; Ctrl-C again to stop at once\n".encode())

        before = {number: signal.signal(number, stop_or_leave) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield stop
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
