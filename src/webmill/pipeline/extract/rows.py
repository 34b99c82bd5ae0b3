"""What is kept of a capture: one row, whatever became of it; and which rows are left out, by reason.

| `extraction` | |
|---|---|
| ok | `text` is the page's |
| empty | the extractor found no text |
| none | no text was asked for (`--extractor none`) |
| not_html | the content is something else: PDF, JSON, an image |
| not_response | the record holds no content: a revisit, a request |
| not_found | the WARC file is not there |
| bad_place | the index names a place where no capture can be: beyond the file's end, too large, not a file's name |
| bad_record | the bytes at that place are torn, or another capture; `error` says what |
| parse_limit, parse_crash, parse_error | the extractor took too much time or memory, died, or failed |
| bad_item | the batch's entry itself is wrong |
"""

from __future__ import annotations

from typing import Literal

import msgspec

from webmill.commoncrawl.batch import BadItem, BatchItem
from webmill.errors import BadInput, NotFound
from webmill.extract.head import clean
from webmill.pipeline.extract.page import Reading

Extraction = Literal[
    "ok",
    "empty",
    "none",
    "not_html",
    "not_response",
    "not_found",
    "bad_place",
    "bad_record",
    "parse_limit",
    "parse_crash",
    "parse_error",
    "bad_item",
]
# Captures that could not be read; of the others it is known what they hold.
REJECTED = frozenset({"not_found", "bad_place", "bad_record", "parse_limit", "parse_crash", "parse_error", "bad_item"})
PLACES = frozenset({"too_large", "bad_range", "bad_key", "bad_path"})
# How a page broke its parser differs from time to time; a row does not.
PARSER = {
    "parse_limit": "the page passed a limit of its parser",
    "parse_crash": "the page killed its parser",
    "parse_error": "the parser failed on the page",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The order of the fields is the order of keys and columns. Nothing in it tells when or by whom it was made."""

    url: str | None
    surt: str | None
    timestamp: str | None
    digest: str | None
    mime: str | None
    mime_detected: str | None
    charset: str | None  # by which the text was decoded
    languages: str | None  # as the index says: eng,fra
    language: str | None  # as detected; the index's first where there is no detector
    status: int | None
    title: str | None
    text: str | None
    text_length: int | None  # characters
    filename: str | None
    offset: int | None
    length: int | None
    extractor: str
    extraction: Extraction
    error: str | None
    batch: str


class Keep(msgspec.Struct, frozen=True, kw_only=True):
    """Which pages with text are kept; None and () is all. Rows that tell why there is no text are always kept."""

    min_text: int | None = None
    max_text: int | None = None
    languages: tuple[str, ...] = ()

    def reason_against(self, row: Row) -> str | None:
        if row.extraction not in ("ok", "empty", "none"):
            return None
        length = row.text_length or 0
        if self.min_text is not None and length < self.min_text:
            return "too_short"
        if self.max_text is not None and length > self.max_text:
            return "too_long"
        if self.languages and row.language not in self.languages:
            return "other_language"
        return None


class RowMaker(msgspec.Struct, frozen=True, kw_only=True):
    batch: str
    extractor: str
    detect: bool

    def of_page(self, item: BatchItem, reading: Reading) -> Row:
        return self._row(
            item,
            extraction=reading.extraction,
            charset=reading.charset,
            language=reading.language if self.detect else primary(item.metadata.get("languages")),
            status=_status(item.metadata.get("status")) or reading.status,
            title=reading.title,
            text=reading.text,
            text_length=None if reading.text is None else len(reading.text),
            error=f"the body is not whole: {reading.flaw}" if reading.flaw else None,
        )

    def of_failure(self, item: BatchItem, error: BadInput | NotFound) -> Row:
        extraction, message = failure(error)
        return self._row(item, extraction=extraction, error=message)

    def of_bad_item(self, item: BadItem) -> Row:
        nothing = dict.fromkeys(Row.__struct_fields__)
        message = f"{item.reason}: {item.message}"
        return Row(
            **nothing | {"extractor": self.extractor, "batch": self.batch, "extraction": "bad_item", "error": message}  # type: ignore[arg-type]
        )

    def _row(self, item: BatchItem, **found: object) -> Row:
        said, capture = item.metadata, item.capture
        known = dict.fromkeys(Row.__struct_fields__) | {
            "url": clean(capture.url),
            "surt": clean(capture.urlkey),
            "timestamp": capture.timestamp,
            "digest": clean(said.get("digest")),
            "mime": clean(said.get("mime")),
            "mime_detected": clean(said.get("mime-detected")),
            "languages": clean(said.get("languages")),
            "status": _status(said.get("status")),
            "filename": clean(capture.filename),
            "offset": capture.offset,
            "length": capture.length,
            "extractor": self.extractor,
            "batch": self.batch,
        }
        return Row(**known | found)  # type: ignore[arg-type]


def failure(error: BadInput | NotFound) -> tuple[Extraction, str]:
    """Why a capture has no text, in words that are the same every time."""
    if isinstance(error, NotFound):
        return "not_found", "the WARC file is not there"
    if error.reason in PARSER:
        return error.reason, PARSER[error.reason]  # type: ignore[return-value]
    message = clean(f"{error.reason}: {error.message}") or ""
    return ("bad_place" if error.reason in PLACES else "bad_record"), message


def primary(languages: str | None) -> str | None:
    return (languages or "").partition(",")[0].strip() or None


def _status(text: str | None) -> int | None:
    return int(text) if text and len(text) == 3 and text.isascii() and text.isdecimal() else None
