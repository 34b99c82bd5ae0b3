"""Workers in this process, on small crawls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from webmill.cli.cc.worker_flags import is_sealed
from webmill.collection import STATE_FOLDER
from webmill.commoncrawl.batch import QUEUE
from webmill.extract.recipe import Recipe
from webmill.infra.address import below
from webmill.infra.executor.base import Executor
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Queue, is_drained
from webmill.infra.queue.memory import MemoryQueue
from webmill.pipeline.extract.batches import PeriodicSealer
from webmill.pipeline.extract.engine import EngineTimes, ExtractEngine
from webmill.pipeline.extract.metrics import ALL, count_failure, count_task
from webmill.pipeline.extract.monitor import ExtractMonitor
from webmill.pipeline.extract.output import ExtractOutput, OutputShape
from webmill.pipeline.extract.plan import ArchiveFetching, ExtractPlan, OutputTarget
from webmill.pipeline.extract.totals import ExtractReport
from webmill.settings import CommonCrawlSettings


class Silent:
    def advance(self, count: int = 1) -> None:
        pass


JSONL = OutputShape(recipe=Recipe(extractor="resiliparse"), format="jsonl")


def output_at(place: Path | str, shape: OutputShape = JSONL) -> ExtractOutput:
    output = ExtractOutput(str(place), below(str(place), STATE_FOLDER), shape=shape)
    output.prepare()
    return output


def plan_of(source: Path | str, output: ExtractOutput, *, killable: bool = False) -> ExtractPlan:
    """As `webmill cc` makes it, without a limit on the pace of requests."""
    return ExtractPlan(
        name=QUEUE,
        source=str(source),
        output=OutputTarget(to=output.place, format=output.shape.format),
        errors=OutputTarget(to=below(output.state, "errors"), compression="none"),
        state=output.state,
        recipe=output.shape.recipe,
        keep=output.shape.keep,
        spooled=True,
        file_size=output.shape.file_size,
        fetching=ArchiveFetching(commoncrawl=CommonCrawlSettings(rate=0.0), concurrency=3, cache_size=0),
        killable=killable,
    )


def work(
    queue: Queue,
    source: Path | str,
    output: ExtractOutput,
    *,
    metrics: Metrics | None = None,
    executor: Executor | None = None,
    killable: bool = True,
    is_over: Callable[[], bool] | None = None,
) -> ExtractReport:
    """Work until the queue has nothing more. `source` is the address of a folder or a server."""
    plan = plan_of(source, output, killable=killable and executor is not None)
    metrics = metrics or Metrics(ALL)
    hear, fail = partial(count_task, metrics), partial(count_failure, metrics)
    with ExitStack() as stack:
        sealing = PeriodicSealer(output, every=0.0)
        watcher = stack.enter_context(ExtractMonitor(plan, Silent(), also=sealing, hear=hear, fail=fail))
        engine = ExtractEngine(
            queue,
            executor or InlineExecutor(),
            plan,
            pace=EngineTimes(first_delay=0.01),
            observer=watcher,
            is_done=partial(is_sealed, output),
        )
        return engine.run(stop=threading.Event(), is_over=is_over or (lambda: is_drained(queue)))


def work_all(queue: Queue, source: Path | str, output: ExtractOutput, **options: Any) -> ExtractReport:
    """And seal everything, over what was buried."""
    report = work(queue, source, output, **options)
    buried = {letter.id for letter in queue.dead_letters()}
    output.finish(buried.__contains__)
    return report


def queue_of(*messages: Any, **options: Any) -> MemoryQueue:
    queue = MemoryQueue(**options)
    queue.publish(messages)
    return queue
