"""Error records of a task: for what is wrong with its files, and for pages of which no document could be made."""

from __future__ import annotations

import msgspec

from webmill.commoncrawl.page import ErrorDocument, Offsets, Page
from webmill.errors import BadInput, NotFound
from webmill.extract.cleaning import clean_text
from webmill.extract.error_record import ErrorRecord, FlawRecord
from webmill.model import CaptureRef
from webmill.pipeline.extract.manifest import TaskFiles

MAX_MESSAGE = 1000
SHORT_MESSAGE = 200


def file_error(item: ErrorDocument, *, files: TaskFiles) -> ErrorRecord:
    name = clean_text(item.record_id) or clean_text(item.target_uri) or f"{item.file_type}#{item.start}"
    return ErrorRecord(
        document_id=name,
        record_type=item.document_kind,
        partition_key=clean_text(item.target_uri) or name,
        reason=item.reason,
        error_message=_short(item.message),
        url=clean_text(item.target_uri),
        record_id=clean_text(item.record_id),
        files=_names(files),
        start_offset=_starts(item.offsets),
        end_offset=_ends(item.offsets),
        flaws=tuple(
            FlawRecord(flaw.file_type, flaw.start, flaw.end, flaw.reason, _short(flaw.message)) for flaw in item.flaws
        ),
    )


def page_error(page: Page, error: BaseException, *, files: TaskFiles) -> ErrorRecord:
    """Return the error of a whole page that no document could be made of."""
    record = _document_error(page.target_uri, page.record_id, f"WARC#{page.capture.offset}", error)
    return msgspec.structs.replace(
        record, files=_names(files), start_offset=_starts(page.offsets), end_offset=_ends(page.offsets)
    )


def capture_error(capture: CaptureRef, error: BaseException) -> ErrorRecord:
    """Return the error of an indexed capture that no document could be made of."""
    record = _document_error(capture.url, None, f"{capture.filename}#{capture.offset}", error)
    return msgspec.structs.replace(
        record,
        files={"WARC": capture.filename},
        start_offset={"WARC": capture.offset},
        end_offset={"WARC": capture.end},
    )


def entry_error(error: BaseException, *, name: str, known: CaptureRef | None = None) -> ErrorRecord:
    """Return the error of an entry that names no capture, with what it says about one."""
    record = _document_error(known.url if known else None, None, name, error)
    if not known or not known.filename:
        return record
    return msgspec.structs.replace(record, files={"WARC": known.filename}, start_offset={"WARC": known.offset})


def _document_error(url: str | None, record_id: str | None, place: str, error: BaseException) -> ErrorRecord:
    name = clean_text(record_id) or place
    known = isinstance(error, BadInput | NotFound)
    reason = error.reason if isinstance(error, BadInput) else "not_found" if known else "function_failed"
    return ErrorRecord(
        document_id=name,
        record_type="DOCUMENT_ERROR",
        partition_key=clean_text(url) or name,
        reason=reason,
        error_message=_short(str(error) if known else f"{type(error).__name__}: {error}"),
        url=clean_text(url),
        record_id=clean_text(record_id),
    )


def shorten(record: ErrorRecord) -> ErrorRecord:
    """Shorten a record for a sink that cannot take it whole; names and offsets stay, to find the rest in the files."""

    def cut(text: str | None) -> str | None:
        return text and text[:SHORT_MESSAGE]

    left_out = f" (shortened; {len(record.flaws)} flaws left out)"
    return msgspec.structs.replace(
        record,
        document_id=record.document_id[:SHORT_MESSAGE],
        partition_key=record.partition_key[:SHORT_MESSAGE],
        error_message=record.error_message[:SHORT_MESSAGE] + left_out,
        url=cut(record.url),
        record_id=cut(record.record_id),
        flaws=(),
    )


def _names(files: TaskFiles) -> dict[str, str]:
    return {str(file_type): path for file_type, path in files.items()}


def _starts(offsets: Offsets) -> dict[str, int]:
    return {str(file_type): start for file_type, (start, _) in offsets.items()}


def _ends(offsets: Offsets) -> dict[str, int]:
    return {str(file_type): end for file_type, (_, end) in offsets.items()}


def _short(message: str) -> str:
    return (clean_text(message) or "")[:MAX_MESSAGE]
