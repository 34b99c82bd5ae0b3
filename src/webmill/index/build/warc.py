"""CDXJ lines of WARC and ARC files: plain, compressed per record or as a whole, from any source of bytes.

Bodies are inflated only where they must be (`webmill.formats.warc.scan`). Damaged records come out as `Damage` among
the lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from webmill.formats.cdx.cdxj import parse
from webmill.formats.cdx.columns import HEADERS, format_columns
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.scan import ScanOptions, scan_records
from webmill.formats.window import ByteSource
from webmill.index.build.captures import CaptureIndexer, CaptureOptions
from webmill.index.cdxj.sort import MEMORY, sort_lines
from webmill.index.lines import Batch, in_batches, open_input
from webmill.model import Damage

PIECE = 64 << 10
LIMITS = WarcLimits(head=256 << 10)  # readers of pages may refuse such headers; an index lists them


class OpenArchive(Protocol):
    """Opens a file, or a range of it: `functools.partial(storage.open, key)`."""

    def __call__(self, *, start: int = 0, length: int | None = None) -> BinaryIO: ...


class ArchiveInput(msgspec.Struct, frozen=True):
    """A file to index: its name in the index, and how to open it."""

    filename: str
    open: OpenArchive


class LineForm(msgspec.Struct, frozen=True, kw_only=True):
    """How lines are written: in `columns` (9, 10 or 11) with a header, or as CDXJ; with digests of the whole records as
    they are stored, as cdxj-indexer and WACZ have them."""

    columns: int | None = None
    record_digests: bool = False


def local_archive(path: Path, *, filename: str | None = None) -> ArchiveInput:
    """Return the input for a local file, named by its file name unless given.

    It is read, not mapped: truncating a mapped file kills the process.
    """

    def open_range(*, start: int = 0, length: int | None = None) -> BinaryIO:  # noqa: ARG001  # read as far as needed
        file = open_input(path)
        file.seek(start)
        return file

    return ArchiveInput(path.name if filename is None else filename, open_range)


def index_file(
    source: ByteSource,
    *,
    filename: str,
    options: CaptureOptions = CaptureOptions(),  # noqa: B008  # frozen
    scan: ScanOptions = ScanOptions(),  # noqa: B008
    size: int | None = None,
) -> Iterator[bytes | Damage]:
    """Yield a line per capture, in the order of the file, and the damage found on the way."""
    captures = CaptureIndexer(filename=filename, options=options)
    return captures.lines(scan_records(source, enough=captures.enough, scan=scan, limits=LIMITS, size=size))


def index_archives(
    archives: Iterable[ArchiveInput],
    *,
    report: Callable[[str, Damage], None],
    options: CaptureOptions = CaptureOptions(),  # noqa: B008
    scan: ScanOptions = ScanOptions(),  # noqa: B008
    form: LineForm = LineForm(),  # noqa: B008
    memory: int = MEMORY,
    folder: Path | None = None,
) -> Iterator[Batch]:
    """Yield the lines of all files in byte order. `report` gets each damage, with the name of the file.

    More lines than fit into `memory` bytes are sorted in `folder`.
    """

    def lines() -> Iterator[bytes]:
        if form.columns:
            yield HEADERS[form.columns].encode() + b"\n"  # begins with a space: it sorts before all lines
        for archive in archives:
            with archive.open() as source:
                for item in index_file(source, filename=archive.filename, options=options, scan=scan):
                    if isinstance(item, Damage):
                        report(archive.filename, item)
                    else:
                        yield write_form(item, form, archive)

    return sort_lines(in_batches(lines()), memory=memory, folder=folder)


def write_form(line: bytes, form: LineForm, archive: ArchiveInput) -> bytes:
    """Return a line of CDXJ in the form that is wanted."""
    if not form.columns and not form.record_digests:
        return line
    capture = parse(line)
    if form.columns:
        values = {name: capture.text(name) for name in capture.fields}
        return format_columns({"urlkey": capture.urlkey, "timestamp": capture.timestamp, **values}, form.columns)
    digest = digest_record(archive, offset=int(capture.text("offset")), length=int(capture.text("length")))
    return line.removesuffix(b"}\n") + b', "recordDigest": "%b"}\n' % digest.encode()


def digest_record(archive: ArchiveInput, *, offset: int, length: int) -> str:
    """Return the SHA-256 of a record as it is stored, compressed or not."""
    digest = hashlib.sha256()
    with archive.open(start=offset, length=length) as source:
        while length and (piece := source.read(min(length, PIECE))):
            digest.update(piece)
            length -= len(piece)
    return f"sha256:{digest.hexdigest()}"
