"""`webmill cc batch`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.metrics_server import linger_for_scrape, linger_option, port_option, serve_metrics
from webmill.cli.cc.queues import open_batch_queue, queue_option, queue_type_option, use_queue
from webmill.cli.cc.selection_flags import SelectionFlags, open_chosen_executor, selection_options
from webmill.cli.cc.server_flags import ServerFlags, note_missing_contact
from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.options import SettingOption, processes_option
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.commoncrawl.selection import Selection
from webmill.errors import Unavailable
from webmill.infra.address import scheme_of
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import BrokerQueueType
from webmill.pipeline.dispatch.batcher import (
    MAX_QUEUED,
    BatcherContext,
    BatcherOptions,
    BatcherReport,
    IndexSource,
    dispatch,
)
from webmill.pipeline.dispatch.metrics import ALL, PORT
from webmill.settings import Settings

RUN_AGAIN = "queued batches are kept; run the same command again to continue"


@click.command(
    epilog="""\b
Examples:
  webmill cc batch --crawl CC-MAIN-2024-30 --domain example.com \\
    --language eng --status 200
  webmill cc batch --crawl latest --mime-detected application/pdf \\
    --sample 0.01 --queue amqp://localhost/
  webmill cc batch --cluster-idx index/cluster.idx --url 'example.com/a*'
  webmill cc batch --crawl CC-MAIN-2024-30 --cluster-idx cluster.idx

A message is a JSON array of {"surt_url", "timestamp", "metadata"}; metadata is the JSON of the index line.

If it is interrupted, run it again with the same flags to continue. Nothing is lost. An SQLite queue gets every batch
once; RabbitMQ may get the last 256 batches twice, with the same ids.

Exit code 3: done, but lines or blocks of the index are damaged; the message names the file that lists them."""
)
@selection_options
@queue_option
@queue_type_option
@click.option(
    "--max-queued",
    type=AT_LEAST_ONE,
    default=MAX_QUEUED,
    show_default=True,
    help="Pause while more batches than this wait in the queue.",
)
@click.option("--concurrency", type=AT_LEAST_ONE, default=4, show_default=True, help="Number of parallel requests.")
@processes_option("Number of processes that filter index blocks  [default: 1]")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the checkpoint and rejected lines  [default: .webmill beside an SQLite queue, else here]",
)
@click.option(
    "--from-scratch",
    "restart",
    cls=SettingOption,
    old=["--restart"],
    is_flag=True,
    help="Ignore the checkpoint and start over.",
)
@port_option(str(PORT))
@linger_option
@click.option("--no-metrics", is_flag=True, help="Do not serve metrics.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_context
def batch(
    context: Context,
    /,
    *,
    queue: str | None,
    queue_type: BrokerQueueType | None,
    max_queued: int,
    concurrency: int,
    jobs: int | None,
    state: Path | None,
    restart: bool,
    metrics_port: int | None,
    linger: float,
    no_metrics: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Select captures from the index of a crawl and queue them in batches.

    Without filters, every capture is selected. With several filters, all must match. Of the values of a repeated flag,
    and of --url, --domain and --prefix together, one is enough.
    """
    asked, wanted = ServerFlags.from_flags(flags), SelectionFlags.from_flags(flags)
    settings = use_queue(asked.apply_to(context.settings()), queue, queue_type)
    if jobs:
        settings = msgspec.structs.replace(settings, executor=msgspec.structs.replace(settings.executor, jobs=jobs))
    note_missing_contact(settings, wanted.blocks_at(settings))
    source = wanted.source(settings)
    with ExitStack() as stack:
        metrics = Metrics(ALL)
        served: tuple[Metrics, ...] = ()
        if not no_metrics:
            served = stack.enter_context(serve_metrics(metrics, settings, port=metrics_port, default=PORT))
        with context.progress("blocks", unit="blocks") as progress:
            around = BatcherContext(
                metrics, total=lambda total: setattr(progress, "total", total), advance=progress.advance
            )
            report = dispatch_batches(
                source,
                wanted.selection,
                settings,
                root=state or state_folder_beside(settings.queue.url),
                options=wanted.options(max_queued=max_queued, concurrency=concurrency),
                around=around,
                restart=restart,
            )
        print_batch_report(report, as_json=as_json)
        linger_for_scrape(served, linger)
    finish(rejected=report.counts.rejected, where=f"see {report.rejected_file}")


def dispatch_batches(
    source: IndexSource,
    wanted: Selection,
    settings: Settings,
    *,
    root: Path,
    options: BatcherOptions,
    around: BatcherContext,
    restart: bool,
) -> BatcherReport:
    try:
        with open_batch_queue(settings) as queue, open_chosen_executor(settings) as executor:
            return dispatch(
                source, wanted, queue, root=root, executor=executor, options=options, around=around, restart=restart
            )
    except Unavailable as error:
        raise Unavailable(f"{error}: {RUN_AGAIN}") from error


def state_folder_beside(queue_url: str) -> Path:
    scheme, rest = scheme_of(queue_url)
    return (Path(rest).parent if scheme == "sqlite" else Path()) / ".webmill" / "batcher"


def print_batch_report(report: BatcherReport, *, as_json: bool) -> None:
    counts = report.counts
    if as_json:
        click.echo(msgspec.json.encode(report))
    if report.nothing_to_do:
        note(f"nothing to do: all {report.batches:,} batches were queued before; --from-scratch starts over")
    else:
        left_out = ", ".join(f"{count:,} by {name}" for name, count in counts.filtered.items())
        queued = f"batches: {report.batches:,}, {report.published:,} of them queued now"
        note(
            f"{queued}; captures: {counts.accepted:,} of {counts.lines:,}" + f"; left out: {left_out}" * bool(left_out)
        )
    if not report.batches:
        note("no captures match: check --crawl and the filters")
