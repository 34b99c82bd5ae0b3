"""Workers in this process, on small crawls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from webmill.commoncrawl.captures import Fetcher
from webmill.commoncrawl.ranges import RangeLimits
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Queue
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.storage.base import Readable
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.extract.metrics import ALL
from webmill.pipeline.extract.output import Output, Shape
from webmill.pipeline.extract.workers import Options, Report, Workers
from webmill.pipeline.hands import is_drained

JSONL = Shape(extractor="resiliparse", format="jsonl")


def output_at(folder: Path, shape: Shape = JSONL) -> Output:
    folder.mkdir(parents=True, exist_ok=True)
    output = Output(LocalStorage(folder), folder=folder, shape=shape)
    output.prepare()
    return output


def work(queue: Queue, archive: Readable, output: Output, *, metrics: Metrics | None = None, **options: Any) -> Report:
    """Until the queue has nothing more."""
    is_over: Callable[[], bool] = lambda: is_drained(queue)  # noqa: E731
    metrics = metrics or Metrics(ALL)
    with closing(Fetcher(archive, concurrency=3, limits=RangeLimits(gap=4096))) as fetcher:
        options = {"processes": 1, "first_delay": 0.01, "seal_every": 0.0} | options
        return Workers(queue, fetcher, output, Options(**options), metrics=metrics).run(
            stop=threading.Event(), is_over=is_over
        )


def work_all(queue: Queue, archive: Readable, output: Output, **options: Any) -> Report:
    """And seal everything, over what was buried."""
    report = work(queue, archive, output, **options)
    buried = {letter.id for letter in queue.buried()}
    output.finish(buried.__contains__)
    return report


def queue_of(*messages: Any, **options: Any) -> MemoryQueue:
    queue = MemoryQueue(**options)
    queue.publish(messages)
    return queue
