"""The WARC files of a crawl, written so that what is acknowledged survives a kill, a power cut and a full disk.

    writer.append(capture) -> WrittenCapture    where it lies; not yet durable
    writer.sync()                        every place that was given out is durable

Promises
- A capture is one write: request, response or revisit, metadata. Its place holds exactly its response (or revisit).
- When `sync` returns, all places are durable. When it raises, none since the last good `sync` is: those captures are
  gone, their file is given up (after a failed fsync the kernel may have forgotten what it could not write; trying
  again would only seem to work), and the next append begins a new file.
- When `append` raises, that capture is not in the archive; the places before it are as good as they were.
- Files are never written again once they have their final name, and no two have the same.
- After a kill, `recovery.recover` finishes what was left open.

A writer has one user at a time: give it a thread of its own if an fsync must not be waited for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import Self

from webmill.archive.capture_encoding import (
    WarcinfoDetails,
    encode_capture,
    encode_warcinfo,
    encode_warcinfo_fields,
    new_record_id,
)
from webmill.archive.language_detection import LanguageDetector, open_language_detector
from webmill.archive.segment import Segment, check_name, warc_file_name
from webmill.archive.segment_file import SegmentFile
from webmill.collection import Collection
from webmill.errors import Conflict, WebmillError
from webmill.formats.timestamps import from_datetime
from webmill.formats.warc.capture import Capture, Subset, WrittenCapture
from webmill.model import CaptureRef

__all__ = ["WarcWriter", "WarcinfoDetails"]

log = logging.getLogger(__name__)


class WarcVolume:
    """Up to three files of one name, one for each subset, rolled together."""

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
        """`stem` tells the files of this process from those of others. `languages`: by CLD2, where it is installed.

        A file takes no more captures once it has `max_bytes`.
        """
        self._segment = Segment(collection, segment)
        self._stem = check_name(stem, what="stem")
        self._info = encode_warcinfo_fields(software, crawl=collection.name)
        self._now = now
        self._max_bytes = max_bytes
        self._number = 0
        self._volume: WarcVolume | None = None
        self._full: list[WarcVolume] = []  # take no more, and are sealed when they are synced
        self._stack = ExitStack()
        self._detect: LanguageDetector | None = (
            self._stack.enter_context(open_language_detector()) if languages else None
        )

    def append(self, capture: Capture) -> WrittenCapture:
        """Not durable before the next `sync`. `Unavailable` when the disk does not take it."""
        file = self._file(capture.subset)
        encoded = encode_capture(capture, warcinfo_id=file.warcinfo_id, detect=self._detect)
        try:
            start = file.append(encoded.data)
        except WebmillError:
            self._roll()  # on a file that was refused a write nothing is built any more
            self._seal([volume for volume in self._full if volume.is_empty])
            raise
        if file.end >= self._max_bytes:
            self._roll()
        exchange = capture.exchange
        lies = CaptureRef(
            url=exchange.url,
            timestamp=from_datetime(exchange.date),
            filename=file.key,
            offset=start + encoded.start,
            length=encoded.length,
            digest=encoded.digest,
        )
        return WrittenCapture(lies, encoded.record_id)

    def sync(self) -> None:
        """All places given out are durable. When it raises, those since the last `sync` do not exist."""
        files = self._files()
        try:
            for file in files:
                file.sync()
        except WebmillError:
            self._give_up()
            raise
        for file in files:
            file.confirm()
        self._seal(self._full)

    def close(self) -> None:
        """Sync, and give all files their final names."""
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
            except Conflict:  # a clock was set back, or another process has our stem
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

    def _give_up(self) -> None:
        """Nothing is acknowledged in these files again; what was stays."""
        self._roll()
        for file in self._files():
            file.forget()
        self._seal(self._full)

    def _seal(self, volumes: list[WarcVolume]) -> None:
        """A file that cannot be sealed keeps its acknowledged records under its open name, until recovery."""
        for volume in volumes:
            for file in volume.files.values():
                try:
                    file.seal()
                except WebmillError as error:
                    log.warning("file left open", extra={"file": str(file.path), "reason": str(error)})
        self._full = [volume for volume in self._full if volume not in volumes]
