"""The state of a collection as rows for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from webmill.cli.crawl_progress import describe_left, describe_wait, format_most_frequent
from webmill.cli.dry_run import format_amount
from webmill.cli.text import format_ago, format_count, format_duration, format_size
from webmill.crawl.status_file import ENDS, CrawlStatus
from webmill.pipeline.status import CollectionStatus
from webmill.pipeline.status.types import (
    AlertStatus,
    ArchiveStatus,
    ExtractStatus,
    IndexStatus,
    PublishStatus,
    QueueStatus,
    RejectCount,
    SearchStatus,
)


class StatusRow(NamedTuple):
    """A row of `webmill status`. A command is never wrapped, so that it can be copied."""

    label: str
    text: str
    state: Literal["", "due", "bad"] = ""
    is_command: bool = False


def make_rows(seen: CollectionStatus, root: Path) -> Iterator[StatusRow]:
    """Yield the rows in the order of the stages. Damaged parts are left out: they are reported as problems."""
    if seen.is_running:
        yield StatusRow("run", "`webmill run` is active here, or waits for its next run (--every)")
    damaged = {problem.part for problem in seen.problems}
    for label, rows in rows_by_stage(seen, folder=shlex.quote(str(root)).rstrip("/")):
        yield from rows or [StatusRow(label, "none")] * (label not in damaged)
    if seen.disk:
        used = ("at least " * (not seen.disk.used.is_whole)) + format_size(seen.disk.used.bytes)
        yield StatusRow("disk", f"{used} used here, {format_size(seen.disk.free)} free")
    for due in seen.due:
        yield StatusRow("due", f"{due.stage}: {due.why}", "due")


def rows_by_stage(seen: CollectionStatus, *, folder: str) -> Iterator[tuple[str, list[StatusRow]]]:
    now = seen.time
    yield "crawl", [row for crawl in seen.crawls for row in crawl_rows(crawl, now=now)]
    yield "archive", [row for archive in seen.archives for row in archive_rows(archive, now=now)]
    yield "index", [row for index in seen.indexes for row in index_rows(index, now=now)]
    if seen.queues:
        yield "queue", [row for queue in seen.queues for row in queue_rows(queue, folder=folder)]
    yield "extract", [*work_rows("extract", seen.extract, unit="archive", folder=f"{folder}/extract")]
    if seen.datasets:
        yield "dataset", [*work_rows("dataset", seen.datasets, unit="task", folder=f"{folder}/datasets")]
    if seen.documents:
        yield "documents", [StatusRow("documents", format_amount(seen.documents, "file"))]
    yield "publish", [*publish_rows(seen.publish, now=now, folder=folder)]
    yield "search", [*search_rows(seen.search, seen.publish)]
    if seen.alerts:
        yield "alert", [row for alert in seen.alerts for row in alert_rows(alert, folder=folder)]
    if seen.rejects:
        yield "rejects", [StatusRow("rejects", describe_rejects(one), "due") for one in seen.rejects]


def crawl_rows(found: CrawlStatus, *, now: float) -> Iterator[StatusRow]:
    total = found.total
    running = "stopping: requests under way may end" if total.is_stopping else "running"
    state = running if found.is_running else f"not running: the last run {ENDS.get(found.end, found.end)}"
    yield StatusRow("crawl", f"{found.name}, {state}")
    yield StatusRow(
        "", f"as of {format_ago(now - found.time)}, {format_duration(found.time - found.started)} into the run"
    )
    pages = f"{format_count(total.pages, 'page')} in all, {format_size(total.bytes)} in this run"
    waiting = f"; {format_count(total.waiting, 'URL')} of {format_count(total.domains_waiting, 'domain')} waiting"
    yield StatusRow("", pages + waiting * bool(total.waiting))
    if total.pace:
        left = describe_left(total) if found.is_running else ""
        yield StatusRow("", f"pace: {total.pace:.1f} s between two pages of a host" + f"; {left}" * bool(left))
    for name, counts in (("responses", total.statuses), ("errors", total.errors), ("skipped", total.refused)):
        if counts:
            yield StatusRow("", f"{name}: {format_most_frequent(counts)}")
    if found.is_running and total.is_paused:
        yield StatusRow("", "paused; to go on: webmill frontier resume", "due")
    elif found.is_running and total.held:
        yield StatusRow("", f"nothing more is fetched; it waits {total.held}", "due")
    elif total.next_due is not None and (total.is_waiting if found.is_running else found.end == "waiting"):
        yield StatusRow("", f"waiting {describe_wait(total)}")
    elif found.is_running:
        yield StatusRow("", f"{format_count(total.turns, 'domain')} active")
    for host, seconds in total.slowest[:1]:
        yield StatusRow("", f"slowest: {host}, {1000 * seconds:,.0f} ms")
    for trouble in (total.write_error, total.command_error):
        if trouble:
            yield StatusRow("", f"failed: {trouble}", "bad")


def archive_rows(archive: ArchiveStatus, *, now: float) -> Iterator[StatusRow]:
    newest = f", the last written {format_ago(now - archive.newest)}" if archive.newest is not None else ""
    being_written = f", {archive.open:,} open for writing" if archive.open else ""
    uploaded = f", {archive.uploaded:,} uploaded, {archive.only_there:,} of them only there" if archive.uploaded else ""
    amount = format_amount(archive.amount, "WARC file")
    yield StatusRow("archive", f"{archive.crawl}: {amount}{being_written}{uploaded}{newest}")
    if (backlog := archive.backlog).files:  # as the last run noted it
        files = f"{format_count(backlog.files, 'file', 'wait')} to be uploaded, {format_size(backlog.bytes)}"
        oldest = f", the oldest for {format_duration(now - backlog.since)}" if backlog.since is not None else ""
        yield StatusRow("", files + oldest)


def index_rows(index: IndexStatus, *, now: float) -> Iterator[StatusRow]:
    if index.made is None:
        yield StatusRow("index", f"{index.crawl}: none yet", "due")
        return
    size = (
        format_count(index.blocks or 0, "block") if index.captures is None else format_count(index.captures, "capture")
    )
    yield StatusRow(
        "index", f"{index.crawl}: {size}, made {format_ago(now - index.made)}" + ", up to date" * (not index.is_behind)
    )
    if index.is_torn:
        yield StatusRow("", "its replacement was interrupted: run `webmill index`", "due")
    parts = [(index.new, "new"), (index.changed, "changed"), (index.gone, "deleted")]
    behind = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    if behind:
        names = ", ".join(example.rpartition("/")[2] for example in index.examples)
        more = ", …" * (index.new + index.changed + index.gone > len(index.examples))
        yield StatusRow("", f"behind the archives: {behind} ({names}{more})", "due")


def work_rows(label: str, work: ExtractStatus | None, *, unit: str, folder: str) -> Iterator[StatusRow]:
    if not work:
        return
    state = ", running now" * work.is_running
    counts = f"{format_count(work.done, unit)} read, {work.waiting:,} waiting, {work.failed:,} failed{state}"
    yield StatusRow(
        label, f"{counts}: {format_count(work.documents, 'document')}, {format_count(work.errors, 'error')}"
    )
    for path in work.with_failures[:1]:
        yield StatusRow(
            "",
            f"why: webmill dataset tasks list {Path(path).name} --in {folder} --state failed",
            "bad",
            is_command=True,
        )


def queue_rows(queue: QueueStatus, *, folder: str) -> Iterator[StatusRow]:
    stats = queue.stats
    counts = f"{stats.ready + stats.delayed:,} waiting, {stats.leased:,} in progress, {stats.buried:,} failed"
    yield StatusRow("queue", f"{queue.name}: {counts}", "bad" if stats.buried else "")
    if stats.buried:
        there = f"dead list {folder}" if queue.name == "publish" else f"dead list --queue sqlite:{queue.file}"
        yield StatusRow("", f"why: webmill {there}", "bad")


def publish_rows(found: PublishStatus | None, *, now: float, folder: str) -> Iterator[StatusRow]:
    if not found:
        return
    when = format_ago(now - found.published_at.timestamp())
    yield StatusRow("publish", f"{format_count(found.versions, 'version')}; live {found.live}, {when}")
    yield StatusRow("", f"{format_count(found.documents, 'published document')}; {format_amount(found.blobs, 'blob')}")
    if found.failed_sources or found.errors:
        counts = f"{format_count(found.failed_sources, 'source')} failed, {format_count(found.errors, 'error')}"
        yield StatusRow("", counts, "bad")
        yield StatusRow("", f"why: webmill publish show {folder} --errors", "bad", is_command=True)


def search_rows(found: SearchStatus | None, publish: PublishStatus | None) -> Iterator[StatusRow]:
    if not found:
        return
    known = format_count(found.documents, "document")
    if publish and not found.is_behind:
        yield StatusRow("search", f"{known}, up to the live version")
        return
    of = f"{known}, of {found.cursor or 'no version'}"
    yield StatusRow("search", f"{of}: behind the live version", "due") if publish else StatusRow("search", of)


def alert_rows(found: AlertStatus, *, folder: str) -> Iterator[StatusRow]:
    digest = f", {format_count(found.pending, 'change')} for the next digest" * bool(found.pending)
    is_bad = bool(found.dead or (found.waiting and found.reason))
    text = f"{found.target}: {found.waiting:,} waiting, {found.dead:,} given up{digest}"
    yield StatusRow("alert", text, "bad" if is_bad else "")
    if is_bad:
        yield StatusRow("", f"why: webmill alerts list {folder}", "bad", is_command=True)


def describe_rejects(found: RejectCount) -> str:
    return f"{'about ' * found.is_estimate}{found.count:,} of {found.stage}: {found.file}"
