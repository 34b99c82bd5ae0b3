"""`webmill cc run`."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.batch import AGAIN, served, state_beside
from webmill.cli.cc.filters import language_option
from webmill.cli.cc.queues import opened_queue, with_queue
from webmill.cli.cc.source import Asked, ask_for_contact, base_of
from webmill.cli.cc.wanted import Wanted, opened_executor, wanted_options
from webmill.cli.cc.workers import Choice, open_output, plan_of, stopping, worker_options, working
from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.extracted import advise, details, tell_unread
from webmill.cli.main import INTERRUPTED
from webmill.cli.words import counted
from webmill.collection import PRIVATE
from webmill.commoncrawl.selection import Selection
from webmill.errors import Unavailable
from webmill.infra.address import hide_secrets, scheme_of
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Queue
from webmill.pipeline.dispatch import metrics as dispatch_metrics
from webmill.pipeline.dispatch.batcher import Options, Report, Source, Surroundings, dispatch
from webmill.pipeline.extract import metrics as extract_metrics
from webmill.pipeline.extract.batches import Dispatch, RunSummary, run_batches
from webmill.pipeline.extract.engine import Engine
from webmill.pipeline.extract.output import Output
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
@wanted_options
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
    mine = {name: flags.pop(name) for name in Choice.__struct_fields__ if name != "languages"}
    choice = Choice(**mine, languages=detected)
    asked, wanted = Asked.from_flags(flags), Wanted.from_flags(flags)
    shape = choice.shape()
    advise(shape.recipe.extractor)
    settings = with_own_queue(asked.over(context.settings()), choice)
    base = base_of(settings)
    ask_for_contact(settings, base, wanted.cluster_idx or base)
    source = wanted.source(settings)  # before there is an output: its settings would bind the next try
    options = wanted.options(concurrency=choice.concurrency)
    with ExitStack() as stack:
        stop = stack.enter_context(stopping())
        output = open_output(choice.out, shape)
        queue = stack.enter_context(opened_queue(settings))
        batcher_metrics, metrics = Metrics(dispatch_metrics.ALL), Metrics(extract_metrics.ALL)
        if not choice.no_metrics:
            stack.enter_context(served(batcher_metrics, settings, port=dispatch_metrics.PORT))
            stack.enter_context(served(metrics, settings, port=extract_metrics.PORT))
        progress = stack.enter_context(context.progress("captures", unit="captures"))

        def batch(check: Callable[[], None]) -> Report:
            around = surroundings(batcher_metrics, check, stop)
            report = dispatched(
                source, wanted.selection, queue, settings, options, around, root=root_of(settings, output)
            )
            progress.total = report.counts.accepted
            return report

        engine = stack.enter_context(
            working(
                queue, output, plan_of(base, settings, choice, output, stop=stop), choice, settings, metrics, progress
            )
        )
        summary = summarised(batch, engine, queue, output, stop)
        if summary and (folder := output.folder()):
            shutil.rmtree(folder / "files", ignore_errors=True)
    if summary is None:
        note("stopped: run the same command again to go on")
        raise click.exceptions.Exit(INTERRUPTED)
    tell(summary, choice, settings, as_json=as_json)


def with_own_queue(settings: Settings, choice: Choice) -> Settings:
    """By default a queue of its own, in the output."""
    if choice.queue:
        return with_queue(settings, choice.queue)
    scheme, rest = scheme_of(choice.out)
    if scheme != "file":
        raise click.UsageError("documents that go to an object store need --queue sqlite:FILE or amqp://…")
    return with_queue(settings, f"sqlite:{Path(rest) / PRIVATE / 'queue.sqlite'}")


def root_of(settings: Settings, output: Output) -> Path:
    folder = output.folder()
    return folder / "batcher" if folder else state_beside(settings.queue.url)


def surroundings(metrics: Metrics, check: Callable[[], None], stop: threading.Event) -> Surroundings:
    def sleep(seconds: float) -> None:
        stop.wait(seconds)
        check()

    return Surroundings(metrics, advance=lambda _: check(), sleep=sleep)


def dispatched(
    source: Source,
    wanted: Selection,
    queue: Queue,
    settings: Settings,
    options: Options,
    around: Surroundings,
    *,
    root: Path,
) -> Report:
    with opened_executor(settings) as executor:
        return dispatch(source, wanted, queue, root=root, executor=executor, options=options, around=around)


def summarised(
    batch: Dispatch, engine: Engine, queue: Queue, output: Output, stop: threading.Event
) -> RunSummary | None:
    try:
        return run_batches(batch, engine, queue, output, stop=stop)
    except Unavailable as error:
        raise Unavailable(f"{error}: {AGAIN}") from error


def tell(summary: RunSummary, choice: Choice, settings: Settings, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(summary))
    if not summary.batches:
        note("no capture in the index is what was asked for: look at --crawl and the filters")
        finish(rejected=summary.rejected, where=f"see {summary.rejected_file}")
        return
    done = f"{counted(summary.batches, 'batch')}, {counted(summary.captures, 'capture')}"
    kept = f"{counted(summary.rows, 'row')} in {counted(summary.parts, 'file')}"
    note(f"{done}: {kept} of {choice.out.rstrip('/')}/{summary.run}{details(summary.outcomes, summary.left_out)}")
    if summary.missing:
        note(f"in nobody's hands we know of: {counted(summary.missing, 'batch')}; run the same command again")
    if summary.failed:
        why = f"`webmill dead list --queue {hide_secrets(settings.queue.url)}` says why"
        note(f"failed: {counted(summary.failed, 'batch')}; {why}")
    if summary.rejected:
        note(f"damaged: {counted(summary.rejected, 'part')} of the index; see {summary.rejected_file}")
    unread = tell_unread(summary.outcomes, captures=summary.captures)
    finish(
        rejected=summary.failed + summary.errors + summary.missing + summary.rejected + unread, where="as told above"
    )
