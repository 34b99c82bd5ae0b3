"""The structs of `webmill status --json`: readers must ignore fields that are added later."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from webmill.crawl.status_file import CrawlStatus
from webmill.infra.queue.base import QueueStats
from webmill.infra.storage.uploads import UploadBacklog


class FilesSize(msgspec.Struct, frozen=True, kw_only=True):
    """`is_whole`: False when there was more than is counted at a glance; then it is at least this."""

    files: int = 0
    bytes: int = 0
    is_whole: bool = True


class ArchiveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The WARC and ARC files of one crawl. `open`: being written, or left so. `newest`: when the last was written.
    `uploaded` are in another store too, `only_there` no longer here."""

    crawl: str
    amount: FilesSize
    open: int = 0
    newest: float | None = None
    uploaded: int = 0
    only_there: int = 0
    backlog: UploadBacklog = UploadBacklog()  # what waits for upload, as it was noted last


class IndexStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`captures` are None where only the number of blocks is known. Files that it is behind by are the last four."""

    crawl: str
    made: float | None = None  # None: there is none
    captures: int | None = None
    blocks: int | None = None
    is_torn: bool = False  # somebody died while replacing it
    new: int = 0
    changed: int = 0
    gone: int = 0
    examples: list[str] = []

    @property
    def is_behind(self) -> bool:
        return bool(self.made is None or self.is_torn or self.new or self.changed or self.gone)


class ExtractStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of datasets: those of the collection's own archives, or others."""

    datasets: int = 0
    done: int = 0
    failed: int = 0
    waiting: int = 0
    documents: int = 0
    errors: int = 0
    is_running: bool = False
    with_failures: list[str] = []  # folders


class QueueStatus(msgspec.Struct, frozen=True):
    name: str
    file: str
    stats: QueueStats


class PublishStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`failed_sources` and `errors` are of the live version. `blobs` are those of all."""

    versions: int
    live: str
    published_at: datetime
    documents: int
    failed_sources: int = 0
    errors: int = 0
    blobs: FilesSize


class SearchStatus(msgspec.Struct, frozen=True):
    """`cursor` is the version that it was made up to."""

    documents: int
    cursor: str | None
    is_behind: bool


class AlertStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Messages to a target that wait, or were given up; `pending` changes wait for their digest."""

    target: str
    version: str | None = None  # the last one that it was told of
    waiting: int = 0
    dead: int = 0
    pending: int = 0
    next_due: float | None = None
    reason: str = ""


class RejectCount(msgspec.Struct, frozen=True, kw_only=True):
    stage: str
    file: str
    count: int
    is_estimate: bool = False


class DiskStatus(msgspec.Struct, frozen=True, kw_only=True):
    used: FilesSize
    free: int


class StatusProblem(msgspec.Struct, frozen=True):
    part: str
    message: str


class DueStage(msgspec.Struct, frozen=True):
    """A stage that `webmill run` would do something in."""

    stage: str
    why: str


class RunWishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the settings say about runs. `seeds`: None when nothing is crawled."""

    stages: tuple[str, ...]
    seeds: Path | None
    watches: bool
    alerts: bool = False  # there are rules


class CollectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a collection. A part that does not exist is empty or None."""

    root: str
    time: float
    is_running: bool  # `webmill run` is at it
    crawls: list[CrawlStatus]
    archives: list[ArchiveStatus]
    indexes: list[IndexStatus]
    extract: ExtractStatus | None
    datasets: ExtractStatus | None
    documents: FilesSize | None
    queues: list[QueueStatus]
    publish: PublishStatus | None
    search: SearchStatus | None
    alerts: list[AlertStatus]
    rejects: list[RejectCount]
    disk: DiskStatus | None
    due: list[DueStage]
    problems: list[StatusProblem]
