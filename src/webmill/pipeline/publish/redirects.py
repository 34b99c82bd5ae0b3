"""Where pages went that left a version: the target of the permanent redirect that is their last capture."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.errors import WebmillError
from webmill.formats.url.normalise import join
from webmill.infra.files import os_errors
from webmill.infra.storage.base import Readable
from webmill.infra.storage.local import LocalStorage
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import open_record

PERMANENT = (301, 308)
MOST = 10_000  # pages of a version whose captures are read


class _RemovedRow(msgspec.Struct, frozen=True):
    """What is read of a row of a page that is gone (`pipeline/removed_files.py`)."""

    url: str
    urlkey: str
    status: int | None = None
    warc_filename: str = ""
    warc_offset: int = 0
    warc_length: int = 0


def find_redirects(root: Path, ids: Collection[str]) -> dict[str, str]:
    """Return the URLs to which these pages redirect for good, by id; pages that do not are left out."""
    last = {row.urlkey: row for row in _removed_rows(root) if row.urlkey in ids}  # files are in the order of time
    moved = [row for row in last.values() if row.status in PERMANENT][:MOST]
    files = LocalStorage(root)
    return {row.urlkey: target for row in moved if (target := _target(files, row))}


def _removed_rows(root: Path) -> Iterator[_RemovedRow]:
    for file in sorted(PublishFolders(root).documents.glob("removed-*.jsonl")):
        with os_errors(str(file)), file.open("rb") as lines:
            for line in lines:
                try:
                    yield msgspec.json.decode(line, type=_RemovedRow)
                except (msgspec.MsgspecError, UnicodeDecodeError):  # publishing tells of rows that cannot be read
                    continue


def _target(files: Readable, row: _RemovedRow) -> str | None:
    ref = CaptureRef(url=row.url, filename=row.warc_filename, offset=row.warc_offset, length=row.warc_length)
    try:
        capture = open_record(files, ref)
        capture.close()
        location = capture.headers.get("Location")
        return join(row.url, location.strip()) if location else None
    except WebmillError:  # the capture is elsewhere, or damaged: nobody knows where the page went
        return None
