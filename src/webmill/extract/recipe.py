"""The input and the result of extraction, as they are sent to the sandboxed child and back."""

from __future__ import annotations

from typing import Protocol

import msgspec

from webmill.errors import BadInput
from webmill.extract.cleaning import clean_text
from webmill.extract.kinds import ContentKind
from webmill.formats import timestamps
from webmill.formats.languages import DetectedLanguages
from webmill.formats.preferences.capture import NO_SITE, SitePreferences
from webmill.formats.preferences.statements import Statement
from webmill.formats.warc import wet
from webmill.infra.plugins.costs import SpentOnHook
from webmill.infra.plugins.loaded import Plugins, load_plugins
from webmill.infra.plugins.sources import PluginSource
from webmill.model import CaptureRef, Document, Headers, Record, normalise_digest


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How documents are made. `detect`: detect languages by CLD2; else use those of the crawler or the index.
    `plugins`: those that have a say. (Unset, not empty: so the recipes of before are still the same.)"""

    extractor: str = "plain"
    detect: bool = False
    links: bool = False
    plugins: tuple[PluginSource, ...] | msgspec.UnsetType = msgspec.UNSET

    def load_plugins(self) -> Plugins:
        return load_plugins(self.plugins or ())


class CaptureInput(msgspec.Struct, frozen=True, kw_only=True):
    """A capture to extract: where it is stored, and what others state about it, used where the record states nothing.

    Without `headers` the payload is the record as stored: a gzip member, or plain. With them it is the content of the
    record, as a reader of whole files has it, and `cut` says that the reader's limit truncated it. A record of another
    URL than that of `ref`, if it has one, is refused. Elements that match `ignored` (CSS) are left out of the text.
    `rendered`: a browser has shown the page, and the record of its document is what has the text.
    `usage` is what the crawler noted of the site's preferences, `site` what the site says in files of its own.
    """

    ref: CaptureRef
    recipe: Recipe
    mime: str = ""
    languages: tuple[str, ...] = ()
    version: str = ""
    headers: tuple[tuple[str, str], ...] | None = None
    cut: bool = False
    wet_text: str | None = None
    ignored: tuple[str, ...] = ()
    rendered: bool = False
    usage: tuple[Statement, ...] = ()
    site: SitePreferences = NO_SITE


class ExtractResult(msgspec.Struct, frozen=True, kw_only=True):
    """The document of a capture, and the kind of its content, by which documents are filtered. `spent`: on plugins."""

    document: Document
    kind: ContentKind
    spent: list[SpentOnHook] = []


class HasCapture(Protocol):
    """One capture of a whole file with its related records, such as `commoncrawl.page.Page`."""

    @property
    def capture(self) -> Record: ...
    @property
    def wet(self) -> Record | None: ...
    @property
    def filename(self) -> str: ...
    @property
    def languages(self) -> DetectedLanguages | None: ...
    @property
    def is_rendered(self) -> bool: ...
    @property
    def usage(self) -> tuple[Statement, ...]: ...


def capture_input(page: HasCapture, *, recipe: Recipe) -> CaptureInput:
    """Return the input for a page of a whole file; its payload is the content of the capture."""
    record = page.capture
    return CaptureInput(
        ref=capture_ref(record, filename=page.filename),
        recipe=recipe,
        languages=() if recipe.detect else stated_languages(page),
        version=record.version,
        headers=record.headers.pairs,
        cut=record.cut,
        rendered=page.is_rendered,
        wet_text=wet.read_text(page.wet) if page.wet and recipe.extractor == "wet" else None,
        usage=page.usage,
    )


def capture_ref(record: Record, *, filename: str) -> CaptureRef:
    """Return where a record is stored, as an index would say."""
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
    """Return the languages in the header of the WET record, or else those that the crawler detected."""
    languages = wet.header_languages(page.wet) if page.wet else ()
    return languages or (page.languages.codes if page.languages else ())


def rebuild_record(payload: bytes, capture: CaptureInput) -> Record:
    """Return the record whose content is the payload."""
    assert capture.headers is not None
    ref = capture.ref
    return Record(capture.version, Headers(capture.headers), payload, ref.offset, ref.length, capture.cut)
