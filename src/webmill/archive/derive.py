"""Derive the WAT and WET files of a WARC, which Common Crawl publishes beside each of its WARC files.

The bytes written depend only on the WARC, the date and the version of webmill: record ids are made from the ids of
the records they refer to, and the date is that of the WARC's first record unless another is given. A page or record
that cannot be derived is skipped and reported; the others are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from email.utils import format_datetime
from pathlib import Path
from typing import BinaryIO
from uuid import UUID, uuid5

import msgspec

from webmill import __version__
from webmill.archive.capture import CapturedRecord, read_capture
from webmill.archive.derive_wat import describe_record
from webmill.archive.derive_wet import PageText, WetConverter
from webmill.archive.language_detection import require_language_detector
from webmill.errors import BadInput
from webmill.formats.compression.gzip_frame import MAX_HEADER, TRAILER, GzipFrame, read_frame
from webmill.formats.html.page import read_html, read_html_text
from webmill.formats.timestamps import from_warc_date, to_datetime
from webmill.formats.warc import record_headers as warc_records
from webmill.formats.warc.fields import parse_warc_fields
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.writer import compress_dense, compress_record
from webmill.infra import atomic
from webmill.infra.files import read_at
from webmill.model import ArchiveReject, Damage, Headers, Record

KINDS = ("wat", "wet")
_IDS = UUID("6f4c1e0a-54d5-5a1c-9d83-2f7b0c7a6e11")  # the namespace of all derived record ids
_FORMAT = (
    ("format", "WARC File Format 1.0"),
    ("conformsTo", "http://bibnum.bnf.fr/WARC/WARC_ISO_28500_version1_latestdraft.pdf"),
)
_COPIED_FIELDS = ("robots", "isPartOf", "operator", "description", "publisher")


class DeriveJob(msgspec.Struct, frozen=True, kw_only=True):
    """A WARC to derive from.

    `outputs` has a file for each kind that is wanted; `date` overrides the date of the WARC.
    """

    warc: Path
    outputs: dict[str, Path]
    date: datetime | None = None
    detect_languages: bool = False


class DeriveReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was derived from one WARC."""

    records: int
    pages: int  # HTML pages that were parsed
    texts: int  # pages with text
    rejects: tuple[ArchiveReject, ...]


def output_name(warc: str, kind: str) -> str:
    """Return the name of a derived file: `X.warc.wat.gz` for `X.warc.gz`."""
    for ending in (".gz", ".zst"):
        warc = warc.removesuffix(ending)
    return f"{warc}.{kind}.gz"


def derive(job: DeriveJob) -> DeriveReport:
    """Write the WAT and WET files, which appear when they are complete. Raise BadInput if the WARC has no records."""
    with ExitStack() as stack:
        source = stack.enter_context(job.warc.open("rb"))
        outs = {kind: stack.enter_context(atomic.writing(path)) for kind, path in job.outputs.items()}
        needs_languages = job.detect_languages and "wet" in outs
        detect = stack.enter_context(require_language_detector()) if needs_languages else None
        deriver = _WarcDeriver(job, source, outs, WetConverter(detect))
        for item in read_records(source):
            deriver.add(item)
        return deriver.finish()


class _WarcDeriver:
    """The state of one pass over one WARC."""

    def __init__(self, job: DeriveJob, source: BinaryIO, outs: dict[str, BinaryIO], converter: WetConverter) -> None:
        self.job = job
        self.source = source
        self.outs = outs
        self.converter = converter
        self.read_page = read_html if "wat" in outs else read_html_text
        self.date: datetime | None = None
        self.records = self.pages = self.texts = 0
        self.rejects: list[ArchiveReject] = []

    def add(self, item: Record | Damage) -> None:
        if isinstance(item, Damage):
            self.rejects.append(ArchiveReject(self.job.warc.name, item.reason, item.message, item.offset, item.end))
            return
        if self.date is None:
            self.date = self._write_warcinfo(item)
        self.records += 1
        try:
            self._derive(item, self.date)
        except BadInput as error:
            self._reject(item, error)

    def finish(self) -> DeriveReport:
        if self.date is None:
            raise BadInput("the file has no records", reason="not_warc", source=str(self.job.warc))
        self._write_page_text(self.converter.flush())
        return DeriveReport(records=self.records, pages=self.pages, texts=self.texts, rejects=tuple(self.rejects))

    def _write_warcinfo(self, first: Record) -> datetime:
        """Begin each output with its own warcinfo record and return the date to use."""
        if first.is_arc:
            raise BadInput("ARC records have no ids to refer to", reason="not_warc", source=str(self.job.warc))
        date = self.job.date or record_date(first)
        common = [("Software-Info", f"webmill/{__version__}"), ("Extracted-Date", format_datetime(date, usegmt=True))]
        for kind, out in self.outs.items():
            fields = [*common, *(_FORMAT if kind == "wat" else warcinfo_fields_for_wet(first))]
            content = warc_records.encode_warc_fields(fields) + b"\r\n"
            headers = warc_records.warcinfo_headers(
                warc_records.describe_block(content),
                record_id=derived_id(f"{kind} info", first.record_id or self.job.warc.name),
                date=date,
                filename=self.job.outputs[kind].name,
            )
            write_record(out, headers, content)
        return date

    def _derive(self, record: Record, date: datetime) -> None:
        if not record.record_id:
            raise BadInput("the record has no id, so nothing can refer to it", reason="no_record_id")
        capture = read_capture(record, read_page=self.read_page)
        if capture.refused:
            self._reject(record, capture.refused)
        if record.cut:
            self._reject(
                record,
                BadInput(f"a block of {record.content_length:,} bytes is too large", reason="too_large"),
            )
        self.pages += capture.page is not None
        if "wat" in self.outs:
            self._write_description(capture, date)
        if "wet" in self.outs:
            self._write_page_text(self.converter.add(capture))

    def _write_description(self, capture: CapturedRecord, date: datetime) -> None:
        record = capture.record
        assert record.record_id  # checked in `_derive`
        content = describe_record(capture, filename=self.job.warc.name, frame=self._read_frame(record))
        uri = record.headers.get("WARC-Filename") if record.type == "warcinfo" else record.target_uri
        headers = warc_records.wat_headers(
            warc_records.describe_block(content),
            record_id=derived_id("wat", record.record_id),
            uri=uri or "",
            date=date,
            refers_to=record.record_id,
        )
        write_record(self.outs["wat"], headers if uri else headers.without("WARC-Target-URI"), content)

    def _write_page_text(self, page: PageText | None) -> None:
        if not page:
            return
        try:
            write_record(self.outs["wet"], *encode_page_text(page))
            self.texts += 1
        except BadInput as error:
            self._reject(page.record, error)

    def _read_frame(self, record: Record) -> GzipFrame | None:
        """Return the gzip frame of a record, read again from the file because records come inflated."""
        if record.length < TRAILER:
            return None
        fd = self.source.fileno()
        end = record.offset + record.length
        return read_frame(read_at(fd, MAX_HEADER, record.offset), read_at(fd, TRAILER, end - TRAILER))

    def _reject(self, record: Record, error: BadInput) -> None:
        end = record.offset + record.length
        self.rejects.append(ArchiveReject(self.job.warc.name, error.reason, error.message, record.offset, end))


def encode_page_text(page: PageText) -> tuple[Headers, bytes]:
    """Return the header and content of the conversion record of a page."""
    record = page.record
    content = page.text.encode("utf-8", "replace")
    headers = warc_records.conversion_headers(
        warc_records.describe_block(content),
        record_id=derived_id("wet", record.record_id or ""),
        uri=record.target_uri or "",
        date=record_date(record),
        refers_to=record.record_id or "",
        languages=page.languages,
    )
    return headers, content


def warcinfo_fields_for_wet(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the fields of the WARC's warcinfo record that the WET file repeats."""
    if record.type == "warcinfo":
        fields = parse_warc_fields(record.content)
        for name in _COPIED_FIELDS:
            if value := fields.get(name):
                yield name, " ".join(value.replace("\0", " ").split())


def derived_id(kind: str, record_id: str) -> str:
    """Return the record id of what is derived: always the same for the same record."""
    name = f"{kind} {record_id}".encode("utf-8", "surrogateescape").decode("latin-1")
    return f"<{uuid5(_IDS, name).urn}>"


def record_date(record: Record) -> datetime:
    return to_datetime(from_warc_date(record.date or ""))


def write_record(out: BinaryIO, headers: Headers, content: bytes) -> None:
    out.write(compress_record(headers, content, compress=compress_dense))
