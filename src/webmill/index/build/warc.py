"""CDXJ lines of WARC and ARC files: plain, compressed per record or as a whole, from any source of bytes.

Bodies are inflated only where they must be (`webmill.formats.warc.scan`). Damaged records come out as `Damage` among
the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.scan import ScanOptions, scan_records
from webmill.formats.window import ByteSource
from webmill.index.build.captures import CaptureIndexer, CaptureOptions
from webmill.index.cdxj.sort import MEMORY, sort_lines
from webmill.index.lines import Batch, in_batches, open_input
from webmill.model import Damage

LIMITS = WarcLimits(head=256 << 10)  # readers of pages may refuse such headers; an index lists them


class ArchiveInput(msgspec.Struct, frozen=True):
    """A file to index: its name in the index, and how to open it (`functools.partial(storage.open, key)`)."""

    filename: str
    open: Callable[[], BinaryIO]


def local_archive(path: Path, *, filename: str | None = None) -> ArchiveInput:
    """Return the input for a local file, named by its file name unless given.

    It is read, not mapped: truncating a mapped file kills the process.
    """
    return ArchiveInput(path.name if filename is None else filename, lambda: open_input(path))


def index_file(
    source: ByteSource,
    *,
    filename: str,
    options: CaptureOptions = CaptureOptions(),  # noqa: B008  # frozen
    scan: ScanOptions = ScanOptions(),  # noqa: B008
) -> Iterator[bytes | Damage]:
    """Yield a line per capture, in the order of the file, and the damage found on the way."""
    captures = CaptureIndexer(filename=filename, options=options)
    return captures.lines(scan_records(source, enough=captures.enough, scan=scan, limits=LIMITS))


def index_archives(
    archives: Iterable[ArchiveInput],
    *,
    report: Callable[[str, Damage], None],
    options: CaptureOptions = CaptureOptions(),  # noqa: B008
    scan: ScanOptions = ScanOptions(),  # noqa: B008
    memory: int = MEMORY,
    folder: Path | None = None,
) -> Iterator[Batch]:
    """Yield the lines of all files in byte order. `report` gets each damage, with the name of the file.

    More lines than fit into `memory` bytes are sorted in `folder`.
    """

    def lines() -> Iterator[bytes]:
        for archive in archives:
            with archive.open() as source:
                for item in index_file(source, filename=archive.filename, options=options, scan=scan):
                    if isinstance(item, Damage):
                        report(archive.filename, item)
                    else:
                        yield item

    return sort_lines(in_batches(lines()), memory=memory, folder=folder)
