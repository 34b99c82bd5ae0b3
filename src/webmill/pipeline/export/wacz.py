"""Writes a WACZ: all archives of a collection as they are, or a new one of the records that a query finds.

Memory is bounded: archives and records are copied in pieces, lines of the index are sorted outside of memory; of the
captures of one URL the digests are held, and the places of originals that were fetched from other URLs.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from itertools import chain, groupby, islice
from typing import IO, BinaryIO

import msgspec

from webmill import __version__
from webmill.errors import BadInput, NotFound
from webmill.formats import wacz
from webmill.formats.cdx.cdxj import CdxjLine, capture_of, format_line, key_of, parse
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import LINES_PER_BLOCK, encode_block
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.writer import compress_record
from webmill.index.cdxj.sort import sort_lines
from webmill.index.lines import Batch
from webmill.index.lookup.indexes import EVERYTHING, CaptureIndex
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.infra.storage.base import Readable, chunks_of
from webmill.model import CaptureRef
from webmill.pipeline.capture_reader import open_capture
from webmill.pipeline.export.records import find_attached, read_as_gzip, record_id
from webmill.pipeline.export.wacz_pages import WaczPageList, listing_pages
from webmill.pipeline.export.wacz_writer import WaczWriter
from webmill.pipeline.progress import ProgressBar, ProgressReporter

log = logging.getLogger(__name__)

ReadArchive = Callable[[str], Iterable[bytes]]  # by its key

ARCHIVE = "data.warc.gz"
BATCH = 1000


class ExportReport(msgspec.Struct):
    """`missing`: revisits whose original is not in the collection. `unreadable`: captures that cannot be taken out of
    their archive. `main_page`: the URL that players open first.
    """

    captures: int = 0
    pages: int = 0
    archives: int = 0
    missing: int = 0
    unreadable: int = 0
    main_page: str = ""


class WaczExport:
    """`files` has the archives under the names that the index says. `NotFound` when there is nothing to pack.

    `main_url` is the page that players open first; without it, the one with the shortest URL. `texts`: read the titles
    and texts of pages, by which players list and search them; without them, the main page has `main_title`.
    """

    def __init__(
        self,
        out: BinaryIO,
        *,
        files: Readable,
        title: str,
        created: datetime,
        progress: ProgressReporter,
        main_url: str | None = None,
        main_title: str | None = None,
        texts: bool = True,
        read_archive: ReadArchive | None = None,
    ) -> None:
        """`read_archive` yields the bytes of an archive, where they are not those of its file."""
        self._package = WaczWriter(out, created=created)
        self._files, self._title, self._created, self._progress = files, title, created, progress
        self._main_url, self._main_title, self._texts = main_url, main_title, texts
        self._read_archive = read_archive
        self._fetched: set[tuple[str, int]] = set()  # places
        self.done = ExportReport()

    def everything(self, index: CaptureIndex, archives: Iterable[str]) -> ExportReport:
        """Pack every archive whole, with requests and metadata."""
        names = unique_names(archives)
        with self._package:
            for key, name in names.items():
                size = self._files.stat(key).size
                with self._progress(f"Packing {name}", total=size, unit="bytes") as bar:
                    self._package.add(wacz.ARCHIVES + name, self._chunks(key, bar), size=size)
                self.done.archives += 1
            with self._listing_pages() as pages:
                self._write_index(rename_files(index.lines(EVERYTHING), names, pages))
            self._finish(pages)
        return self.done

    def found(self, index: CaptureIndex, *queries: Query) -> ExportReport:
        """Pack the records that queries find, what belongs to them, and the originals of revisits."""
        with self._package:
            with (
                self._listing_pages() as pages,
                self._package.adding(wacz.ARCHIVES + ARCHIVE) as out,
                self._progress("Packing", unit="captures") as bar,
            ):
                out.write(warcinfo(self._created))
                packed = (self._packed(index, query, out, bar, pages) for query in queries)
                ordered = sort_lines(batch_lines(chain.from_iterable(packed)))
                first = next(ordered, [])  # takes all of them in: from here on the archive is whole
            self.done.archives = 1
            self._write_index(line for batch in chain([first], ordered) for line in batch)
            self._finish(pages)
        return self.done

    def _listing_pages(self) -> AbstractContextManager[WaczPageList]:
        return listing_pages(
            self._package, self._files, main_url=self._main_url, main_title=self._main_title, texts=self._texts
        )

    def _finish(self, pages: WaczPageList) -> None:
        about = pages.describe(self._title)
        self._package.finish(about)
        self.done.captures, self.done.pages = pages.captures, pages.pages
        self.done.main_page = about.main.url if about.main else ""

    def _chunks(self, key: str, bar: ProgressBar) -> Iterator[bytes]:
        if self._read_archive:
            for chunk in self._read_archive(key):
                yield chunk
                bar.advance(len(chunk))
            return
        with self._files.open(key) as source:
            for chunk in chunks_of(source):
                yield chunk
                bar.advance(len(chunk))

    def _packed(
        self, index: CaptureIndex, query: Query, out: IO[bytes], bar: ProgressBar, pages: WaczPageList
    ) -> Iterator[bytes]:
        """Write each record to the archive and its page to the list, and yield its index line."""
        for key, lines in groupby(run_query(index, query), key_of):
            there: set[str] = set()
            revisits: dict[str, CdxjLine] = {}  # by digest: one is enough
            for line in map(parse, lines):
                if line.is_revisit:
                    revisits[line.text("digest")] = line
                else:
                    there.add(line.text("digest"))
                yield from self._copied(line, out, pages)
                bar.advance()
            wanted = {digest: line for digest, line in revisits.items() if digest not in there}
            for line in chain(self._originals(index, key, wanted), self._originals_elsewhere(index, query, wanted)):
                yield from self._copied(line, out, pages)
                bar.advance()

    def _copied(self, line: CdxjLine, out: IO[bytes], pages: WaczPageList) -> Iterator[bytes]:
        """Copy a record and what belongs to it; yield its index line unless that failed."""
        capture = capture_of(line)
        start = out.tell()
        with self._files.open(capture.filename, start=capture.offset, length=capture.length):
            pass  # an index that names a place that is none is of no use
        try:
            id_ = record_id(self._files, capture)
            write_or_undo(out, read_as_gzip(self._files, capture))
            new = {"offset": str(start), "length": str(out.tell() - start), "filename": ARCHIVE}
        except BadInput as error:
            log.warning("a capture is left out: %s", error)
            self.done.unreadable += 1
            return
        try:
            for other in find_attached(self._files, capture, id_=id_):
                write_or_undo(out, read_as_gzip(self._files, other))
        except BadInput as error:
            log.warning("what belongs to a capture is left out: %s", error)
        pages.add(line, capture)
        yield format_line(msgspec.structs.replace(line, fields=line.fields | new))

    def _originals(self, index: CaptureIndex, key: bytes, wanted: dict[str, CdxjLine]) -> Iterator[CdxjLine]:
        """Yield the originals of one URL's revisits that the query does not find; remove them from `wanted`."""
        if not wanted:
            return
        for line in map(parse, index.lines(KeyRange(key + b" ", key + b"!"))):
            if line.text("digest") in wanted and not line.is_revisit:
                del wanted[line.text("digest")]
                yield line
                if not wanted:
                    return

    def _originals_elsewhere(
        self, index: CaptureIndex, query: Query, wanted: Mapping[str, CdxjLine]
    ) -> Iterator[CdxjLine]:
        """Yield originals at other URLs: a revisit may repeat the bytes of another one."""
        self.done.missing += len(wanted)
        for revisit in wanted.values():
            try:
                opened = open_capture(index, self._files, capture_of(revisit))
            except NotFound:
                continue
            opened.close()
            self.done.missing -= 1
            yield from self._lines_at(opened.original, index, query)

    def _lines_at(self, original: CaptureRef, index: CaptureIndex, query: Query) -> Iterator[CdxjLine]:
        """Yield the line of an original that is neither packed yet nor found by the query."""
        exactly = Query(range=url_range(original.url, "exact"), start=original.timestamp, end=original.timestamp)
        for raw in run_query(index, exactly):
            place = capture_of(line := parse(raw)).place
            if place == original.place and place not in self._fetched and not is_selected(raw, index, query):
                self._fetched.add(place)
                yield line

    def _write_index(self, lines: Iterable[bytes]) -> None:
        with (
            self._package.adding(wacz.SUMMARY, compressed=True) as summary,
            self._package.adding(wacz.INDEX) as out,
            self._progress("Indexing", unit="captures") as bar,
        ):
            summary.write(wacz.SUMMARY_HEAD)
            rest = iter(lines)
            while block := list(islice(rest, LINES_PER_BLOCK)):
                data = encode_block(block)
                summary.write(wacz.encode_summary_line(block[0], offset=out.tell(), block=data))
                out.write(data)
                bar.advance(len(block))
            if not out.tell():
                raise NotFound("no captures match this query, so no file was written")


def write_or_undo(out: IO[bytes], pieces: Iterable[bytes]) -> None:
    """Write all pieces, or none if one cannot be read."""
    start = out.tell()
    try:
        out.writelines(pieces)
    except BadInput:
        out.seek(start)
        out.truncate()
        raise


def unique_names(keys: Iterable[str]) -> dict[str, str]:
    """Return names for one flat folder: files of the same name get their folders into their names."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key in sorted(keys):
        parts = key.split("/")
        longer = ("-".join(parts[first:]) for first in range(len(parts) - 1, -1, -1))
        names[key] = next((name for name in longer if name not in taken), f"{len(names)}-{parts[-1]}")
        taken.add(names[key])
    return names


def rename_files(lines: Iterable[bytes], names: Mapping[str, str], pages: WaczPageList) -> Iterator[bytes]:
    """Yield the lines with the names that archives have in the package; add them to the page list."""
    for line in map(parse, lines):
        file = line.text("filename")
        if file not in names:
            raise BadInput(f"the index speaks of {file}, which is not there: `webmill index`", reason="bad_index")
        pages.add(line, capture_of(line))
        yield format_line(msgspec.structs.replace(line, fields=line.fields | {"filename": names[file]}))


def is_selected(line: bytes, index: CaptureIndex, query: Query) -> bool:
    """Return whether the query finds this line, so that it is packed anyway."""
    only = KeyRange(line, line + b"\0")
    return line in query.range and any(run_query(index, msgspec.structs.replace(query, range=only)))


def batch_lines(lines: Iterable[bytes]) -> Iterator[Batch]:
    rest = iter(lines)
    while batch := list(islice(rest, BATCH)):
        yield batch


def warcinfo(created: datetime) -> bytes:
    content = records.encode_warc_fields([("software", f"webmill/{__version__}"), ("format", "WARC File Format 1.0")])
    headers = records.warcinfo_headers(
        records.describe_block(content), record_id=f"<urn:uuid:{uuid.uuid4()}>", date=created, filename=ARCHIVE
    )
    return compress_record(headers, content)
