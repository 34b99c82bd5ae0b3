"""One task of a dataset, in a worker: the pages of one line of the manifest become parts of the output.

    files ─▶ pages ─▶ documents ─▶ part ─▶ sink ─▶ receipt        and again, from the receipt on

Nothing but the receipts and the files decides what is done: a task may be started anywhere, at any time, by two workers
at once, and its output is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple

import msgspec

from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import ErrorDocument, Page
from webmill.errors import BadInput
from webmill.extract import custom
from webmill.extract.document import Document, make_document, make_readable
from webmill.extract.error_record import ErrorRecord
from webmill.extract.kinds import LeftOut
from webmill.formats.typed_records import FileType
from webmill.infra.queue.base import Queue
from webmill.infra.sinks import json_lines, parquet
from webmill.infra.sinks.base import Row, Sink
from webmill.infra.sinks.files import FileSink
from webmill.infra.sinks.messages import QueueSink
from webmill.infra.storage.base import Readable, Storage
from webmill.pipeline.dataset.config import Dataset, Errors, Write, is_address, is_queue, is_stream
from webmill.pipeline.dataset.errors import document_error, file_error, shortened
from webmill.pipeline.dataset.manifest import Files
from webmill.pipeline.dataset.readers import opened_readers
from webmill.pipeline.dataset.receipts import Range, Receipt, Receipts, Source
from webmill.pipeline.dataset.sources import Replay, opened_files
from webmill.pipeline.dataset.stall import Stall

MANY, MUCH = 1000, 1 << 20  # errors, bytes of JSON
INDEX_RECORD = custom.Function(module="webmill.compat.index_record", name="make_index_record")


class Doors(msgspec.Struct, frozen=True):
    """How places become live parts, in whichever process: functions that can be pickled."""

    storage: Callable[[str], Storage]
    readable: Callable[[str], Readable]
    locate: Callable[[str], tuple[Readable, str]]  # of one file by its full address
    queue: Callable[[str, str], Queue]  # address, name
    stream: Callable[[str, Callable[[object], str]], Sink]  # address, what gives the id of a row's value


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker needs to know. Relative places are resolved. `killable`: the process is the worker's own."""

    task: str
    files: Files
    dataset: Dataset
    receipts: str
    function: custom.Function | None
    doors: Doors
    killable: bool


class Totals(msgspec.Struct, kw_only=True):
    """What a task has made so far."""

    parts: int = 0
    pages: int = 0
    documents: int = 0
    skipped: int = 0
    left_out: dict[str, int] = {}
    errors: int = 0
    reasons: dict[str, int] = {}
    seconds: float = 0.0
    resume: dict[FileType, int] = {}
    sources: dict[FileType, int] = {}  # sizes
    finished: bool = False


def add_counts(to: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        to[name] = to.get(name, 0) + count


class Sinks(NamedTuple):
    output: Sink
    errors: Sink


def run_task(job: Job) -> Totals:
    with ExitStack() as stack:
        stall = stack.enter_context(Stall(job.dataset.compute, active=job.killable))
        make, kind = maker(job, stack)
        sinks = Sinks(
            stack.enter_context(closing(open_sink(job.dataset.write, kind, job))),
            stack.enter_context(closing(open_sink(job.dataset.errors, ErrorRecord, job))),
        )
        receipts = open_receipts(job)
        done = receipts.read_and_clear()
        if done and done[-1].last:
            return totals_of(done)
        began = time.monotonic()
        for part in make_parts(job, make, done, sinks, stall):
            name = f"{job.task}-{len(done):05d}"  # of its errors another: both may go to one place
            receipt = Receipt(
                number=len(done),
                resume=part.resume,
                used=part.still_used(),
                sources=part.sources,
                output=sinks.output.deliver(name, part.rows) if part.rows else None,
                errors=sinks.errors.deliver(f"{name}-errors", part.errors) if part.errors else None,
                pages=part.pages,
                skipped=part.skipped,
                left_out=part.left_out,
                reasons=part.reasons,
                last=part.last,
                seconds=round(time.monotonic() - began, 3),
            )
            receipts.add(receipt)
            done.append(receipt)
            began = time.monotonic()
            stall.moved()
        return totals_of(done)


def totals_of(done: Iterable[Receipt]) -> Totals:
    totals = Totals()
    for receipt in done:
        totals.parts += 1
        totals.pages += receipt.pages
        totals.documents += receipt.output.rows if receipt.output else 0
        totals.skipped += receipt.skipped
        totals.errors += receipt.errors.rows if receipt.errors else 0
        add_counts(totals.left_out, receipt.left_out)
        add_counts(totals.reasons, receipt.reasons)
        totals.seconds = round(totals.seconds + receipt.seconds, 3)
        totals.resume = receipt.resume
        totals.sources = {file_type: source.size for file_type, source in receipt.sources.items()}
        totals.finished = receipt.last
    return totals


# --- pages to parts ---------------------------------------------------------------------------------------------------


class Part:
    """Pages in the making, until they are enough."""

    def __init__(
        self,
        job: Job,
        make: custom.MakeDocument,
        sources: dict[FileType, Source],
        used: Iterable[Range],
        sinks: Sinks,
    ) -> None:
        self._job, self._make, self._sinks = job, make, sinks
        self.sources = sources
        self._before = frozenset(used)
        self._used = set(used)
        self.rows: list[Row] = []
        self.errors: list[Row] = []
        self.reasons: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        self.resume: dict[FileType, int] = {}
        self.pages = self.skipped = self._bytes = 0
        self.last = False

    def is_full(self) -> bool:
        write = self._job.dataset.write
        return self.pages >= write.pages_per_part or self._bytes >= write.bytes_per_part

    def is_full_of_errors(self) -> bool:
        """Not after a few, however small parts are: reading on amid damage, less is known of what it was."""
        write = self._job.dataset.write
        return len(self.errors) >= max(write.pages_per_part, MANY) or self._bytes >= max(write.bytes_per_part, MUCH)

    def add(self, item: Page | ErrorDocument) -> None:
        self.resume = dict(item.resume)
        if isinstance(item, ErrorDocument):
            if not self._was_told(item):
                self._fail(file_error(item, files=self._job.files))
            self._used.update(ranges_of(item))
            return
        self._used.update(ranges_of(item))
        self.pages += 1
        try:
            made = self._make(item)
            if isinstance(made, LeftOut):
                add_counts(self.left_out, {made.kind: 1})
                made = None
            row = None if made is None else Row(made, msgspec.json.encode(made))
            if row:
                self._sinks.output.check(row)
        except MemoryError:
            raise  # of the process, not of the page
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a page or a function that breaks the making costs that page only
            self._fail(document_error(item, error, files=self._job.files))
            return
        if row is None:
            self.skipped += 1
        else:
            self.rows.append(row)
            self._bytes += len(row.line)

    def still_used(self) -> tuple[Range, ...]:
        return tuple(sorted(one for one in self._used if one[2] > self.resume.get(one[0], 0)))

    def _was_told(self, item: ErrorDocument) -> bool:
        """In an earlier part, where these very records belonged to a page or were told."""
        return item.page is None and all((flaw.file_type, flaw.start, flaw.end) in self._before for flaw in item.flaws)

    def _fail(self, record: ErrorRecord) -> None:
        row = Row(record, msgspec.json.encode(record))
        try:
            self._sinks.errors.check(row)
        except BadInput:
            record = shortened(record)
            row = Row(record, msgspec.json.encode(record))
        self.errors.append(row)
        self.reasons[record.reason] = self.reasons.get(record.reason, 0) + 1
        self._bytes += len(row.line)


def ranges_of(item: Page | ErrorDocument) -> Iterator[Range]:
    """The records of WAT and WET files that an item is made of, or tells of. What is in WARC files comes in order."""
    page = item.page if isinstance(item, ErrorDocument) else item
    if page:
        wat = (page.wat.request, page.wat.capture, page.wat.metadata)
        for file_type, record in (*((FileType.WAT, record) for record in wat), (FileType.WET, page.wet)):
            if record:
                yield file_type, record.offset, record.offset + record.length
    if isinstance(item, ErrorDocument):
        for flaw in item.flaws:
            if flaw.file_type is not FileType.WARC:
                yield flaw.file_type, flaw.start, flaw.end


def make_parts(job: Job, make: custom.MakeDocument, done: list[Receipt], sinks: Sinks, stall: Stall) -> Iterator[Part]:
    """Every part begins its reading anew, as after a kill: so a kill changes nothing, whatever is in the files."""
    start = done[-1].resume if done else {}
    known = done[-1].sources if done else {}
    used = done[-1].used if done else ()
    with opened_files(job.files, partial(find, job), start=start, known=known) as (streams, sources):
        while True:
            part = Part(job, make, sources, used, sinks)
            part.resume = dict(start)
            fill(part, streams, start, stall, filename=job.files[FileType.WARC])
            yield part
            if part.last:
                return
            start, used = part.resume, part.still_used()
            for file_type, stream in streams.items():
                stream.rewind(start[file_type])


def fill(
    part: Part,
    streams: Mapping[FileType, Replay],
    start: Mapping[FileType, int],
    stall: Stall,
    *,
    filename: str,
) -> None:
    """Until it is full, or the files are at their end."""
    warc, wat, wet = (streams.get(file_type) for file_type in (FileType.WARC, FileType.WAT, FileType.WET))
    assert warc  # every line of a manifest has one
    for item in read_pages(warc, wat, wet, start=start, filename=filename):
        # Errors follow their page, and have its place to read on, which lies behind all of them: a part ends before a
        # page, or, when there are very many errors, before one that has another place. It never ends where it began.
        if isinstance(item, Page):
            if part.is_full():
                return
        elif part.is_full_of_errors() and part.resume not in (start, item.resume):
            return
        part.add(item)
        for file_type, stream in streams.items():
            stream.forget(item.resume[file_type])
        stall.moved()
    part.last = True


# --- what the dataset names -------------------------------------------------------------------------------------------


def maker(job: Job, stack: ExitStack) -> tuple[custom.MakeDocument, type[msgspec.Struct]]:
    """The function, and the type of what it makes."""
    wanted = job.dataset.document
    if job.function:
        function = custom.load(job.function)
        return function, custom.result_type(function) or Document
    if wanted.kind == "index-record":
        function = custom.load(INDEX_RECORD)
        made = partial(function, extractor=wanted.text)  # type: ignore[call-arg]  # this one takes it
        return made, custom.result_type(function) or Document
    make = make_readable if wanted.keep == "documents" else make_document
    return partial(make, extractor=wanted.text, readers=stack.enter_context(opened_readers())), Document


def open_sink(target: Write | Errors, kind: type[msgspec.Struct], job: Job) -> Sink:
    if is_stream(target.to):
        return job.doors.stream(target.to, id_of)
    if is_queue(target.to):
        return QueueSink(job.doors.queue(target.to, f"{job.dataset.name}-{type(target).__name__.lower()}"))
    storage, counts = job.doors.storage(target.to), open_receipts(job).counts
    if target.format == "parquet":
        encode = partial(parquet.encode, kind=kind, compression=target.compression or "zstd")
        check = partial(parquet.check, kind=kind)
        return FileSink(storage, encode, ending=parquet.ENDING, counts=counts, check=check)
    compression = target.compression or "gzip"
    encode = partial(json_lines.encode, compression=compression)
    return FileSink(storage, encode, ending=json_lines.ENDINGS[compression], counts=counts)


def id_of(value: object) -> str:
    """The id of a document or an error record; of what your function makes, if it has one."""
    found = getattr(value, "id", None) or getattr(value, "document_id", None)
    return found if isinstance(found, str) else ""


def open_receipts(job: Job) -> Receipts:
    write, errors = job.dataset.write, job.dataset.errors
    return Receipts(
        job.doors.storage(job.receipts),
        job.task,
        files=None if is_queue(write.to) else job.doors.storage(write.to),
        error_files=None if is_queue(errors.to) else job.doors.storage(errors.to),
    )


def find(job: Job, path: str) -> tuple[Readable, str]:
    if is_address(path) or path.startswith("/"):
        return job.doors.locate(path)
    return job.doors.readable(job.dataset.read.source), path
