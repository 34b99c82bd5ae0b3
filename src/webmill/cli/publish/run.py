"""`webmill publish run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.boards import metrics as counters
from webmill.boards.aggregator import RunOutcome
from webmill.boards.board_list import BoardList, BoardListProblem, read_board_list
from webmill.boards.jobs import broken_entries, open_job_queue
from webmill.boards.listing import selector_error
from webmill.boards.orchestrator import facet_names
from webmill.boards.run_loop import RunContext, RunStopped, run_every, run_once
from webmill.boards.worker_process import WorkerProcess, WorkerProcessOptions
from webmill.cli.cc.worker_flags import stop_on_signals
from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.main import FAILED, INTERRUPTED
from webmill.cli.options import SettingOption, settings_options
from webmill.cli.param_types import ANY_COUNT, DURATION
from webmill.cli.progress import Progress as Bar
from webmill.cli.publish.board_flags import ReadingFlags, reading_options, require_contact
from webmill.cli.publish.storage import (
    choose_queue,
    json_option,
    open_for_writing,
    print_json,
    print_version,
    publication_paths,
    queue_option,
    root_argument,
    storage_option,
)
from webmill.cli.search.index import update_after_publishing
from webmill.cli.text import escape_text, format_count, format_duration
from webmill.errors import NotFound
from webmill.infra.clock import SteadyClock
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Queue
from webmill.infra.storage.base import Storage
from webmill.infra.user_agent import user_agent
from webmill.pipeline.ignore_rules import change_rules
from webmill.publish.fragments import RunProgress
from webmill.publish.guard import MAX_LOSS
from webmill.publish.publication import PublishOptions
from webmill.settings import Settings


@click.command(
    epilog="""\b
Examples:
  webmill publish run notices/ --board-list boards.json \\
    --contact me@example.org
  webmill publish run notices/ --board-list boards.json --every 10m
  webmill publish run notices/ --board-list boards.json --workers 0 \\
    --queue amqp://broker/ --storage s3://bucket/notices

\b
A board that fails keeps its previous documents, marked stale; aux/errors.json
says why. If the run is killed, start it again; nothing published is lost.
If nothing has changed since the live version, no new version is made.
Exit code 3: published, but boards failed. 1: refused, nothing was published."""
)
@root_argument
@click.option(
    "--board-list",
    cls=SettingOption,
    old=["--site-map"],
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON file with the boards; read again for every run.",
)
@click.option("--every", type=DURATION, metavar="TIME", help="Repeat at this interval: 10m, 1h  [default: run once]")
@click.option(
    "--deadline",
    type=DURATION,
    default="8m",
    show_default=True,
    help="Publish after this time, even if boards are missing.",
)
@click.option(
    "--workers",
    type=ANY_COUNT,
    default=32,
    show_default=True,
    help="Boards to read in parallel; 0 leaves them to `webmill publish work`.",
)
@queue_option
@storage_option
@settings_options("publish.layout")
@click.option(
    "--facet",
    "facets",
    multiple=True,
    metavar="NAME",
    help="Index versions by this facet; repeatable  [default: all facets of the board list]",
)
@click.option("--force", is_flag=True, help="Publish even if nothing changed, or if too many documents disappeared.")
@click.option(
    "--most-lost",
    type=click.FloatRange(0, 1),
    default=MAX_LOSS,
    show_default=True,
    metavar="SHARE",
    help="Refuse to publish if more than this share of documents would disappear.",
)
@reading_options
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="N", help="Serve Prometheus metrics on this port."
)
@json_option
@pass_context
def run(
    context: Context,
    /,
    *,
    root: Path,
    board_list: Path,
    every: float | None,
    deadline: float,
    workers: int,
    queue_url: str | None,
    storage: str | None,
    facets: tuple[str, ...],
    force: bool,
    most_lost: float,
    metrics_port: int | None,
    as_json: bool,
    settings: Settings,
    **flags: Any,
) -> None:
    """Read all boards of a board list and publish their posts as a new version.

    With --workers 0, the boards are read by `webmill publish work`, on any machine. Only one run is active at a time,
    even if several machines start one.
    """
    reading = ReadingFlags(**flags)
    first = load_board_list(board_list)  # first: a typo in the path creates nothing
    place = publication_paths(root, create=True)
    contact = require_contact(reading.contact, settings.http.contact)
    queue_settings = choose_queue(context, place, queue_url)
    versions = open_for_writing(place, storage)
    metrics = Metrics(counters.OF_RUNS)
    rules = change_rules(settings.changes)
    with ExitStack() as stack:
        stop = stack.enter_context(stop_on_signals("boards"))
        queue = stack.enter_context(open_job_queue(queue_settings))
        if metrics_port is not None:
            host = settings.metrics.host
            note(f"metrics: {stack.enter_context(metrics.serve(port=metrics_port, host=host))}")
        options = reading.options(place, user_agent=user_agent(contact))
        order = WorkerProcessOptions(
            storage=storage or str(place.root), queue=queue_settings, reading=options, threads=workers
        )
        runs = BoardRuns(
            context=context,
            storage=versions,
            queue=queue,
            board_list=board_list,
            order=order,
            around=RunContext(stop=stop, now=steady_now()),
            deadline=timedelta(seconds=deadline),
            publishing=lambda found: PublishOptions(
                facets=facets or facet_names(found),
                force=force,
                most_lost=most_lost,
                layout=settings.publish.layout,
                rules=rules,
            ),
            metrics=metrics,
            as_json=as_json,
            after_publishing=partial(update_after_publishing, context, root, storage=storage),
        )
        if every:
            run_every(runs.repeat_run, versions, every=timedelta(seconds=every), stop=stop, now=runs.around.now)
            raise click.exceptions.Exit(INTERRUPTED)
        outcome = runs.run(first)
    exit_after(outcome, root)


class BoardRuns(msgspec.Struct, kw_only=True):
    """Runs with one set of flags. The board list is read again for each."""

    context: Context
    storage: Storage
    queue: Queue
    board_list: Path
    order: WorkerProcessOptions
    around: RunContext
    deadline: timedelta
    publishing: Callable[[BoardList], PublishOptions]
    metrics: Metrics
    as_json: bool
    after_publishing: Callable[[], None]
    reported: tuple[BoardListProblem, ...] = ()

    def repeat_run(self) -> None:
        self.run(load_board_list(self.board_list))

    def run(self, found: BoardList) -> RunOutcome:
        if found.problems != self.reported:  # once for each edit, not for each run
            print_complaints(found)
            self.reported = found.problems
        started = time.monotonic()
        try:
            with self._show_progress(len(found.boards)) as watch, self._start_workers() as workers:
                outcome = run_once(
                    self.storage,
                    self.queue,
                    found.boards,
                    broken=broken_entries(found),
                    deadline=self.deadline,
                    options=self.publishing(found),
                    context=msgspec.structs.replace(self.around, on_progress=watch, workers=workers),
                )
        except RunStopped:
            note("stopped: this run published nothing")
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception:
            self.metrics.count(counters.RUNS, result="failed")
            raise
        self._count(outcome)
        if self.as_json:
            print_json(outcome)
        print_run(outcome, seconds=time.monotonic() - started)
        if outcome.version:
            self.after_publishing()
        return outcome

    @contextmanager
    def _start_workers(self) -> Iterator[WorkerProcess | None]:
        """Run the workers for one run only: between runs there is nothing to do."""
        if not self.order.threads:
            yield None
            return
        with closing(WorkerProcess(self.order)) as workers:
            yield workers

    @contextmanager
    def _show_progress(self, boards: int) -> Iterator[Callable[[RunProgress], None]]:
        with self.context.progress("Reading", total=boards, unit="boards") as bar:
            yield lambda seen: show_board_progress(bar, seen)

    def _count(self, outcome: RunOutcome) -> None:
        result = "refused" if outcome.refused else "published" if outcome.is_new else "unchanged"
        self.metrics.count(counters.RUNS, result=result)
        if outcome.counts:
            self.metrics.set(counters.LIVE, outcome.counts.items)
            self.metrics.set(counters.STALE, outcome.counts.stale)


def show_board_progress(bar: Bar, seen: RunProgress) -> None:
    bar.advance(seen.planned - len(seen.missing) - bar.done)


def steady_now() -> Callable[[], datetime]:
    """Return a clock that does not jump when somebody sets the time of the machine."""
    clock = SteadyClock()
    return lambda: datetime.fromtimestamp(clock(), UTC)


def load_board_list(path: Path) -> BoardList:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"no board list {path}") from None
    return read_board_list(data, source=str(path), selector_error=selector_error)


def print_complaints(found: BoardList) -> None:
    for complaint in found.problems[:10]:
        left = "left out" if complaint.is_dropped else "note"
        warn(
            f"board list: {left}: {escape_text(complaint.path)}: {escape_text(complaint.message)} [{complaint.reason}]"
        )
    if len(found.problems) > 10:
        warn(f"board list: {len(found.problems) - 10:,} more")


def print_run(outcome: RunOutcome, *, seconds: float) -> None:
    told_before = "site_map"
    for problem in [one for one in outcome.problems if one.stage != told_before][:5]:
        warn(escape_text(f"{problem.source}: {problem.stage}: {problem.message}")[:300])
    if outcome.refused:
        warn(f"refused after {format_duration(seconds)}: {outcome.refused}")
        return
    assert outcome.counts
    held = f"{format_count(outcome.counts.items, 'published document')} from {format_count(outcome.planned, 'board')}"
    print_version(outcome.version or "", outcome.counts, is_new=outcome.is_new, held=held, seconds=seconds)


def exit_after(outcome: RunOutcome, root: Path) -> None:
    if outcome.refused:
        raise click.exceptions.Exit(FAILED)
    failed = len(outcome.failed) + outcome.missing + outcome.left_out
    finish(
        rejected=failed,
        where=f"these boards keep their previous documents; `webmill publish show {root} --errors` says why",
    )
