"""`webmill cc work`, `seal`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.filters import language_option
from webmill.cli.cc.metrics_server import WORKER_PORTS, linger_for_scrape, port_option, serve_metrics
from webmill.cli.cc.queues import open_batch_queue, queue_option, require_batch_queue, use_queue
from webmill.cli.cc.server_flags import ServerFlags, base_url_of, note_missing_contact, server_options
from webmill.cli.cc.worker_flags import (
    WorkerFlags,
    make_plan,
    open_engine,
    open_output,
    stop_on_signals,
    worker_options,
)
from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.extract_report import print_extract_report, warn_if_unreadable
from webmill.cli.main import INTERRUPTED
from webmill.cli.progress import EVERY_SECONDS
from webmill.cli.text import format_count
from webmill.collection import STATE_FOLDER
from webmill.errors import Misconfigured, NotFound, Unavailable
from webmill.infra.address import below, scheme_of
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Queue, is_drained
from webmill.infra.storage.backends import open_storage
from webmill.masking import hide_secrets
from webmill.pipeline.extract.metrics import ALL, PORT
from webmill.pipeline.extract.output import ExtractOutput, read_shape
from webmill.pipeline.extract.sealing import SealedPart
from webmill.settings import Settings


@click.command(
    epilog="""\b
Examples:
  webmill cc work --queue sqlite:work.sqlite -o documents --until-empty
  webmill cc work --queue amqp://broker/ -o documents --min-text 500
  webmill cc work -o s3://bucket/documents --base-url s3://commoncrawl/

\b
Documents are written to OUTPUT/RUN/part-FIRST-LAST.parquet, one row per
capture. Batches that are not in a file yet are in OUTPUT/.webmill/spool.
Several workers can share a queue and an output. If a worker is killed, no
document is lost or written twice.
Exit code 3: done, but batches failed (`webmill dead list` says why),
or more than half of the captures could not be read (their rows say why)."""
)
@worker_options
@server_options
@language_option(
    "--language",
    "--detected-language",
    "languages",
    help_="Keep only pages detected to be in this language; repeatable.",
)
@click.option("--until-empty", is_flag=True, help="Stop when the queue is empty, and write all documents to files.")
@port_option(f"{PORT}, or the next that is free")
@click.option("--json", "as_json", is_flag=True, help="Print what this worker did as JSON on stdout.")
@pass_context
def work(context: Context, /, *, until_empty: bool, metrics_port: int | None, as_json: bool, **flags: Any) -> None:
    """Fetch the captures of queued batches and extract documents from them.

    Without --until-empty it waits for more batches until it is stopped.
    """
    asked = ServerFlags.from_flags(flags)
    choice = WorkerFlags(**flags)
    shape = choice.shape()
    settings = use_queue(asked.apply_to(context.settings()), choice.queue, choice.queue_type)
    base = base_url_of(settings)
    note_missing_contact(settings, base)
    metrics = Metrics(ALL)
    served: tuple[Metrics, ...] = ()
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signals())
        if until_empty:
            require_batch_queue(settings)
        note_new_queue(settings)
        queue = stack.enter_context(open_batch_queue(settings))
        output = open_output(choice.out, shape)
        if not choice.no_metrics:
            serving = serve_metrics(metrics, settings, port=metrics_port, default=PORT, ports=WORKER_PORTS)
            served = stack.enter_context(serving)
        countdown = BatchProgress(context, queue)
        stack.enter_context(countdown.progress)
        plan = make_plan(base, settings, choice, output, stop=stop)
        engine = stack.enter_context(open_engine(queue, output, plan, choice, settings, metrics, countdown))
        report = engine.run(stop=stop, is_over=lambda: until_empty and is_drained(queue))
        if not stop.is_set():
            print_seal_report(seal_finished(output, queue))
            linger_for_scrape(served, choice.linger)
        stopped = stop.is_set()
        failed = len(report.failures) if stopped else queue.stats().buried
    if as_json:
        click.echo(msgspec.json.encode(report, order="deterministic"))
    print_extract_report(report)
    if stopped:
        raise click.exceptions.Exit(INTERRUPTED)
    if failed:
        why = f"`webmill dead list --queue {hide_secrets(settings.queue.url)}` says why"
        warn(f"failed: {format_count(failed, 'batch')}; {why}")
    unread = warn_if_unreadable(report.outcomes, captures=report.captures)
    finish(rejected=failed + report.errors + unread, where="see the lines above")


def note_new_queue(settings: Settings) -> None:
    """Note that the queue file is new: with a mistyped name the worker would wait for ever."""
    scheme, file = scheme_of(settings.queue.url)
    if scheme == "sqlite" and not Path(file).exists():
        note(f"{file} is a new, empty queue: waiting for `webmill cc batch --queue sqlite:{file}`")


@click.command(
    epilog="""\b
Examples:
  webmill cc seal documents --queue sqlite:work.sqlite
  webmill cc seal s3://bucket/documents --over-holes"""
)
@click.argument("out", metavar="DIR|URL")
@queue_option
@click.option(
    "--over-holes", is_flag=True, help="Do not wait for missing batches; they go into files of their own later."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print what was written, and what still waits, as JSON on stdout."
)
@pass_context
def seal(context: Context, /, *, out: str, queue: str | None, over_holes: bool, as_json: bool) -> None:
    """Write the finished batches in the spool of an output to files, even if the files stay small.

    `work` does this whenever a file is full; `work --until-empty` and `run` do it for all batches at their end.
    """
    state = below(out, STATE_FOLDER)
    try:
        shape = read_shape(open_storage(state))
    except NotFound as error:
        raise NotFound(f"{out} is not an output of `webmill cc`: it has no {STATE_FOLDER}/settings.json") from error
    if (
        shape.function and shape.format == "parquet"
    ):  # only the function knows the columns, and code from a folder is never run
        raise Misconfigured(
            f"{out} was made with --function: seal it with `webmill cc work --until-empty` and the same --function"
        )
    output = ExtractOutput(out, state, shape=shape)
    with ExitStack() as stack:
        batches = None
        if queue and not over_holes:
            settings = use_queue(context.settings(), queue)
            require_batch_queue(settings)
            batches = stack.enter_context(open_batch_queue(settings))
        sealed = seal_all(output) if over_holes else seal_finished(output, batches)
    if as_json:
        click.echo(msgspec.json.encode(sealed))
    print_seal_report(sealed)


class SealReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was sealed. `waiting` counts batches in the spool that wait for earlier ones."""

    files: int
    rows: int
    waiting: int


def seal_all(output: ExtractOutput) -> SealReport:
    return make_seal_report(output, output.finish(lambda _: True))


def seal_finished(output: ExtractOutput, queue: Queue | None) -> SealReport:
    dead = {letter.id for letter in queue.dead_letters()} if queue else set()
    return make_seal_report(output, output.finish(dead.__contains__))


def make_seal_report(output: ExtractOutput, made: list[SealedPart]) -> SealReport:
    return SealReport(files=len(made), rows=sum(part.rows for part in made), waiting=output.unsealed())


def print_seal_report(sealed: SealReport) -> None:
    note(f"sealed: {format_count(sealed.files, 'file')}, {format_count(sealed.rows, 'row')}")
    if sealed.waiting:
        waiting = format_count(sealed.waiting, "batch")
        note(f"{waiting} in the spool, waiting for earlier batches: seal again later, or with --over-holes")


class BatchProgress:
    """Progress in batches: the total changes, as other workers take batches and more are queued."""

    def __init__(self, context: Context, queue: Queue) -> None:
        self._queue = queue
        self._next = time.monotonic() + EVERY_SECONDS
        self.progress = context.progress("batches", total=self._waiting(), unit="batches")

    def advance(self, count: int = 1) -> None:
        """Count one batch, whatever its number of captures."""
        del count
        self.progress.advance()
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        if left := self._waiting():
            self.progress.total = self.progress.done + left - 1  # the batch just done is still leased

    def _waiting(self) -> int | None:
        """Return the number of batches in the queue, or None if it is empty or unavailable."""
        try:
            stats = self._queue.stats()
        except Unavailable:
            return None
        return stats.ready + stats.delayed + stats.leased or None
