"""Run every stage of a collection that is due, in order: crawl, index, extract, publish, search, alert.

    for event in run_stages(root, ("index", "extract"), read=…, watching=…):
        match event: …

Killed at any moment, the next run goes on; nothing is done twice. A stage that fails raises, and those behind it are
not begun: they would be about less than it seems.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl import stored_settings
from webmill.crawl.run import CrawlWatcher
from webmill.crawl.seeds import Seeds
from webmill.errors import Unavailable
from webmill.index.archives import crawls_with_archives
from webmill.infra.lock import exclusive
from webmill.masking import hide_secrets
from webmill.pipeline.alerts.run import register_targets, send_alerts
from webmill.pipeline.crawl_archive import CrawlReport, crawl_archive
from webmill.pipeline.extract.collection import OnRefused, extract_collection
from webmill.pipeline.ignore_rules import check_rules
from webmill.pipeline.index import index_crawl
from webmill.pipeline.plugins import alert_rules
from webmill.pipeline.progress import ProgressReporter
from webmill.pipeline.publish.due import reason_not_to_publish
from webmill.pipeline.publish.run import publish_collection
from webmill.pipeline.search.collection import update_index
from webmill.pipeline.status import describe_unfinished, read_crawl_statuses
from webmill.settings import CrawlSettings, Settings, Sources


class StageStep(msgspec.Struct, frozen=True):
    """One step of a stage. `do` returns its report and how much input was rejected."""

    stage: str
    what: str
    do: Callable[[], tuple[Any, int]]


class StageSkipped(msgspec.Struct, frozen=True):
    """A stage that had nothing to do, and why."""

    stage: str
    why: str


class StageStarted(msgspec.Struct, frozen=True):
    stage: str
    what: str
    changes: tuple[str, ...] = ()  # what is different from what the crawl was told before


class StageFinished(msgspec.Struct, frozen=True):
    """`report` is that of the stage's own function."""

    stage: str
    report: Any
    rejected: int
    seconds: float

    @property
    def was_stopped(self) -> bool:
        return isinstance(self.report, CrawlReport) and self.report.end == "stopped"


class RunReport(msgspec.Struct, frozen=True):
    """Which stages were skipped, and which ran."""

    left_out: list[StageSkipped]
    ended: list[StageFinished]

    @property
    def rejected(self) -> int:
        return sum(stage.rejected for stage in self.ended)


class RunCallbacks(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks on: `crawl` at a crawl, `watch` at the other stages. `refuse` hears of archives that are none."""

    crawl: Callable[[Settings], AbstractContextManager[CrawlWatcher]]
    progress: ProgressReporter
    refuse: OnRefused = lambda *_: None


def run_stages(
    root: Path,
    stages: tuple[str, ...],
    *,
    read: Callable[[], Sources],
    watching: RunCallbacks,
    every: float | None = None,
) -> Iterator[StageSkipped | StageStarted | StageFinished]:
    """Run each stage as far as it is due. `read` returns the settings as they are when a stage begins. `every`: the
    seconds between two runs, where they are repeated; else the settings say it.
    """
    check_rules(read().settings().changes)  # a typing error is told now, not after a crawl of hours
    if "alert" in stages:
        register_targets(root, read().settings())
    for stage in stages:
        sources = read()
        if stage == "alert" and len(stages) > 1 and not alert_rules(sources.settings()):
            continue  # most collections have none: not worth a word
        steps = plan_steps(stage, root, sources, watching, every=every)
        if isinstance(steps, str):
            yield StageSkipped(stage, steps)
            continue
        for step in steps:
            yield StageStarted(stage, step.what, changes(root, sources) if stage == "crawl" else ())
            started = time.monotonic()
            report, rejected = step.do()
            ended = StageFinished(stage, report, rejected, time.monotonic() - started)
            yield ended
            if ended.was_stopped:
                return


def lock_for_run(root: Path) -> AbstractContextManager[object]:
    """Lock the collection against a second run."""
    return exclusive(root, "run", doing="running all stages")


def plan_steps(
    stage: str, root: Path, sources: Sources, watching: RunCallbacks, *, every: float | None = None
) -> list[StageStep] | str:
    """Return the steps of a stage; or why there is nothing to do."""
    settings = sources.settings()
    match stage:
        case "crawl":
            return crawl_steps(root, sources, watching, every=every)
        case "index":
            return index_steps(root, settings, watching.progress) or "nothing is archived yet"
        case "extract":
            return extract_steps(root, settings, watching) if crawls_with_archives(root) else "nothing is archived yet"
        case "publish":
            return reason_not_to_publish(root) or publish_steps(root, settings, watching.progress)
        case "search":
            there = (root / "latest.json").exists()
            return search_steps(root, settings, watching.progress) if there else "nothing is published yet"
        case _:
            return alert_steps(root, settings) if alert_rules(settings) else "no rules: a [[alert]] in the settings"


def crawl_steps(
    root: Path, sources: Sources, watching: RunCallbacks, *, every: float | None = None
) -> list[StageStep] | str:
    """Return the step that crawls: what waits, and what is due again in a run that comes about `every` seconds."""
    settings = sources.settings().crawl
    file = root / settings.seeds
    if not file.is_file():
        return reason_not_to_crawl(root, settings)
    watch = every or (settings.refresh_every if settings.refresh else sources.settings().watch.every)
    # A run ends, and looks once at each page that is due; to revisit pages for ever is what `crawl --refresh` does.
    sources = msgspec.structs.replace(sources, flags={**sources.flags, ("crawl", "refresh"): False})

    def crawl() -> tuple[CrawlReport, int]:
        with watching.crawl(sources.settings()) as crawl_watching:
            report = crawl_archive(
                root,
                Seeds(files=[file]),
                sources=sources,
                watcher=crawl_watching,
                forget=sources.file.keys(),
                watch=watch,
            )
        if report.total.write_error:
            raise Unavailable(f"the crawl cannot write: {report.total.write_error}")
        return report, report.problems + report.not_uploaded.files

    return [StageStep("crawl", f"crawling from {settings.seeds}", crawl)]


def index_steps(root: Path, settings: Settings, progress: ProgressReporter) -> list[StageStep]:
    def step(name: str, do: Callable[[], Any]) -> StageStep:
        def index() -> tuple[Any, int]:
            report = do()
            return report, len(report.rejects)

        return StageStep("index", f"indexing {name}", index)

    crawls = crawls_with_archives(root)
    return [step(crawl.name, lambda crawl=crawl: index_crawl(crawl, settings, progress=progress)) for crawl in crawls]  # type: ignore[misc]


def extract_steps(root: Path, settings: Settings, watching: RunCallbacks) -> list[StageStep]:
    def extract() -> tuple[Any, int]:
        report = extract_collection(root, settings, progress=watching.progress, refuse=watching.refuse)
        return report, report.rejected

    return [StageStep("extract", "making documents of new archives", extract)]


def publish_steps(root: Path, settings: Settings, progress: ProgressReporter) -> list[StageStep]:
    def publish() -> tuple[Any, int]:
        report = publish_collection(root, settings, progress=progress)
        return report, report.rejected

    return [StageStep("publish", "publishing documents", publish)]


def search_steps(root: Path, settings: Settings, progress: ProgressReporter) -> list[StageStep]:
    def search() -> tuple[Any, int]:
        report = update_index(root, settings.search, progress=progress)
        return report, len(report.fed.skipped)

    return [StageStep("search", "bringing the search index up to the live version", search)]


def alert_steps(root: Path, settings: Settings) -> list[StageStep]:
    def alert() -> tuple[Any, int]:
        report = send_alerts(root, settings)
        return report, report.rejected

    return [StageStep("alert", "telling what changed", alert)]


def reason_not_to_crawl(root: Path, settings: CrawlSettings) -> str:
    """A crawl that was begun by hand is not gone on with: its limits were of that run alone, and without them it might
    ask for far more than anybody wanted.
    """
    crawls = read_crawl_statuses(root)
    if any(crawl.is_running for crawl in crawls):
        return "somebody else is crawling here"
    if not crawls:
        return f"no {settings.seeds} (`webmill init` makes one): archives are taken as they are"
    left = describe_unfinished(crawls, now=math.inf)  # also what may be asked tomorrow
    if not left:
        return f"no {settings.seeds}, and the crawl that was begun by hand has ended"
    by_hand = f"webmill crawl {shlex.quote(str(root))}"
    return f"no {settings.seeds}, so the crawl that was begun by hand is left alone ({left}); to go on: {by_hand}"


def changes(root: Path, sources: Sources) -> tuple[str, ...]:
    """Describe the settings in the file that differ from those the crawl was started with: the file wins."""
    folder = root / "frontier"
    before = stored_settings.parse_stored(stored_settings.read_stored(folder), source=folder / stored_settings.FILE)
    return tuple(
        f"until now its {one.key} was {hide_secrets(one.text(before[one.section, one.key]))}; "
        f"from now on it is {hide_secrets(one.text(sources.file[one.section, one.key]))}, as the settings say"
        for one in stored_settings.SETTINGS
        if (one.section, one.key) in before
        and (one.section, one.key) in sources.file
        and before[one.section, one.key] != sources.file[one.section, one.key]
    )
