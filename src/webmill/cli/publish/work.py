"""`webmill publish work`."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click

from webmill.boards import metrics as counters
from webmill.boards.jobs import open_job_queue
from webmill.boards.reader import BoardReader
from webmill.boards.worker_process import WorkerProcessOptions
from webmill.boards.workers import BoardWorkers
from webmill.cli.cc.worker_flags import stop_on_signals
from webmill.cli.context import Context, note, pass_context
from webmill.cli.main import INTERRUPTED
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.publish.board_flags import ReadingFlags, reading_options, require_contact
from webmill.cli.publish.storage import (
    choose_queue,
    open_for_writing,
    publication_paths,
    queue_option,
    root_argument,
    storage_option,
)
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import is_drained
from webmill.infra.user_agent import user_agent


@click.command(
    epilog="""\b
Examples:
  webmill publish work notices/ --contact me@example.org
  webmill publish work scratch/ --queue amqp://broker/ \\
    --storage s3://bucket/notices --contact me@example.org

\b
DIR holds what the workers of this machine share: host schedules and unchanged
pages. If a worker is killed, its boards are given to another one. --delay is
per machine: with several machines, make it longer."""
)
@root_argument
@click.option("--workers", type=AT_LEAST_ONE, default=32, show_default=True, help="Boards to read in parallel.")
@queue_option
@storage_option
@reading_options
@click.option("--until-empty", is_flag=True, help="Stop when the queue is empty.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="N", help="Serve Prometheus metrics on this port."
)
@pass_context
def work(
    context: Context,
    /,
    *,
    root: Path,
    workers: int,
    queue_url: str | None,
    storage: str | None,
    until_empty: bool,
    metrics_port: int | None,
    **flags: Any,
) -> None:
    """Read queued boards until stopped.

    `webmill publish run --workers 0` queues the boards and publishes the result.
    """
    reading = ReadingFlags(**flags)
    place = publication_paths(root, create=True)
    contact = require_contact(reading.contact, context.settings(place.root).http.contact)
    options = reading.options(place, user_agent=user_agent(contact))
    settings = choose_queue(context, place, queue_url)
    order = WorkerProcessOptions(storage=storage or str(place.root), queue=settings, reading=options, threads=workers)
    versions = open_for_writing(place, storage)
    metrics = Metrics(counters.OF_WORKERS)
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signals("boards"))
        queue = stack.enter_context(open_job_queue(settings))
        reader = stack.enter_context(closing(BoardReader(options)))
        if metrics_port is not None:
            host = context.settings(place.root).metrics.host
            note(f"metrics: {stack.enter_context(metrics.serve(port=metrics_port, host=host))}")
        bar = stack.enter_context(context.progress("Reading", unit="boards"))
        board_workers = BoardWorkers(
            versions, queue, reader, order.workers, metrics=metrics, on_done=lambda _: bar.advance()
        )
        results = board_workers.run(stop=stop, is_over=lambda: until_empty and is_drained(queue))
    note("boards: " + (", ".join(f"{count:,} {result}" for result, count in sorted(results.items())) or "none"))
    if stop.is_set():
        raise click.exceptions.Exit(INTERRUPTED)
