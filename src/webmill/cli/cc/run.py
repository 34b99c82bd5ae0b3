"""`webmill cc run`."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.batch import RUN_AGAIN, state_folder_beside
from webmill.cli.cc.filters import language_option
from webmill.cli.cc.metrics_server import WORKER_PORTS, linger_for_scrape, serve_metrics
from webmill.cli.cc.queues import open_batch_queue, use_queue
from webmill.cli.cc.selection_flags import SelectionFlags, open_chosen_executor, selection_options
from webmill.cli.cc.server_flags import ServerFlags, base_url_of, note_missing_contact
from webmill.cli.cc.worker_flags import (
    WorkerFlags,
    make_plan,
    open_engine,
    open_output,
    stop_on_signals,
    worker_options,
)
from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.extract_report import format_outcomes, suggest_extractor, warn_if_unreadable
from webmill.cli.main import INTERRUPTED
from webmill.cli.text import format_count
from webmill.collection import STATE_FOLDER
from webmill.commoncrawl.selection import Selection
from webmill.errors import Unavailable
from webmill.infra.address import scheme_of
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Queue
from webmill.masking import hide_secrets
from webmill.pipeline.dispatch import metrics as dispatch_metrics
from webmill.pipeline.dispatch.batcher import BatcherContext, BatcherOptions, BatcherReport, IndexSource, dispatch
from webmill.pipeline.extract import metrics as extract_metrics
from webmill.pipeline.extract.batches import RunBatcher, RunSummary, run_batches
from webmill.pipeline.extract.engine import ExtractEngine
from webmill.pipeline.extract.output import ExtractOutput
from webmill.settings import Settings


@click.command(
    epilog="""\b
Example: English pages of a domain, as Parquet
  webmill cc run --crawl latest --domain example.com --language eng \\
    --status 200 -o documents --contact me@example.org

\b
If it is interrupted, run the same command again to continue. Other workers
can join: `webmill cc work` with the same --queue and --output.
Exit code 3: done, but batches failed, parts of the index are damaged, or
more than half of the captures could not be read (their rows say why)."""
)
@selection_options
@worker_options
@language_option(
    "--detected-language", "detected", help_="Keep only pages detected to be in this language; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
@pass_context
def run(context: Context, /, *, detected: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """Select captures from the index of a crawl, fetch them, and extract documents.

    It ends when every selected capture is in a file.
    """
    mine = {name: flags.pop(name) for name in WorkerFlags.__struct_fields__ if name != "languages"}
    choice = WorkerFlags(**mine, languages=detected)
    asked, wanted = ServerFlags.from_flags(flags), SelectionFlags.from_flags(flags)
    shape = choice.shape()
    suggest_extractor(shape.recipe.extractor)
    settings = use_own_queue(asked.apply_to(context.settings()), choice)
    base = base_url_of(settings)
    note_missing_contact(settings, base, wanted.blocks_at(settings))
    source = wanted.source(settings)  # before the output is created: its settings would bind the next attempt
    options = wanted.options(concurrency=choice.concurrency)
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signals())
        output = open_output(choice.out, shape)
        queue = stack.enter_context(open_batch_queue(settings))
        served: tuple[Metrics, ...] = ()
        batcher_metrics, metrics = Metrics(dispatch_metrics.ALL), Metrics(extract_metrics.ALL)
        if not choice.no_metrics:
            served = stack.enter_context(serve_run_metrics(batcher_metrics, metrics, settings))
        progress = stack.enter_context(context.progress("captures", unit="captures"))

        def batch(check: Callable[[], None]) -> BatcherReport:
            around = make_surroundings(batcher_metrics, check, stop)
            report = dispatch_captures(
                source, wanted.selection, queue, settings, options, around, root=checkpoint_folder(settings, output)
            )
            progress.total = report.counts.accepted
            return report

        engine = stack.enter_context(
            open_engine(
                queue, output, make_plan(base, settings, choice, output, stop=stop), choice, settings, metrics, progress
            )
        )
        summary = run_and_summarise(batch, engine, queue, output, stop)
        if summary and (folder := output.folder()):
            shutil.rmtree(folder / "files", ignore_errors=True)
        if summary:
            linger_for_scrape(served, choice.linger)
    if summary is None:
        note("stopped: run the same command again to continue")
        raise click.exceptions.Exit(INTERRUPTED)
    print_summary(summary, choice, settings, as_json=as_json)


@contextmanager
def serve_run_metrics(batcher: Metrics, worker: Metrics, settings: Settings) -> Iterator[tuple[Metrics, ...]]:
    """Serve the metrics of both; yield those that are served."""
    with ExitStack() as stack:
        port, workers = dispatch_metrics.PORT, extract_metrics.PORT
        batcher_served = stack.enter_context(serve_metrics(batcher, settings, port=None, default=port))
        serving = serve_metrics(worker, settings, port=None, default=workers, ports=WORKER_PORTS)
        yield (*batcher_served, *stack.enter_context(serving))


def use_own_queue(settings: Settings, choice: WorkerFlags) -> Settings:
    """Return the settings with the queue of the flag, else with a file in the output."""
    if choice.queue:
        return use_queue(settings, choice.queue, choice.queue_type)
    scheme, rest = scheme_of(choice.out)
    if scheme != "file":
        raise click.UsageError("an output in an object store needs --queue sqlite:FILE or amqp://…")
    return use_queue(settings, f"sqlite:{Path(rest) / STATE_FOLDER / 'queue.sqlite'}")


def checkpoint_folder(settings: Settings, output: ExtractOutput) -> Path:
    folder = output.folder()
    return folder / "batcher" if folder else state_folder_beside(settings.queue.url)


def make_surroundings(metrics: Metrics, check: Callable[[], None], stop: threading.Event) -> BatcherContext:
    def sleep(seconds: float) -> None:
        stop.wait(seconds)
        check()

    return BatcherContext(metrics, advance=lambda _: check(), sleep=sleep)


def dispatch_captures(
    source: IndexSource,
    wanted: Selection,
    queue: Queue,
    settings: Settings,
    options: BatcherOptions,
    around: BatcherContext,
    *,
    root: Path,
) -> BatcherReport:
    with open_chosen_executor(settings) as executor:
        return dispatch(source, wanted, queue, root=root, executor=executor, options=options, around=around)


def run_and_summarise(
    batch: RunBatcher, engine: ExtractEngine, queue: Queue, output: ExtractOutput, stop: threading.Event
) -> RunSummary | None:
    try:
        return run_batches(batch, engine, queue, output, stop=stop)
    except Unavailable as error:
        raise Unavailable(f"{error}: {RUN_AGAIN}") from error


def print_summary(summary: RunSummary, choice: WorkerFlags, settings: Settings, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(summary))
    if not summary.batches:
        note("no captures match: check --crawl and the filters")
        finish(rejected=summary.rejected, where=f"see {summary.rejected_file}")
        return
    done = f"{format_count(summary.batches, 'batch')}, {format_count(summary.captures, 'capture')}"
    kept = f"{format_count(summary.rows, 'row')} in {format_count(summary.parts, 'file')}"
    note(
        f"{done}: {kept} of {choice.out.rstrip('/')}/{summary.run}{format_outcomes(summary.outcomes, summary.left_out)}"
    )
    if summary.missing:
        note(f"{format_count(summary.missing, 'batch')} missing from the queue; run the same command again")
    if summary.failed:
        why = f"`webmill dead list --queue {hide_secrets(settings.queue.url)}` says why"
        note(f"failed: {format_count(summary.failed, 'batch')}; {why}")
    if summary.rejected:
        note(f"damaged: {format_count(summary.rejected, 'part')} of the index; see {summary.rejected_file}")
    unread = warn_if_unreadable(summary.outcomes, captures=summary.captures)
    finish(
        rejected=summary.failed + summary.errors + summary.missing + summary.rejected + unread,
        where="see the lines above",
    )
