"""The documents that a corpus is made from, as columns: read from the files of a collection, a folder or a bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from webmill.curate.arrow import document_types, import_arrow
from webmill.curate.attributes import DocumentPart
from webmill.errors import BadInput, NotFound
from webmill.infra import atomic
from webmill.infra.files import as_webmill_error
from webmill.infra.storage.base import chunks_of
from webmill.model import Document
from webmill.pipeline.documents import OWN_COLUMN, REQUIRED_COLUMNS, DocumentFiles, PartStat, open_documents

ROWS = 512  # of a file in memory at once
SETTLED_NS = 2_000_000_000  # after a change, a file of another one has another stat, whatever the clock's tick
# Of columns that an older file of ours does not have.
DEFAULTS = dict(zip(Document.__struct_fields__[2:], Document.__struct_defaults__, strict=True))

DocumentColumns = dict[str, list[Any]]


class KnownDigest(msgspec.Struct, frozen=True, array_like=True):
    """The hash of a file's bytes, and the stat that it had before it was read."""

    stat: PartStat
    digest: str


class KnownDigests:
    """The hashes of files of documents on this machine: one that has not changed since is not read again. They can be
    lost: then every file is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, KnownDigest] = {}
        self._now: dict[str, KnownDigest] = {}
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, KnownDigest])

    def list_parts(self, files: DocumentFiles) -> list[DocumentPart]:
        """Return the files of documents, each with the hash of its bytes."""
        return [DocumentPart(key, self._digest(files, key, stat)) for key, stat in files.stats().items()]

    def _digest(self, files: DocumentFiles, key: str, stat: PartStat | None) -> str:
        if not stat:
            return digest_of_file(files, key)
        place = str(files.folder and files.folder / key) + files.forgotten.digest  # whose rows nobody gets
        known = self._known.get(place)
        if not known or known.stat != stat:
            known = KnownDigest(stat, digest_of_file(files, key))
        self._now[place] = known
        return known.digest

    def save(self, *, began_ns: int) -> None:
        """Remember the hashes of the files that were listed, but for those that had been written so shortly before
        that (`began_ns`) that they may have been written again within the same tick of the clock."""
        settled = {place: one for place, one in self._now.items() if one.stat.ctime_ns < began_ns - SETTLED_NS}
        if settled != self._known:
            atomic.make_folder(self.path.parent)
            atomic.write_bytes(self.path, msgspec.json.encode(settled, order="sorted"))


def digest_of_file(files: DocumentFiles, key: str) -> str:
    """Return a hash of the bytes of a file, and of the rows that nobody gets, since they were taken down."""
    digest = hashlib.sha256()
    for url in _forgotten_urls(files, key) if files.forgotten else ():
        digest.update(f"{url}\n".encode(errors="replace"))
    with files.storage.open(key) as stream:
        for chunk in chunks_of(stream):
            digest.update(chunk)
    return digest.hexdigest()


def require_documents(place: str) -> DocumentFiles:
    """Open the documents at a place. `NotFound`: there are none."""
    files = open_documents(place)
    if not files.files():
        raise NotFound(f"no documents in {place}: make some with `webmill extract`, or say where they are with --from")
    return files


def read_columns(
    files: DocumentFiles, key: str, columns: Sequence[str], *, rows: int = ROWS
) -> Iterator[tuple[DocumentColumns, list[BadInput]]]:
    """Yield some rows of a file at a time, as lists of values; with them what could not be read."""
    fast = _read_arrow(files, key, columns, rows) if key.endswith(".parquet") else None
    yield from fast if fast is not None else _read_documents(files, key, columns, rows)


def _read_documents(
    files: DocumentFiles, key: str, columns: Sequence[str], rows: int
) -> Iterator[tuple[DocumentColumns, list[BadInput]]]:
    found = files.read(key, columns=[name for name in columns if name in Document.__struct_fields__])
    while some := list(islice(found, rows)):
        good = [one for one in some if isinstance(one, Document)]
        values = {name: [getattr(one, name, None) for one in good] for name in columns}
        yield values, [one for one in some if isinstance(one, BadInput)]


def _read_arrow(
    files: DocumentFiles, key: str, columns: Sequence[str], rows: int
) -> Iterator[tuple[DocumentColumns, list[BadInput]]] | None:
    """Return the rows of a file of ours, without a struct for each; None: it is somebody else's."""
    arrow, parquet = import_arrow()
    if not files.folder:
        return None
    try:
        schema = parquet.read_schema(files.folder / key)
    except (arrow.ArrowException, OSError):
        return None  # the other way says what is wrong
    types = document_types()
    there = set(schema.names)
    known = there & types.keys()
    if not {OWN_COLUMN, *REQUIRED_COLUMNS} <= known or any(schema.field(name).type != types[name] for name in known):
        return None
    if not files.forgotten:
        return _arrow_rows(files.folder / key, key, columns, there, rows)
    return _without_forgotten(_arrow_rows(files.folder / key, key, (*columns, "url"), there, rows), files)


def _arrow_rows(
    path: Any, key: str, columns: Sequence[str], there: set[str], rows: int
) -> Iterator[tuple[DocumentColumns, list[BadInput]]]:
    arrow, parquet = import_arrow()
    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        for batch in file.iter_batches(batch_size=rows, columns=[name for name in columns if name in there]):
            batch, flaws = _with_names(batch, key)
            values = {name: values.to_pylist() for name, values in zip(batch.schema.names, batch.columns, strict=True)}
            yield {name: values.get(name) or [DEFAULTS.get(name)] * batch.num_rows for name in columns}, flaws
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's; Arrow's have no number
            raise as_webmill_error(error, key) from error
        raise BadInput(f"damaged Parquet: {error}", reason="bad_documents", source=key) from error


def _with_names(batch: Any, key: str) -> tuple[Any, list[BadInput]]:
    """Return the rows that have an id and a URL, and what is wrong with the others."""
    there = batch.num_rows
    for name in REQUIRED_COLUMNS:
        if name in batch.schema.names and batch.column(name).null_count:
            batch = batch.filter(batch.column(name).is_valid())
    flaw = BadInput("a row without id or url", reason="bad_row", source=key)
    return batch, [flaw] * (there - batch.num_rows)


def _without_forgotten(
    batches: Iterator[tuple[DocumentColumns, list[BadInput]]], files: DocumentFiles
) -> Iterator[tuple[DocumentColumns, list[BadInput]]]:
    for columns, refused in batches:
        kept = [number for number, url in enumerate(columns["url"]) if not files.forgotten.covers(url or "")]
        yield {name: [values[number] for number in kept] for name, values in columns.items()}, refused


def _forgotten_urls(files: DocumentFiles, key: str) -> Iterator[str]:
    everything = DocumentFiles(files.storage, folder=files.folder)
    try:
        for columns, _ in read_columns(everything, key, ("id", "url")):
            yield from (url for url in columns["url"] if files.forgotten.covers(url or ""))
    except BadInput:  # whoever reads the rows says so
        return
