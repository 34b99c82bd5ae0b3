"""The seam between a crawl and its archive: what the crawl needs to write captures that survive a kill.

`pipeline/crawl_archive.py` has the one that writes WARC files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from webmill.crawl.frontier.base import LastVisit
from webmill.formats.warc.capture import Capture, PageRecord, WrittenCapture


class CaptureWriter(Protocol):
    """Writes captures of one process. A writer has one user at a time."""

    def describe(self, captures: Sequence[Capture]) -> list[Capture]:
        """Return the captures with what is found in their payloads. `append` does the same, at a higher price, for
        captures that do not have it."""
        ...

    def append(self, capture: Capture) -> WrittenCapture:
        """Write a capture and return where it lies. It is not durable before the next `sync`."""
        ...

    def append_record(self, record: PageRecord) -> None:
        """Write what was made of a page. It is not durable before the next `sync`."""
        ...

    def sync(self) -> None:
        """Make every capture durable. When this raises, all captures since the last good `sync` are lost."""
        ...

    def close(self) -> None: ...


class CrawlArchive(Protocol):
    """The archive of one crawl. It travels to the crawl's processes, so it must be picklable."""

    def open_writer(self, *, stem: str, now: Callable[[], datetime]) -> CaptureWriter:
        """Return a writer whose files carry `stem` in their names, which no other process uses."""
        ...

    def hold(self) -> str:
        """Return why nothing more is to be fetched for now, since what is archived has nowhere to go; else nothing.
        It is asked several times a second."""
        ...

    def recover(self) -> None:
        """Repair the files that killed processes left open."""
        ...

    def record_removed(self, visits: Sequence[LastVisit]) -> None:
        """Note, durably, that these pages are no longer there. To be told twice of one does no harm."""
        ...

    def has_lost_removals(self) -> bool:
        """Tell whether some of what `record_removed` noted is gone or damaged."""
        ...

    def forget_lost_removals(self) -> None:
        """Do not miss any longer what was lost: all that it said was noted again."""
        ...

    def finish(self) -> None:
        """Repair what processes that died left open, and list the finished files."""
        ...
