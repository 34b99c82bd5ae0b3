"""Crawl into a collection's WARC files: on this machine, or as one of many nodes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from webmill import collection as collections
from webmill.archive.capture_encoding import WarcinfoDetails
from webmill.archive.recovery import Repair, recover
from webmill.archive.segment import write_paths_files
from webmill.archive.writer import WarcWriter
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.run import CrawlWatcher, run_in_collection
from webmill.crawl.scheduler.coordinator import Coordinator
from webmill.crawl.seeds import RejectedSeed, Seeds, describe_rejected
from webmill.crawl.start import CrawlRunReport, NoSeeds
from webmill.crawl.stored_settings import Name
from webmill.errors import Misconfigured
from webmill.formats.url.surt import surt
from webmill.masking import hide_secrets
from webmill.model import Document
from webmill.pipeline.plugins import crawl_plugins
from webmill.pipeline.removed_files import forget_lost_removals, loses_removals, write_removed
from webmill.pipeline.trust import is_new, remember_own
from webmill.pipeline.upload import UploadRules, UploadsLeft, UploadThread, absolute_place, finish_uploads
from webmill.pipeline.upload_backlog import UploadHold, describe_backlog
from webmill.settings import Settings, Sources

SETTINGS = ("crawl", "http.contact", "metrics.port")  # what the command and the function take


class WarcArchive:
    """The WARC files of a crawl, in a segment of its own. `repairs` gets the files that were repaired."""

    def __init__(
        self,
        collection: collections.Collection,
        *,
        operator: str,
        max_bytes: int,
        languages: bool,
        segment: str = "",
        repairs: list[Repair] | None = None,
        hold: UploadHold | None = None,
    ) -> None:
        """Without a `segment` the time of now names it. `hold` tells when nothing more is to be fetched."""
        self._collection, self._operator = collection, operator
        self._segment = segment or datetime.now(UTC).strftime("%Y%m%d%H%M%S")
        self._max_bytes, self._languages = max_bytes, languages
        self._repairs = [] if repairs is None else repairs
        self._hold = hold

    def open_writer(self, *, stem: str, now: Callable[[], datetime]) -> WarcWriter:
        return WarcWriter(
            self._collection,
            segment=self._segment,
            stem=stem,
            software=WarcinfoDetails(operator=self._operator, hostname=socket.gethostname()),
            max_bytes=self._max_bytes,
            now=now,
            languages=self._languages,
        )

    def hold(self) -> str:
        return self._hold.why() if self._hold else ""

    def recover(self) -> None:
        self._repairs += recover(self._collection)

    def record_removed(self, visits: Sequence[LastVisit]) -> None:
        """Write a row for each page that is gone: the next version leaves it out (`pipeline/publish/newest.py`)."""
        newest = datetime.fromtimestamp(visits[-1].time, UTC)
        write_removed(self._collection.root, [removed_document(visit) for visit in visits], newest=newest)

    def has_lost_removals(self) -> bool:
        return loses_removals(self._collection.root)

    def forget_lost_removals(self) -> None:
        forget_lost_removals(self._collection.root)

    def finish(self) -> None:
        self.recover()
        write_paths_files(self._collection)


def removed_document(visit: LastVisit) -> Document:
    """Return the row that says that a page is not there any more; its capture is the last answer."""
    return Document(
        id=f"{visit.filename}#{visit.offset}",
        url=visit.url,
        urlkey=surt(visit.url),
        date=datetime.fromtimestamp(int(visit.time), UTC),
        status=visit.status,
        type="response",
        outcome="removed",
        warc_filename=visit.filename,
        warc_offset=visit.offset,
        warc_length=visit.length,
    )


class CrawlReport(CrawlRunReport, frozen=True, kw_only=True):
    """How a run of a crawl ended. `total` counts the whole crawl; `rejected` are seeds that are not URLs."""

    collection: str
    repairs: list[Repair]
    rejected: list[RejectedSeed]
    not_uploaded: UploadsLeft = UploadsLeft()

    @property
    def problems(self) -> int:
        """Return how many seeds gave nothing: lines that are not URLs; and all, while there is no page."""
        return len(self.rejected) + len(self.failed_seeds)


def crawl_archive(
    root: Path,
    seeds: Seeds,
    *,
    sources: Sources,
    watcher: CrawlWatcher | None = None,
    forget: Collection[Name] = (),
    watch: float | None = None,
) -> CrawlReport:
    """Begin the crawl in `root`, or go on with it, until it ends or is stopped.

    `forget` names settings that the crawl stored and that do not count any more. `watch`: look again at pages that are
    due, for runs that come about every so many seconds.
    """
    repairs: list[Repair] = []
    uploads = CrawlUploads()

    def open_archive(collection: collections.Collection, settings: Settings) -> WarcArchive:
        hold = uploads.choose(collection, settings)
        return WarcArchive(
            collection,
            operator=settings.http.contact or "",
            max_bytes=settings.crawl.file_size,
            languages=settings.crawl.languages,
            repairs=repairs,
            hold=hold,
        )

    watcher = announcing(seeds, remembering(root, uploads.beside(watcher or CrawlWatcher())))
    try:
        report = run_in_collection(
            root,
            seeds,
            sources=sources,
            open_archive=open_archive,
            watcher=watcher,
            forget=forget,
            watch=watch,
            plugins=crawl_plugins(),
        )
    except NoSeeds as error:
        raise NoSeeds(f"{error}: {describe_rejected(seeds.rejected) or 'there is none'}") from None
    finally:
        uploads.end()
    left = uploads.finish(watcher, was_stopped=report.end == "stopped")
    values = msgspec.structs.asdict(report)
    return CrawlReport(collection=str(root), repairs=repairs, rejected=seeds.rejected, not_uploaded=left, **values)


class CrawlUploads:
    """The uploads of a crawl's archives, if its settings want any."""

    def __init__(self) -> None:
        self._chosen: tuple[collections.Collection, UploadRules] | None = None
        self._thread: UploadThread | None = None

    def choose(self, collection: collections.Collection, settings: Settings) -> UploadHold | None:
        """Take the settings that count, and return what tells the crawl to wait. Misconfigured: they cannot be
        meant."""
        chosen = settings.crawl
        if chosen.keep_local is not None and not chosen.upload:
            raise Misconfigured("--keep-local deletes what was uploaded: say where to, with --upload URL")
        if not chosen.upload:
            return None
        rules = UploadRules(place=absolute_place(chosen.upload), keep_local=chosen.keep_local)
        if not self._thread:  # what a reload says of the place counts from the next run on
            rules.check(collection.root)
            self._chosen = (collection, rules)
        return UploadHold(collection.root, hide_secrets(rules.place), chosen.upload_backlog)

    def beside(self, watcher: CrawlWatcher) -> CrawlWatcher:
        """Return a watcher that begins to upload when the crawl starts, and shows what waits."""

        def started(coordinator: Coordinator) -> None:
            watcher.started(coordinator)
            self._thread = UploadThread(*self._chosen) if self._chosen else None

        def show(seen: CrawlProgress) -> None:
            if self._thread and (backlog := self._thread.backlog).files:
                seen.uploads, seen.uploads_since = describe_backlog(backlog), backlog.since
            watcher.show(seen)

        return msgspec.structs.replace(watcher, started=started, show=show)

    def end(self) -> None:
        if self._thread:
            self._thread.end()

    def finish(self, watcher: CrawlWatcher, *, was_stopped: bool) -> UploadsLeft:
        """Upload what the crawl has left, which is finished now, unless it was stopped. Return what is left then."""
        if not self._chosen:
            return UploadsLeft()
        is_stopped = (lambda: True) if was_stopped else watcher.is_stopped
        return finish_uploads(*self._chosen, notice=watcher.notice, is_stopped=is_stopped)


def announcing(seeds: Seeds, watcher: CrawlWatcher) -> CrawlWatcher:
    """Return a watcher that names seeds that are none when the crawl starts, and not only when it has ended."""

    def started(coordinator: Coordinator) -> None:
        if seeds.rejected:
            watcher.notice(f"{len(seeds.rejected):,} seeds are left out: {describe_rejected(seeds.rejected)}")
        watcher.started(coordinator)

    return msgspec.structs.replace(watcher, started=started)


def remembering(root: Path, watcher: CrawlWatcher) -> CrawlWatcher:
    """Return the watcher of a crawl that makes a new collection the user's own, as soon as it has begun."""
    if not is_new(root):
        return watcher

    def started(coordinator: Coordinator) -> None:
        remember_own(root, made_by="crawl")
        watcher.started(coordinator)

    return msgspec.structs.replace(watcher, started=started)
