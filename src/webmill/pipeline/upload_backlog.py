"""What waits for the store that archives are uploaded to: so that it is said, and a crawl does not fill the disk."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import msgspec

from webmill.collection import Collection
from webmill.errors import WebmillError
from webmill.index.archives import find_local_archives
from webmill.index.state import FileStat
from webmill.infra.storage.uploads import UploadBacklog, UploadedFile, upload_backlog, uploaded_files
from webmill.pipeline.progress import format_count

log = logging.getLogger(__name__)

HOLD_EVERY = 2.0  # seconds between looks whether a crawl may go on


class UploadHold(msgspec.Struct):
    """Whether a crawl fetches nothing more for now, since more than `most` bytes wait for the store. It may be copied
    to other processes, each of which looks now and then at what the first has noted."""

    root: Path
    place: str = ""
    most: int | None = None
    said: str = ""
    looked: float = float("-inf")

    def why(self) -> str:
        """Return what the crawl waits for; an empty string: it need not wait."""
        if self.most is not None and time.monotonic() - self.looked > HOLD_EVERY:
            self.looked = time.monotonic()
            try:
                backlog = upload_backlog(self.root)
            except WebmillError as error:  # whoever uploads says what is wrong with it
                log.warning("cannot look what waits for upload", extra={"why": str(error)})
                return self.said
            self.said = f"for {self.place}: {describe_backlog(backlog)}" if backlog.bytes > self.most else ""
        return self.said


def describe_backlog(backlog: UploadBacklog) -> str:
    """Return `3 WARC files, 3,120 MB`."""
    return f"{format_count(backlog.files, 'WARC file')}, {backlog.bytes / 1e6:,.1f} MB"


def measure_backlog(collection: Collection) -> UploadBacklog:
    """Look which finished archives of the crawl are here and not in the store, by their stats."""
    known, waiting = uploaded_files(collection.root), list[os.stat_result]()
    for key in find_local_archives(collection, refuse=lambda *_: None):
        path = collection.root / key
        if key.startswith("crawl-data/") and not path.is_symlink():
            try:
                status = path.stat()
            except FileNotFoundError:  # dropped just now
                continue
            if key not in known or not has_looks(status, known[key]):
                waiting.append(status)
    return UploadBacklog(
        files=len(waiting),
        bytes=sum(one.st_size for one in waiting),
        since=min((one.st_mtime for one in waiting), default=None),
    )


def has_looks(status: os.stat_result, file: UploadedFile) -> bool:
    """Return whether a file has the stat of the one that was uploaded."""
    if not file.looks:
        return False
    was = msgspec.json.decode(file.looks, type=FileStat)
    now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return (was.size, was.mtime_ns, was.ctime_ns, was.inode) == now
