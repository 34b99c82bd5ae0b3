"""`webmill run`: runs every stage of a collection that is due."""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
from msgspec.structs import replace

from webmill.cli.alerts import print_alert_report, where_alerts
from webmill.cli.context import REJECTED, Context, note, pass_context, warn, without_hints
from webmill.cli.crawl import print_crawl_report as tell_crawl
from webmill.cli.crawl import warn_of_failed_seeds, warn_of_uploads, watch_crawl
from webmill.cli.extract import print_collection_report as tell_extract
from webmill.cli.extract import warn_refused_file, where_reasons
from webmill.cli.index import print_index_report as tell_index
from webmill.cli.main import FAILED, error_heading
from webmill.cli.param_types import DURATION
from webmill.cli.publish.documents import print_publish_report as tell_publish
from webmill.cli.publish.documents import where_bad_rows
from webmill.cli.search.index import UNREADABLE
from webmill.cli.search.index import print_update as tell_search
from webmill.cli.text import escape_text, format_duration
from webmill.crawl.seeds import describe_rejected
from webmill.errors import WebmillError
from webmill.infra import waiting
from webmill.pipeline.alerts.run import next_alert
from webmill.pipeline.run import (
    RunCallbacks,
    StageFinished,
    StageSkipped,
    StageStarted,
    lock_for_run,
    plan_steps,
    run_stages,
)
from webmill.pipeline.status import read_collection_status, run_wishes
from webmill.publish.guard import VersionShrunk
from webmill.search.backends import open_search, search_address
from webmill.settings import STAGES

MIN_PAUSE = 5.0  # seconds between two looks at what is to be sent


@click.command(
    epilog="""\b
Examples:
  webmill init news/ https://example.org/ --contact me@example.org
  webmill run news/
  webmill run news/ --every 1d
  webmill run news/ --dry-run
  webmill run news/ --stage publish --stage search

\b
Settings are read from DIR/webmill.toml.
If a run is interrupted, the next one continues; no work is done twice.
Exit code 3: done, but some input was rejected."""
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--every", type=DURATION, metavar="TIME", help="Repeat at this interval: 6h, 1d  [default: run once]")
@click.option("--stage", "stages", multiple=True, type=click.Choice(STAGES), help="Run only this stage; repeatable.")
@click.option("--dry-run", is_flag=True, help="Print which stages are due and why, but change nothing.")
@pass_context
def run(context: Context, /, *, root: Path, every: float | None, stages: tuple[str, ...], dry_run: bool) -> None:
    """Run the stages of the collection in DIR that are due: crawl, index, extract, publish, search,
    and alert where there are rules."""
    root = root.resolve()
    chosen = tuple(stage for stage in STAGES if stage in stages) or context.settings(root).run.in_order()
    if dry_run:
        print_due_stages(context, root, chosen)
        return
    with lock_for_run(root):
        if every:
            run_repeatedly(context, root, chosen, every=every)
        code = run_due_stages(context, root, chosen)
    raise click.exceptions.Exit(code)


def run_repeatedly(context: Context, root: Path, stages: tuple[str, ...], *, every: float) -> NoReturn:
    """Run until interrupted. If a run takes longer than the interval, the next one starts at once."""
    while True:
        started = time.monotonic()
        try:
            run_due_stages(context, root, stages, every=every)
        except WebmillError as error:
            warn(f"{error_heading(error)}: {escape_text(str(error))}; the next run tries again")
        wait = max(0.0, every - (time.monotonic() - started))
        note(f"next run in {format_duration(wait)}; Ctrl-C stops it")
        send_alerts_until(context, root, stages, started + every)


def send_alerts_until(context: Context, root: Path, stages: tuple[str, ...], end: float) -> None:
    """Wait for the next run, and meanwhile send digests and messages that failed, when they are due."""
    while (left := end - time.monotonic()) > 0:
        wait = left
        if "alert" in stages:
            try:
                wait = min(left, send_due_alerts(context, root))
            except WebmillError as error:
                warn(f"{error_heading(error)}: {escape_text(str(error))}; the next run tries again")
        waiting.sleep(wait)


def send_due_alerts(context: Context, root: Path) -> float:
    """Send what is due; return the seconds until something may be."""
    due = next_alert(root, context.settings(root))
    if due is None:
        return math.inf
    if due <= time.time():
        run_due_stages(context, root, ("alert",))
    return max(MIN_PAUSE, due - time.time())


def run_due_stages(context: Context, root: Path, stages: tuple[str, ...], *, every: float | None = None) -> int:
    """Run each stage that is due, and return the exit code. Ctrl-C stops it."""
    watching = RunCallbacks(crawl=partial(watch_crawl, context), progress=context.progress, refuse=warn_refused_file)
    events = run_stages(root, stages, read=partial(context.sources, root), watching=watching, every=every)
    worst, last, indexed = 0, "", False
    try:
        with without_hints():
            for event in events:
                last = event.stage
                print_event(event, root)
                if isinstance(event, StageFinished) and event.was_stopped:
                    raise click.Abort
                indexed = indexed or (isinstance(event, StageFinished) and event.stage == "index")
                worst = max(worst, REJECTED if isinstance(event, StageFinished) and event.rejected else 0)
    except VersionShrunk as error:
        warn(f"refused: {error}")
        note(f"{last}: failed; later stages were not started")
        return FAILED
    if indexed and context.settings(root).qa.after_crawl:
        from webmill.cli.qa import start_check  # it brings the server, which few runs need

        start_check(context, root)
    return worst


def print_event(event: StageSkipped | StageStarted | StageFinished, root: Path) -> None:
    match event:
        case StageSkipped(stage, why):
            note(f"{stage}: {why}")
        case StageStarted(stage, what, changes):
            note(f"{stage}: {what}")
            for change in changes:
                note(f"{stage}: {change}")
        case StageFinished(stage, report, rejected, seconds):
            print_stage_report(stage, report, root)
            how = (
                f"stopped after {format_duration(seconds)}"
                if event.was_stopped
                else f"done in {format_duration(seconds)}"
            )
            note(f"{stage}: {how}" + ", some input rejected" * bool(rejected))


def print_stage_report(stage: str, report: Any, root: Path) -> None:
    """Print the report of a stage as its own command does."""
    match stage:
        case "crawl":
            tell_crawl(report)
            warn_of_uploads(report)
            warn_of_failed_seeds(report)
            warn_of_rejects(report.problems, describe_rejected(report.rejected) or "no seed gave a page")
        case "index":
            tell_index(report, root)
            warn_of_rejects(
                len(report.rejects), f"{root / 'rejected' / 'index.jsonl'} lists files, byte ranges and reasons"
            )
        case "extract":
            tell_extract(report, root)
            warn_of_rejects(report.rejected, where_reasons(root))
        case "publish":
            tell_publish(report, root)
            warn_of_rejects(report.rejected, where_bad_rows(root))
        case "search":
            tell_search(report)
            warn_of_rejects(len(report.fed.skipped), UNREADABLE)
        case _:
            print_alert_report(report)
            warn_of_rejects(report.rejected, where_alerts(root))


def warn_of_rejects(rejected: int, where: str) -> None:
    if rejected:
        warn(f"{rejected:,} rejected: {where}")


def print_due_stages(context: Context, root: Path, stages: tuple[str, ...]) -> None:
    """Print what a run would do. Whether a later stage has work is known only after the earlier ones."""
    sources = context.sources(root)
    settings = sources.settings()
    engine = partial(open_search, search_address(settings.search.url, root), create=False)
    seen = read_collection_status(root, replace(run_wishes(settings, root), stages=stages), open_engine=engine)
    for problem in seen.problems:
        warn(escape_text(f"{problem.part}: {problem.message}"))
    if seen.is_running:
        note("another run is active here: a second one is refused until it ends")
    watching = RunCallbacks(crawl=partial(watch_crawl, context), progress=context.progress)
    reasons, upstream = {due.stage: due.why for due in seen.due}, ""
    for stage in stages:
        steps = plan_steps(stage, root, sources, watching)
        if stage in reasons:
            note(f"{stage}: due: {reasons[stage]}")
        elif upstream:
            note(f"{stage}: due if {upstream} makes something new")
        elif isinstance(steps, str):
            note(f"{stage}: skipped: {steps}")
        else:
            note(f"{stage}: nothing to do")
        for step in steps if isinstance(steps, list) and stage in reasons else ():
            note(f"  {step.what}")
        upstream = stage if stage in reasons else upstream
