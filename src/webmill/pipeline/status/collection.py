"""Read the status of a whole collection."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from webmill.crawl.status_file import CrawlStatus, node_slots, read_status
from webmill.errors import NotFound, WebmillError
from webmill.infra.lock import is_locked
from webmill.pipeline.alerts.inspect import read_outboxes
from webmill.pipeline.plugins import alert_rules
from webmill.pipeline.progress import format_count
from webmill.pipeline.publish.due import reason_not_to_publish
from webmill.pipeline.status.files import MAX_FILES, count_rejects, read_disk_status
from webmill.pipeline.status.stages import (
    ArchiveStats,
    archive_status,
    find_crawls,
    index_status,
    measure_documents,
    read_publish_status,
    read_search_status,
    stat_archives,
)
from webmill.pipeline.status.tasks import read_datasets_status, read_extract_status, read_queue_statuses
from webmill.pipeline.status.types import (
    AlertStatus,
    CollectionStatus,
    DueStage,
    ExtractStatus,
    IndexStatus,
    PublishStatus,
    RunWishes,
    SearchStatus,
    StatusProblem,
)
from webmill.search.base import SearchEngine
from webmill.settings import Settings

T = TypeVar("T")


class _PartReader:
    """Reads parts of a collection; one that is damaged becomes a problem, and the others are still read."""

    def __init__(self) -> None:
        self.problems: list[StatusProblem] = []

    def read(self, part: str, read_part: Callable[[], T]) -> T | None:
        try:
            return read_part()
        except WebmillError as error:
            self.problems.append(StatusProblem(part, str(error)))
        except OSError as error:
            self.refuse(part, error)
        except (ValueError, RecursionError) as error:  # msgspec's own among them: bytes that are not what we wrote
            self.problems.append(StatusProblem(part, f"cannot be read: {error}"))
        return None

    def refuse(self, part: str, error: OSError) -> None:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        self.problems.append(StatusProblem(part, where + (error.strerror or str(error))))


def read_collection_status(
    root: Path, wishes: RunWishes, *, open_engine: Callable[[], SearchEngine]
) -> CollectionStatus:
    """`root` is absolute. `open_engine` raises `NotFound` where nothing is indexed."""
    reader = _PartReader()
    crawls = reader.read("crawl", lambda: read_crawl_statuses(root)) or []
    every = reader.read("archive", lambda: find_crawls(root)) or []
    found = {crawl.name: reader.read("archive", partial(stat_archives, crawl)) or {} for crawl in every}
    archives = [reader.read("archive", partial(archive_status, crawl, found[crawl.name])) for crawl in every]
    indexes = [reader.read("index", partial(index_status, crawl, found[crawl.name])) for crawl in every]
    together = {key: status for one in found.values() for key, status in one.items()}
    extract = reader.read("extract", lambda: read_extract_status(root, together))
    publish = reader.read("publish", lambda: read_publish_status(root))
    search = reader.read("search", lambda: read_search_status(open_engine, live=publish.live if publish else None))
    alerts = reader.read("alert", lambda: read_alert_statuses(root)) or []
    dues = _DueStages(root, wishes)
    return CollectionStatus(
        root=str(root),
        time=time.time(),
        is_running=bool(reader.read("run", lambda: is_locked(root, "run"))),
        crawls=crawls,
        archives=[one for one in archives if one],
        indexes=[one for one in indexes if one],
        extract=extract,
        datasets=reader.read("datasets", lambda: read_datasets_status(root / "datasets")),
        documents=reader.read("documents", lambda: measure_documents(root)),
        queues=reader.read("queue", lambda: [*read_queue_statuses(root)]) or [],
        publish=publish,
        search=search,
        alerts=alerts,
        rejects=reader.read("rejects", lambda: [*count_rejects(root)]) or [],
        disk=reader.read("disk", lambda: read_disk_status(root, refuse=partial(reader.refuse, "disk"))),
        due=reader.read(
            "run", lambda: dues.of(crawls, together, [one for one in indexes if one], extract, publish, search, alerts)
        )
        or [],
        problems=reader.problems,
    )


def read_crawl_statuses(root: Path) -> list[CrawlStatus]:
    folder = root / "frontier"
    try:
        return [read_status(folder, slot=slot) for slot in node_slots(folder)]
    except NotFound:
        return []


class _DueStages:
    """What `webmill run` would find to do, stage by stage."""

    def __init__(self, root: Path, wishes: RunWishes) -> None:
        self._root, self._wishes = root, wishes

    def of(
        self,
        crawls: list[CrawlStatus],
        archives: ArchiveStats,
        indexes: list[IndexStatus],
        extract: ExtractStatus | None,
        publish: PublishStatus | None,
        search: SearchStatus | None,
        alerts: list[AlertStatus],
    ) -> list[DueStage]:
        reasons = {
            "crawl": self._crawl(crawls),
            "index": "; ".join(words for index in indexes for words in describe_index_lag(index)),
            "extract": f"archives to read: {extract.waiting:,}" if extract and extract.waiting else "",
            "publish": "" if reason_not_to_publish(self._root, most=MAX_FILES) else "documents that no version has",
            "search": self._search(publish, search),
            "alert": self._alert(publish, alerts) if self._wishes.alerts else "",
        }
        if not archives:
            reasons["index"] = reasons["extract"] = ""
        return [DueStage(stage, reasons[stage]) for stage in self._wishes.stages if reasons.get(stage)]

    def _crawl(self, crawls: list[CrawlStatus]) -> str:
        if not self._wishes.seeds or not self._wishes.seeds.is_file():
            return ""
        if not crawls:
            return "not begun"
        if any(crawl.is_running for crawl in crawls):
            return ""
        now = time.time()
        if left := describe_unfinished(crawls, now=now):
            return left
        due = [crawl.total.revisit_due for crawl in crawls if crawl.total.revisit_due is not None]
        return "pages are to be visited again" if self._wishes.watches and min(due, default=math.inf) <= now else ""

    def _search(self, publish: PublishStatus | None, search: SearchStatus | None) -> str:
        if not publish:
            return ""
        return "nothing is indexed yet" if not search else "a newer version is live" if search.is_behind else ""

    def _alert(self, publish: PublishStatus | None, alerts: list[AlertStatus]) -> str:
        now = time.time()
        if any(one.next_due is not None and one.next_due <= now for one in alerts):
            return "messages wait to be sent"
        return "changes to be told" if publish and any(one.version != publish.live for one in alerts) else ""


def read_alert_statuses(root: Path) -> list[AlertStatus]:
    return [
        AlertStatus(**{name: getattr(one, name) for name in AlertStatus.__struct_fields__})
        for one in read_outboxes(root)
    ]


def describe_unfinished(crawls: list[CrawlStatus], *, now: float) -> str:
    """What the last run left, in words, as far as it may be asked now. One that was killed may not have told what
    waits. What waits in a crawl that has come to its end is of domains that were excluded.
    """
    ends = {crawl.end for crawl in crawls}
    waiting = sum(crawl.total.waiting for crawl in crawls)
    if ends == {"finished"} or (ends <= {"finished", "waiting"} and next_due(crawls) > now):
        return ""
    if waiting and "pages" not in ends:
        return format_count(waiting, "URL", "wait")
    return "the last run was broken off" if "" in ends and "finished" not in ends else ""


def next_due(crawls: list[CrawlStatus]) -> float:
    """Return when the next URL is due: a run before that ends at once. 0 when it is unknown."""
    return min((crawl.total.next_due for crawl in crawls if crawl.total.next_due is not None), default=0.0)


def describe_index_lag(index: IndexStatus) -> Iterator[str]:
    """Describe what an index lacks."""
    if index.made is None:
        yield f"{index.crawl}: none yet"
    elif index.is_torn:
        yield f"{index.crawl}: its replacement was broken off"
    parts = [(index.new, "new"), (index.changed, "changed"), (index.gone, "gone")]
    changes = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    if changes and index.made is not None:
        yield f"{index.crawl}: archives {changes}"


def run_wishes(settings: Settings, root: Path) -> RunWishes:
    """Return what the settings of a collection want of it."""
    seeds = root / settings.crawl.seeds
    return RunWishes(
        stages=settings.run.in_order(),
        seeds=seeds,
        watches=settings.watch.every is not None,
        alerts=bool(alert_rules(settings)),
    )
