"""A look at a collection, in rows for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from webmill.cli.crawl_view import age, amount, awaited, kinds
from webmill.cli.dry_run import quantity
from webmill.cli.words import ago, counted
from webmill.crawl.status_file import ENDS, Status
from webmill.pipeline.status import Look
from webmill.pipeline.status.nouns import Archive, Index, Publication, Queue, Rejects, Search, Work


class Row(NamedTuple):
    """`is_command`: to be copied, so it is never broken into lines."""

    label: str
    text: str
    state: Literal["", "due", "bad"] = ""
    is_command: bool = False


def rows_of(seen: Look, root: Path) -> Iterator[Row]:
    """In the order of the river. A stage that has made nothing says so; one that is damaged is told of elsewhere."""
    if seen.is_running:
        yield Row("run", "`webmill run` is at work here, or waits for its time (--every)")
    damaged = {problem.part for problem in seen.problems}
    for label, rows in stages(seen, folder=shlex.quote(str(root)).rstrip("/")):
        yield from rows or [Row(label, "none")] * (label not in damaged)
    if seen.disk:
        used = ("at least " * (not seen.disk.used.is_whole)) + amount(seen.disk.used.bytes)
        yield Row("disk", f"{used} used here, {amount(seen.disk.free)} free")
    for due in seen.due:
        yield Row("due", f"{due.stage}: {due.why}", "due")


def stages(seen: Look, *, folder: str) -> Iterator[tuple[str, list[Row]]]:
    now = seen.time
    yield "crawl", [row for crawl in seen.crawls for row in crawl_rows(crawl, now=now)]
    yield "archive", [archive_row(archive, now=now) for archive in seen.archives]
    yield "index", [row for index in seen.indexes for row in index_rows(index, now=now)]
    if seen.queues:
        yield "queue", [row for queue in seen.queues for row in queue_rows(queue, folder=folder)]
    yield "extract", [*work_rows("extract", seen.extract, unit="archive", folder=f"{folder}/extract")]
    if seen.datasets:
        yield "dataset", [*work_rows("dataset", seen.datasets, unit="task", folder=f"{folder}/datasets")]
    if seen.documents:
        yield "documents", [Row("documents", quantity(seen.documents, "file"))]
    yield "publish", [*publish_rows(seen.publish, now=now, folder=folder)]
    yield "search", [*search_rows(seen.search, seen.publish)]
    if seen.rejects:
        yield "rejects", [Row("rejects", rejected(one), "due") for one in seen.rejects]


def crawl_rows(found: Status, *, now: float) -> Iterator[Row]:
    total = found.total
    state = "running" if found.is_running else f"not running: the last run {ENDS.get(found.end, found.end)}"
    yield Row("crawl", f"{found.name}, {state}")
    yield Row("", f"as of {ago(now - found.time)}, {age(found.time - found.started)} into the run")
    pages = f"{counted(total.pages, 'page')} in all, {amount(total.bytes)} in this run"
    waiting = f"; {counted(total.waiting, 'URL')} of {counted(total.domains_waiting, 'domain')} waiting"
    yield Row("", pages + waiting * bool(total.waiting))
    for name, counts in (("answers", total.statuses), ("errors", total.errors), ("not asked", total.refused)):
        if counts:
            yield Row("", f"{name}: {kinds(counts)}")
    if total.wake is not None and (total.is_resting if found.is_running else found.end == "waiting"):
        yield Row("", f"waiting {awaited(total)}")
    elif found.is_running:
        yield Row("", f"{counted(total.turns, 'domain')} active")
    for host, seconds in total.slowest[:1]:
        yield Row("", f"slowest: {host}, {1000 * seconds:,.0f} ms")
    for trouble in (total.trouble, total.complaint):
        if trouble:
            yield Row("", f"failed: {trouble}", "bad")


def archive_row(archive: Archive, *, now: float) -> Row:
    newest = f", the last written {ago(now - archive.newest)}" if archive.newest is not None else ""
    being_written = f", {archive.open:,} being written" if archive.open else ""
    return Row("archive", f"{archive.crawl}: {quantity(archive.amount, 'WARC file')}{being_written}{newest}")


def index_rows(index: Index, *, now: float) -> Iterator[Row]:
    if index.made is None:
        yield Row("index", f"{index.crawl}: none yet", "due")
        return
    size = counted(index.blocks or 0, "block") if index.captures is None else counted(index.captures, "capture")
    yield Row("index", f"{index.crawl}: {size}, made {ago(now - index.made)}" + ", up to date" * (not index.is_behind))
    if index.is_torn:
        yield Row("", "its replacement was broken off: the next `webmill index` makes it", "due")
    parts = [(index.new, "new"), (index.changed, "changed"), (index.gone, "gone")]
    behind = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    if behind:
        names = ", ".join(example.rpartition("/")[2] for example in index.examples)
        more = ", …" * (index.new + index.changed + index.gone > len(index.examples))
        yield Row("", f"behind the archives: {behind} ({names}{more})", "due")


def work_rows(label: str, work: Work | None, *, unit: str, folder: str) -> Iterator[Row]:
    if not work:
        return
    state = ", running now" * work.is_running
    told = f"{counted(work.done, unit)} read, {work.waiting:,} waiting, {work.failed:,} failed{state}"
    yield Row(label, f"{told}: {counted(work.documents, 'document')}, {counted(work.errors, 'error')}")
    for path in work.with_failures[:1]:
        yield Row(
            "",
            f"why: webmill dataset tasks list {Path(path).name} --in {folder} --state failed",
            "bad",
            is_command=True,
        )


def queue_rows(queue: Queue, *, folder: str) -> Iterator[Row]:
    stats = queue.stats
    told = f"{stats.ready + stats.delayed:,} waiting, {stats.leased:,} in work, {stats.buried:,} given up"
    yield Row("queue", f"{queue.name}: {told}", "bad" if stats.buried else "")
    if stats.buried:
        there = f"dead list {folder}" if queue.name == "publish" else f"dead list --queue sqlite:{queue.file}"
        yield Row("", f"why: webmill {there}", "bad")


def publish_rows(found: Publication | None, *, now: float, folder: str) -> Iterator[Row]:
    if not found:
        return
    when = ago(now - found.published_at.timestamp())
    yield Row("publish", f"{counted(found.versions, 'version')}; live {found.live}, {when}")
    yield Row("", f"{counted(found.documents, 'document')}; {quantity(found.blobs, 'blob')}")
    if found.failed_sources or found.errors:
        told = f"{counted(found.failed_sources, 'source')} failed, {counted(found.errors, 'error')}"
        yield Row("", told, "bad")
        yield Row("", f"why: webmill publish show {folder} --errors", "bad", is_command=True)


def search_rows(found: Search | None, publish: Publication | None) -> Iterator[Row]:
    if not found:
        return
    known = counted(found.documents, "document")
    if publish and not found.is_behind:
        yield Row("search", f"{known}, up to the live version")
        return
    of = f"{known}, of {found.cursor or 'no version'}"
    yield Row("search", f"{of}: behind the live version", "due") if publish else Row("search", of)


def rejected(found: Rejects) -> str:
    return f"{'about ' * found.is_estimate}{found.count:,} of {found.stage}: {found.file}"
