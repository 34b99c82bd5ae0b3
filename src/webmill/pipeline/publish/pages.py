"""Documents on a disk or in a bucket, as `webmill cc` and `webmill dataset` write them: Parquet or JSON lines.

Both shapes have `url`, `title`, `text` and `language`. What tells the capture is `surt` and `timestamp` in the one,
`date` in the other. One file is read at a time, some rows of it in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from webmill.errors import BadInput, Misconfigured
from webmill.formats.decompressors import ERRORS, Decompressor, Gzip
from webmill.formats.surt import surt
from webmill.formats.timestamps import from_datetime, is_timestamp
from webmill.infra.atomic import as_webmill_error
from webmill.infra.storage.base import RawStream, Storage, buffered, chunks_of

ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst")
NOT_OURS = frozenset({"spool", "receipts", "errors", ".webmill"})  # folders of those who write documents
LONGEST = 64 << 20  # bytes of one line
LONGEST_NAME = 1024  # characters of a WARC file's
SLICE = 4096  # bytes of a compressed file; a block of 4 may become 128 KiB
ROWS = 64  # of a Parquet file in memory at once


class Page(msgspec.Struct, frozen=True, kw_only=True):
    url: str | None = None
    surt: str | None = None
    timestamp: str | None = None
    date: datetime | None = None
    title: str | None = None
    text: str | None = None
    text_length: int | None = None
    language: str | None = None
    status: int | None = None
    # Where its WARC record is, as `webmill cc` tells it, and `webmill dataset`. Whatever else stands there is no reason
    # to refuse a page.
    filename: Any = None
    offset: Any = None
    length: Any = None
    warc_filename: Any = None
    warc_offset: Any = None
    warc_length: Any = None
    # What kind of capture it is, as the one and the other tell it.
    type: Any = None
    mime: Any = None
    digest: Any = None

    @property
    def urlkey(self) -> str:
        return self.surt or surt(self.url or "")

    @property
    def moment(self) -> str:
        """14 digits; empty when nobody knows."""
        if self.timestamp and is_timestamp(self.timestamp.encode(errors="replace")):
            return self.timestamp
        return from_datetime(self.date) if self.date else ""

    @property
    def place(self) -> tuple[str, int, int] | None:
        """File, offset and length of its WARC record."""
        for file, offset, length in (
            (self.filename, self.offset, self.length),
            (self.warc_filename, self.warc_offset, self.warc_length),
        ):
            if isinstance(file, str) and 0 < len(file) <= LONGEST_NAME and _is_count(offset) and _is_count(length):
                return file, offset, length
        return None

    @property
    def content_digest(self) -> str:
        """Of the payload: what has the same has the same text. Empty when nobody knows."""
        return self.digest.removeprefix("sha1:") if isinstance(self.digest, str) else ""

    @property
    def repeats_another(self) -> bool:
        """A revisit record: its text is that of a row with the same digest."""
        is_revisit = self.type == "revisit" or self.mime == "warc/revisit"
        is_good = self.status is None or 200 <= self.status < 300 or self.status == 304
        return is_revisit and is_good and not (self.text or self.text_length) and bool(self.content_digest)

    def under(self, head: Page) -> Page:
        """The content of this one as that of another capture."""
        return msgspec.structs.replace(
            head, title=self.title, text=self.text, text_length=self.text_length, language=self.language
        )

    def reason_against(self) -> str | None:
        """Why there is nothing to publish of it."""
        if not self.url:
            return "no_url"
        if self.repeats_another:
            return None
        if self.status is not None and not 200 <= self.status < 300:
            return "not_ok"
        return None if self.text or self.text_length else "no_text"


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


DAMAGE: tuple[type[Exception], ...] = (EOFError, *ERRORS)
CONTENT = ("title", "text", "language")  # the rest is enough to choose by
_line = msgspec.json.Decoder(Page)


class Documents:
    """`folder` is where the storage is, when it is on this machine: Parquet is then read in place."""

    def __init__(self, storage: Storage, *, folder: Path | None) -> None:
        self._storage, self._folder = storage, folder

    def files(self) -> list[str]:
        return [stat.key for stat in self._storage.list() if is_documents(stat.key)]

    def pages(self, key: str, *, heads: bool = False) -> Iterator[Page | BadInput]:
        """Every row in its order, or what is wrong with it. `heads`: the text may be left out where its length is told.

        `BadInput` when the file itself cannot be read on.
        """
        if key.endswith(".parquet"):
            yield from self._parquet(key, heads=heads)
        else:
            yield from self._lines(key)

    def _lines(self, key: str) -> Iterator[Page | BadInput]:
        with self._storage.open(key) as raw, unpacked(raw, key) as lines:
            try:
                while line := lines.readline(LONGEST):
                    yield read_line(line, key)
            except DAMAGE as error:
                raise BadInput(f"not whole: {error}", reason="bad_documents", source=key) from error

    def _parquet(self, key: str, *, heads: bool) -> Iterator[Page | BadInput]:
        arrow, parquet = pyarrow()
        with self._on_disk(key) as file:
            try:
                table = parquet.ParquetFile(file)
                names = [name for name in Page.__struct_fields__ if name in table.schema_arrow.names]
                if heads:
                    text = None if "text_length" in names else "text"
                    names = [name for name in names if name == text or name not in CONTENT]
                for batch in table.iter_batches(batch_size=ROWS, columns=names):
                    for row in batch.to_pylist():
                        yield read_row(row, key)
            except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
                if isinstance(error, OSError) and error.errno is not None:  # the disk's; Arrow's have no number
                    raise as_webmill_error(error, key) from error
                raise BadInput(f"damaged Parquet: {error}", reason="bad_documents", source=key) from error

    @contextmanager
    def _on_disk(self, key: str) -> Iterator[Path | BinaryIO]:
        if self._folder:
            yield self._folder / key
            return
        with tempfile.TemporaryFile() as copy, self._storage.open(key) as stream:
            for chunk in chunks_of(stream):
                copy.write(chunk)
            copy.seek(0)
            yield copy


def is_documents(key: str) -> bool:
    *folders, _ = key.split("/")
    return key.endswith(ENDINGS) and not NOT_OURS & set(folders)


class Frames:
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
            piece = data[at : at + SLICE]
            yield self._frame.decompress(piece)
            self.ended = self._frame.eof
            at += len(piece) - len(self._frame.unused_data)


class Unpacked(RawStream):
    """What a compressed stream holds, in bounded pieces. `EOFError` when it ends too early."""

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


def unpacked(raw: BinaryIO, key: str) -> BinaryIO:
    if key.endswith(".zst"):
        return buffered(Unpacked(raw, Frames()))
    return buffered(Unpacked(raw, Gzip())) if key.endswith(".gz") else raw


def read_line(line: bytes, key: str) -> Page | BadInput:
    try:
        return _line.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return BadInput(str(error), reason="bad_row", source=key)


def read_row(row: dict[str, Any], key: str) -> Page | BadInput:
    try:
        return msgspec.convert(row, Page)
    except msgspec.ValidationError as error:
        return BadInput(str(error), reason="bad_row", source=key)


def pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as missing:
        raise Misconfigured("Parquet needs an extra: pip install 'webmill[parquet]'") from missing
    return arrow.lib, parquet
