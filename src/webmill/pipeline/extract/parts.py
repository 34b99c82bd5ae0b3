"""Captures in the making, until they are enough for a part: rows, errors, and what was left out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

import msgspec

from webmill.commoncrawl.batch import BatchItem, RejectedItem
from webmill.commoncrawl.page import ErrorDocument, Page
from webmill.errors import BadInput, NotFound
from webmill.extract.error_record import ErrorRecord
from webmill.extract.own_reader import MadeDocument, Reading, SkippedRecord
from webmill.formats.warc.typed_records import FileType
from webmill.infra.sinks.base import Sink, SinkRow
from webmill.model import Document
from webmill.pipeline.extract.errors import capture_error, entry_error, file_error, page_error, shorten
from webmill.pipeline.extract.plan import ExtractPlan
from webmill.pipeline.extract.receipts import RecordRange, SourceVersion
from webmill.pipeline.extract.row_maker import MadeRow, RowMaker
from webmill.pipeline.extract.tasks import Task
from webmill.pipeline.extract.totals import add_counts

MIN_ERRORS, MIN_ERROR_BYTES = 1000, 1 << 20  # errors, bytes of JSON


class PartSinks(msgspec.Struct, frozen=True):
    """Where rows and error records of a part go."""

    output: Sink
    errors: Sink


class TaskPart:
    """The rows and errors of one part. `used` are records that an earlier part has reported already."""

    def __init__(
        self, task: Task, plan: ExtractPlan, maker: RowMaker, sinks: PartSinks, *, used: Iterable[RecordRange] = ()
    ) -> None:
        self._task, self._plan, self._maker, self._sinks = task, plan, maker, sinks
        self._before = frozenset(used)
        self._used = set(used)
        self.sources: dict[str, SourceVersion] = {}
        self.position = ""
        self.messages: tuple[str, ...] = ()
        self._rows: list[tuple[int, SinkRow]] = []  # each with its place among the rows
        self.errors: list[SinkRow] = []
        self.outcomes: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.resume: dict[str, int] = {}
        self.captures = self.bytes = self._error_bytes = 0
        self.last = False

    @property
    def rows(self) -> list[SinkRow]:
        """Return the rows in the order of the file, or of the batch: its captures come in the order of their files."""
        return [row for _, row in sorted(self._rows, key=itemgetter(0))]

    def is_full(self) -> bool:
        return self.captures >= self._plan.pages_per_part or self._size() >= self._plan.bytes_per_part

    def is_full_of_errors(self) -> bool:
        """Return whether errors fill the part; not after a few, since resuming amid damage loses its context."""
        many, much = max(self._plan.pages_per_part, MIN_ERRORS), max(self._plan.bytes_per_part, MIN_ERROR_BYTES)
        return len(self.errors) >= many or self._size() >= much

    # --- of files ---

    def add(self, item: Page | ErrorDocument) -> None:
        self.resume = {str(name): at for name, at in item.resume.items()}
        if isinstance(item, ErrorDocument):
            if not self._was_reported(item):
                self._fail(file_error(item, files=self._task.files))
            self._used.update(wat_and_wet_ranges(item))
            return
        self._used.update(wat_and_wet_ranges(item))
        self._add(lambda: self._maker.of_page(item), lambda error: page_error(item, error, files=self._task.files))

    def still_used(self) -> tuple[RecordRange, ...]:
        return tuple(sorted(one for one in self._used if one[2] > self.resume.get(one[0], 0)))

    def _was_reported(self, item: ErrorDocument) -> bool:
        """Return whether an earlier part has reported these records, with a page or as errors."""
        return item.page is None and all((flaw.file_type, flaw.start, flaw.end) in self._before for flaw in item.flaws)

    # --- of a batch ---

    def add_stored(self, item: BatchItem, stored: bytes | BadInput | NotFound, *, number: int) -> None:
        def make() -> MadeRow:
            if isinstance(stored, bytes):
                return self._maker.of_stored(item, stored)
            return self._maker.of_unread(item, stored)

        self._add(make, lambda error: capture_error(item.capture, error), number=number)

    def add_bad_item(self, item: RejectedItem) -> None:
        id_ = f"{self._task.id}#{item.number}"
        self._add(
            lambda: self._maker.of_bad_item(item, id_=id_),
            lambda error: entry_error(error, name=id_, known=item.known),
            number=item.number,
        )

    # --- of a reader of your own ---

    def add_reading(self, reading: Reading) -> None:
        self.captures += 1
        if isinstance(reading, SkippedRecord):
            add_counts(self.left_out, {"skipped": 1})
        elif isinstance(reading, MadeDocument):
            self._add_made(reading)
        else:
            self._fail(reading)

    def _add_made(self, made: MadeDocument) -> None:
        row = SinkRow(made, made.line)
        try:
            self._sinks.output.check(row)
        except BadInput as error:
            self._fail(entry_error(error, name=made.document_id or f"{self._task.id}#{self.captures}"))
            return
        self._rows.append((0, row))
        self.bytes += len(row.line)

    # --- of all ---

    def _add(
        self, make: Callable[[], MadeRow], error_of: Callable[[BaseException], ErrorRecord], *, number: int = 0
    ) -> None:
        self.captures += 1
        try:
            made = make()
            if reason := self._reason_against(made):
                add_counts(self.left_out, {reason: 1})
                return
            row = SinkRow(made.value, msgspec.json.encode(made.value))
            self._sinks.output.check(row)
        except MemoryError:
            raise  # of the process, not of the page
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a page or a function that breaks the making costs that page only
            self._fail(error_of(error))
            return
        self._rows.append((number, row))
        self.bytes += len(row.line)
        if isinstance(made.value, Document):
            add_counts(self.outcomes, {made.value.outcome: 1})

    def _reason_against(self, made: MadeRow) -> str | None:
        if made.value is None:
            return "function"
        return self._plan.keep.reason_against(made.value, made.kind) if isinstance(made.value, Document) else None

    def _fail(self, record: ErrorRecord) -> None:
        row = SinkRow(record, msgspec.json.encode(record))
        try:
            self._sinks.errors.check(row)
        except BadInput:
            record = shorten(record)
            row = SinkRow(record, msgspec.json.encode(record))
        self.errors.append(row)
        add_counts(self.reasons, {record.reason: 1})
        self._error_bytes += len(row.line)

    def _size(self) -> int:
        return self.bytes + self._error_bytes


def wat_and_wet_ranges(item: Page | ErrorDocument) -> Iterator[RecordRange]:
    """Yield the WAT and WET records that an item uses or reports. WARC records need none: they come in order."""
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
