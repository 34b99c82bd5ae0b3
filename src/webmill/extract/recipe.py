"""What is asked of a capture, and what comes back: these travel to the sandboxed child and home again."""

from __future__ import annotations

from typing import Protocol

import msgspec

from webmill.errors import BadInput
from webmill.extract.cleaning import clean_text
from webmill.extract.kinds import ContentKind
from webmill.formats import timestamps
from webmill.formats.languages import DetectedLanguages
from webmill.formats.warc import wet
from webmill.model import CaptureRef, Document, Headers, Record, normalise_digest


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How documents are made. `detect`: languages by CLD2, else as the crawler or the index said."""

    extractor: str = "plain"
    detect: bool = False
    links: bool = False


class CaptureInput(msgspec.Struct, frozen=True, kw_only=True):
    """A capture to be read: where it lies, and what others said of it, which counts where the record says nothing.

    Without `headers` the payload is the record as it is stored: a gzip member, or plain. With them it is the record's
    content, as a reader of whole files has it, and `cut` says that the reader's limit ended it. A record of
    another URL than `ref` names is refused; it may name none.
    """

    ref: CaptureRef
    recipe: Recipe
    mime: str = ""
    languages: tuple[str, ...] = ()
    version: str = ""
    headers: tuple[tuple[str, str], ...] | None = None
    cut: bool = False
    wet_text: str | None = None


class ExtractResult(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is what the capture holds: its document may be wanted or not."""

    document: Document
    kind: ContentKind


class HasCapture(Protocol):
    """One capture of a whole file with what was read beside it, as `commoncrawl.page.Page` has it."""

    @property
    def capture(self) -> Record: ...
    @property
    def wet(self) -> Record | None: ...
    @property
    def filename(self) -> str: ...
    @property
    def languages(self) -> DetectedLanguages | None: ...


def capture_input(page: HasCapture, *, recipe: Recipe) -> CaptureInput:
    """Return what is asked of a page of a whole file, whose payload is the content of its capture."""
    record = page.capture
    return CaptureInput(
        ref=capture_ref(record, filename=page.filename),
        recipe=recipe,
        languages=() if recipe.detect else stated_languages(page),
        version=record.version,
        headers=record.headers.pairs,
        cut=record.cut,
        wet_text=wet.read_text(page.wet) if page.wet and recipe.extractor == "wet" else None,
    )


def capture_ref(record: Record, *, filename: str) -> CaptureRef:
    """Return where a record lies, with what an index would say of it."""
    return CaptureRef(
        url=clean_text(record.target_uri) or "",
        timestamp=_timestamp(record.date),
        filename=filename,
        offset=record.offset,
        length=record.length,
        digest=normalise_digest(clean_text(record.payload_digest) or ""),
    )


def _timestamp(date: str | None) -> str:
    try:
        return timestamps.from_warc_date(date) if date else ""
    except BadInput:
        return ""


def stated_languages(page: HasCapture) -> tuple[str, ...]:
    """Return the languages in the header of the WET record; else those that CLD2 told the crawler."""
    told = wet.header_languages(page.wet) if page.wet else ()
    return told or (page.languages.codes if page.languages else ())


def rebuild_record(payload: bytes, capture: CaptureInput) -> Record:
    """Return the record whose content is the payload."""
    assert capture.headers is not None
    ref = capture.ref
    return Record(capture.version, Headers(capture.headers), payload, ref.offset, ref.length, capture.cut)
