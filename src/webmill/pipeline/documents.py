"""Read documents back: `Document`s from Parquet and JSON lines (plain, .gz, .zst), in a folder or a bucket.

    for document in documents("news/", columns=("url", "title"), where=lambda one: one.language == "eng"):
        …

One file is read at a time, a few rows of it in memory. A row that cannot be read is reported (`BadInput`, bad_row) and
skipped; a damaged file ends where it cannot be read on (`BadInput`, bad_documents).

A file whose rows have an `outcome` is webmill's own. Any other needs `url` and `text`: what else it has under the names
of `Document`'s columns is taken, the rest gets defaults, and a place or digest that is none is left out. Files that a
webmill made before there was an `outcome` are known by columns that only those had, and refused: `Misconfigured`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias

import msgspec
import zstandard

from webmill.collection import PublishFolders
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.forgotten import NOTHING_FORGOTTEN, Forgotten, forgotten_at
from webmill.formats.compression.decompressors import ERRORS, Decompressor, GzipDecompressor
from webmill.formats.timestamps import from_datetime
from webmill.infra.address import scheme_of
from webmill.infra.files import as_webmill_error, os_errors
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.base import RawStream, Storage, buffer_stream, chunks_of
from webmill.infra.storage.local import LocalStorage
from webmill.model import CAPTURE_COLUMNS, Document, capture_columns
from webmill.pipeline.extract.lost_parts import refuse_lost_parts
from webmill.pipeline.removed_files import refuse_lost_removals

ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")
MAX_LINE = 64 << 20  # bytes of one line
SLICE_BYTES = 4096  # bytes of a compressed file; a block of 4 may become 128 KiB
BATCH_ROWS = 64  # of a Parquet file in memory at once
OWN_COLUMN = "outcome"  # the column by which rows of webmill's are known
REQUIRED_COLUMNS = ("id", "url")  # columns that are always read
OUTDATED_FORMATS = (  # columns that only files of an earlier webmill have, and how to have others
    ({"surt", "timestamp", "extraction"}, "run the same `webmill cc run` into another --output"),
    ({"language_reliable", "warc_filename"}, "run `webmill extract DIR --from-scratch`"),
)
DAMAGE: tuple[type[Exception], ...] = (EOFError, *ERRORS)

Row: TypeAlias = dict[str, Any]
ReadRow: TypeAlias = Callable[[Row], Document]
_line = msgspec.json.Decoder(Document)
_any_line = msgspec.json.Decoder(dict[str, Any])


def documents(
    place: str | Path,
    *,
    columns: Collection[str] | None = None,
    where: Callable[[Document], bool] | None = None,
    rejected: Callable[[BadInput], object] | None = None,
) -> Iterator[Document]:
    """Yield the documents of a collection, of a folder or of a bucket, file by file.

    Of Parquet only `columns` are read; other fields keep their defaults. `where` filters what was read. `rejected` is
    called with each row or file that cannot be read; without it the first `BadInput` is raised.
    """
    if unknown := set(columns or ()) - set(Document.__struct_fields__):
        raise Misconfigured(f"documents have no column {', '.join(sorted(unknown))}")
    files = open_documents(str(place))
    _report_lost_parts(place, rejected)
    for key in files.files():
        for document in _keep_documents(files.read(key, columns=columns), rejected):
            if where is None or where(document):
                yield document


def _report_lost_parts(place: str | Path, rejected: Callable[[BadInput], object] | None) -> None:
    """Report a part of a collection's documents, or of its lists of removed pages, that has a receipt and is gone."""
    try:
        if scheme_of(str(place))[0] == "file":
            root = Path(scheme_of(str(place))[1]).resolve()
            refuse_lost_parts(root)
            refuse_lost_removals(root)
    except BadInput as error:
        if not rejected:
            raise
        rejected(error)


def _keep_documents(
    rows: Iterator[Document | BadInput], rejected: Callable[[BadInput], object] | None
) -> Iterator[Document]:
    try:
        for row in rows:
            if isinstance(row, Document):
                yield row
            elif rejected:
                rejected(row)
            else:
                raise row
    except BadInput as error:
        if not rejected:
            raise
        rejected(error)


def open_documents(place: str) -> DocumentFiles:
    """Open a folder of documents, a collection that has one, or a bucket. `NotFound`: there is no such folder."""
    scheme, path = scheme_of(place)
    if scheme != "file":
        return DocumentFiles(open_storage(place), folder=None)
    folder = Path(path).resolve()
    own = PublishFolders(folder).documents
    folder = own if own.is_dir() else folder
    if not folder.is_dir():
        raise NotFound(f"no folder {folder}: make documents with `webmill extract`, or say where they are with --from")
    root = folder.parent if folder == PublishFolders(folder.parent).documents else folder
    return DocumentFiles(LocalStorage(folder), folder=folder, forgotten=forgotten_at(root))


class PartStat(msgspec.Struct, frozen=True, array_like=True):
    """The stat of a file of documents. The change time cannot be set: no modification goes unseen."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        with os_errors(str(path)):
            status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class DocumentFiles:
    """The files of documents in a storage. `folder` is where it is on this machine: Parquet is then read in place.
    `forgotten`: rows of what was taken down are not there, for nobody who reads."""

    def __init__(self, storage: Storage, *, folder: Path | None, forgotten: Forgotten = NOTHING_FORGOTTEN) -> None:
        self.storage, self.folder, self.forgotten = storage, folder, forgotten

    def files(self) -> list[str]:
        return [stat.key for stat in self.storage.list() if is_document_file(stat.key)]

    def stats(self) -> dict[str, PartStat | None]:
        """Return the files, each with its stat where they are on this machine."""
        return {key: PartStat.of(self.folder / key) if self.folder else None for key in self.files()}

    def read_some(
        self, key: str, rows: set[int], *, columns: Collection[str] | None = None
    ) -> Iterator[tuple[int, Document | BadInput]]:
        """Yield the rows of these numbers, and read no further than the last of them."""
        last = max(rows, default=-1)
        for number, document in enumerate(self.read(key, columns=columns)):
            if number in rows:
                yield number, document
            if number >= last:
                return

    def read(self, key: str, *, columns: Collection[str] | None = None) -> Iterator[Document | BadInput]:
        """Yield every row in its order, or what is wrong with it. Of Parquet only `columns` are read, if they are told;
        what was not read has its default. `BadInput` when the file itself cannot be read on.
        """
        rows = self._parquet(key, columns) if key.endswith(".parquet") else self._lines(key)
        if not self.forgotten:
            yield from rows
            return
        yield from (row for row in rows if isinstance(row, BadInput) or not self.forgotten.covers(row.url))

    def _lines(self, key: str) -> Iterator[Document | BadInput]:
        with self.storage.open(key) as raw, open_decompressed(raw, key) as lines:
            decode: Callable[[bytes], Document] | None = None
            try:
                while line := lines.readline(MAX_LINE):
                    try:
                        decode = decode or _decoder_for(line, key)
                        yield decode(line)
                    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                        yield BadInput(str(error), reason="bad_row", source=key)
            except DAMAGE as error:
                raise BadInput(f"not whole: {error}", reason="bad_documents", source=key) from error

    def _parquet(self, key: str, columns: Collection[str] | None) -> Iterator[Document | BadInput]:
        arrow, parquet = import_pyarrow()
        with self._on_disk(key) as file:
            try:
                table = parquet.ParquetFile(file, page_checksum_verification=True)
                there = set(table.schema_arrow.names)
                refuse_outdated(there, key)
                read_row = _own_row if OWN_COLUMN in there else _foreign_row
                for batch in table.iter_batches(batch_size=BATCH_ROWS, columns=_columns_to_read(there, columns)):
                    for row in batch.to_pylist():
                        try:
                            yield read_row(row)
                        except msgspec.ValidationError as error:
                            yield BadInput(str(error), reason="bad_row", source=key)
            except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
                if isinstance(error, OSError) and error.errno is not None:  # the disk's; Arrow's have no number
                    raise as_webmill_error(error, key) from error
                raise BadInput(f"damaged Parquet: {error}", reason="bad_documents", source=key) from error

    @contextmanager
    def _on_disk(self, key: str) -> Iterator[Path | BinaryIO]:
        if self.folder:
            yield self.folder / key
            return
        with tempfile.TemporaryFile() as copy, self.storage.open(key) as stream:
            for chunk in chunks_of(stream):
                copy.write(chunk)
            copy.seek(0)
            yield copy


def is_document_file(key: str) -> bool:
    """Return whether a file holds documents, by its name; no part of its path may begin with `.` or `_`."""
    return key.endswith(ENDINGS) and not any(part.startswith((".", "_")) for part in key.split("/"))


def refuse_outdated(names: Collection[str], key: str) -> None:
    """Raise `Misconfigured` if the columns are those of an earlier webmill."""
    for only_theirs, repair in OUTDATED_FORMATS:
        if OWN_COLUMN not in names and only_theirs <= set(names):
            raise Misconfigured(f"{key} was made by an earlier webmill: {repair}")


def _columns_to_read(there: set[str], columns: Collection[str] | None) -> list[str]:
    """Return the columns to read. Without `text_chars` the text itself is read, to know its length."""
    wanted = set(Document.__struct_fields__ if columns is None else (*columns, *REQUIRED_COLUMNS))
    if "text_chars" in wanted and "text_chars" not in there:
        wanted.add("text")
    return [name for name in Document.__struct_fields__ if name in there and name in wanted]


# --- rows ---


def _decoder_for(line: bytes, key: str) -> Callable[[bytes], Document]:
    names = _any_line.decode(line)
    refuse_outdated(names, key)
    return _line.decode if OWN_COLUMN in names else _foreign_line


def _own_row(row: Row) -> Document:
    return msgspec.convert(row, Document)


def _foreign_line(line: bytes) -> Document:
    return _foreign_row(_any_line.decode(line))


def _foreign_row(row: Row) -> Document:
    known = {name: row[name] for name in Document.__struct_fields__ if row.get(name) is not None}
    for name in ("type", "mime", "digest"):
        if not isinstance(known.get(name, ""), str):
            del known[name]
    known = {name: value for name, value in known.items() if name not in CAPTURE_COLUMNS} | capture_columns(known)
    document = msgspec.convert({"url": "", **known, "id": str(known.get("id", ""))}, Document)
    date = document.date and _in_utc(document.date)
    return msgspec.structs.replace(document, id=document.id or derive_id(document), date=date)


def derive_id(document: Document) -> str:
    """Return an id for a row that has none: where its capture lies; else its time and address, as in a replay."""
    if document.warc_filename:
        return f"{document.warc_filename}#{document.warc_offset}"
    return f"{from_datetime(document.date) if document.date else ''}/{document.url}"


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# --- files ---


class _ZstdFrames:
    """Zstandard for files that our own commands wrote, in larger slices than a stranger's answer gets: faster, and a
    slice may become 128 MB at most.
    """

    def __init__(self) -> None:
        self.ended = True
        self.trailing = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            if self.ended:
                self._frame, self.ended = zstandard.ZstdDecompressor().decompressobj(), False
            piece = data[at : at + SLICE_BYTES]
            yield self._frame.decompress(piece)
            self.ended = self._frame.eof
            at += len(piece) - len(self._frame.unused_data)


class _DecompressedStream(RawStream):
    """A decompressed stream, read in bounded pieces. `EOFError` when it ends too early."""

    def __init__(self, packed: BinaryIO, decompressor: Decompressor) -> None:
        self._packed, self._decompressor = packed, decompressor
        self._pieces: Iterator[bytes] = iter(())
        self._rest = b""

    def _next(self, most: int) -> bytes:
        while not self._rest:
            self._rest = next(self._pieces, b"")
            if not self._rest:
                data = self._packed.read(1 << 16)
                if not data:
                    if not self._decompressor.ended:
                        raise EOFError("it ends too early")
                    return b""
                self._pieces = filter(None, self._decompressor.feed(data))
        taken, self._rest = self._rest[:most], self._rest[most:]
        return taken


def open_decompressed(raw: BinaryIO, key: str) -> BinaryIO:
    if key.endswith(".zst"):
        return buffer_stream(_DecompressedStream(raw, _ZstdFrames()))
    return buffer_stream(_DecompressedStream(raw, GzipDecompressor())) if key.endswith(".gz") else raw


def import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as missing:
        raise Misconfigured("Parquet needs an extra: pip install 'webmill[parquet]'") from missing
    return arrow.lib, parquet
