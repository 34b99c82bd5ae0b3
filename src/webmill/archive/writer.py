"""Write the WARC files of a crawl, so that what is acknowledged survives a kill, a power cut and a full disk.

    captures = writer.describe(captures)        with their media types, charsets and languages
    writer.append(capture) -> WrittenCapture    where it is stored; not yet durable
    writer.sync()                               everything appended is durable

Promises
- A capture is one write: request, response or revisit, metadata. Its byte range is exactly its response (or revisit).
- When `sync` returns, all captures are durable. When it raises, none since the last successful `sync` is: they are
  dropped, their file is abandoned (after a failed fsync the kernel may have dropped the data; a retry would only seem
  to work), and the next append begins a new file.
- When `append` raises, that capture is not in the archive; the captures before it are not affected.
- Files never change once they have their final name, and no two have the same name.
- After a kill, `recovery.recover` finishes the files that were left open.

A writer has one user at a time: run it in its own thread if the caller must not wait for fsync.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Self

from webmill.archive.capture_encoding import (
    WarcinfoDetails,
    encode_capture,
    encode_page_record,
    encode_warcinfo,
    encode_warcinfo_fields,
    new_record_id,
)
from webmill.archive.language_detection import LanguageDetector, open_language_detector
from webmill.archive.payloads import describe_captures
from webmill.archive.segment import Segment, check_name, warc_file_name
from webmill.archive.segment_file import SegmentFile
from webmill.collection import Collection
from webmill.errors import Conflict, WebmillError
from webmill.formats.timestamps import from_datetime
from webmill.formats.warc.capture import Capture, PageRecord, Subset, WrittenCapture
from webmill.model import CaptureRef

__all__ = ["WarcWriter", "WarcinfoDetails"]

log = logging.getLogger(__name__)


class WarcVolume:
    """Up to three files of one name, one per subset, which are rolled over together."""

    def __init__(self, name: str, *, opened: datetime) -> None:
        self.name = name
        self.opened = opened
        self.files: dict[Subset, SegmentFile] = {}

    @property
    def is_empty(self) -> bool:
        return all(file.is_empty for file in self.files.values())


class WarcWriter:
    def __init__(
        self,
        collection: Collection,
        *,
        segment: str,
        stem: str,
        software: WarcinfoDetails,
        now: Callable[[], datetime],
        max_bytes: int = 1 << 30,
        languages: bool = True,
    ) -> None:
        """`stem` makes the file names of this process unique. `languages`: detect them by CLD2, if it is installed.

        A file of `max_bytes` or more takes no more captures.
        """
        self._segment = Segment(collection, segment)
        self._stem = check_name(stem, what="stem")
        self._info = encode_warcinfo_fields(software, crawl=collection.name)
        self._now = now
        self._max_bytes = max_bytes
        self._number = 0
        self._volume: WarcVolume | None = None
        self._full: list[WarcVolume] = []  # take no more captures; sealed at the next sync
        self._stack = ExitStack()
        self._detect: LanguageDetector | None = (
            self._stack.enter_context(open_language_detector()) if languages else None
        )

    def describe(self, captures: Sequence[Capture]) -> list[Capture]:
        """Return the captures with what is found in their payloads. `append` does it for those that have it not yet."""
        return describe_captures(captures, self._detect)

    def append(self, capture: Capture) -> WrittenCapture:
        """Write a capture, which is durable after the next `sync`. Raise Unavailable if the disk refuses it."""
        [capture] = self.describe([capture])
        file = self._file(capture.subset)
        encoded = encode_capture(capture, warcinfo_id=file.warcinfo_id)
        start = self._append(file, encoded.data)
        exchange = capture.exchange
        ref = CaptureRef(
            url=exchange.url,
            timestamp=from_datetime(exchange.date),
            filename=file.key,
            offset=start + encoded.start,
            length=encoded.length,
            digest=encoded.digest,
        )
        return WrittenCapture(ref, encoded.record_id)

    def append_record(self, record: PageRecord) -> None:
        """Write what was made of a page, beside its capture. It is durable after the next `sync`."""
        file = self._file("warc")
        self._append(file, encode_page_record(record, warcinfo_id=file.warcinfo_id))

    def _append(self, file: SegmentFile, data: bytes) -> int:
        """Return where the data begins."""
        try:
            start = file.append(data)
        except WebmillError:
            self._roll()  # never append again to a file after a failed write
            self._seal([volume for volume in self._full if volume.is_empty])
            raise
        if file.end >= self._max_bytes:
            self._roll()
        return start

    def sync(self) -> None:
        """Make all captures durable. When it raises, the captures since the last `sync` are lost."""
        files = self._files()
        try:
            for file in files:
                file.sync()
        except WebmillError:
            self._abandon_files()
            raise
        for file in files:
            file.mark_synced()
        self._seal(self._full)

    def close(self) -> None:
        """Sync, and seal all files."""
        try:
            self._roll()
            self.sync()
        finally:
            self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- files ---

    def _file(self, subset: Subset) -> SegmentFile:
        while True:
            if self._volume is None:
                opened = self._now()
                name = warc_file_name(
                    self._segment.collection.name, opened=opened, stem=self._stem, number=self._number
                )
                self._volume = WarcVolume(name, opened=opened)
            if file := self._volume.files.get(subset):
                return file
            try:
                self._volume.files[subset] = self._create(self._volume, subset)
            except Conflict:  # the clock was set back, or another process uses the same stem
                self._roll()

    def _create(self, volume: WarcVolume, subset: Subset) -> SegmentFile:
        record_id = new_record_id()
        info = encode_warcinfo(self._info, record_id=record_id, date=volume.opened, filename=volume.name)
        path = self._segment.folder(subset) / volume.name
        return SegmentFile(path, key=self._segment.collection.key(path), warcinfo=info, warcinfo_id=record_id)

    def _roll(self) -> None:
        if self._volume is not None:
            self._full.append(self._volume)
            self._volume = None
            self._number += 1

    def _files(self) -> list[SegmentFile]:
        volumes = [*self._full, *([self._volume] if self._volume else [])]
        return [file for volume in volumes for file in volume.files.values()]

    def _abandon_files(self) -> None:
        """Stop writing to the current files; what was acknowledged stays."""
        self._roll()
        for file in self._files():
            file.discard_unsynced()
        self._seal(self._full)

    def _seal(self, volumes: list[WarcVolume]) -> None:
        """Seal the files of `volumes`. A file that cannot be sealed keeps its open name until recovery."""
        for volume in volumes:
            for file in volume.files.values():
                try:
                    file.seal()
                except WebmillError as error:
                    log.warning("file left open", extra={"file": str(file.path), "reason": str(error)})
        self._full = [volume for volume in self._full if volume not in volumes]
