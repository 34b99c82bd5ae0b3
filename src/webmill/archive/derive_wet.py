"""WET: the plain text of pages, each in a conversion record that refers to its response."""

from __future__ import annotations

import msgspec

from webmill.archive.capture import CapturedRecord
from webmill.archive.language_detection import LanguageDetector
from webmill.formats.cld2 import MAX_BYTES
from webmill.formats.warc.fields import MetadataFields, parse_warc_fields
from webmill.model import Record

_ISO_639_3 = 3


class PageText(msgspec.Struct, frozen=True):
    """`languages` are ISO-639-3, the main one first."""

    record: Record
    text: str
    languages: tuple[str, ...] = ()


class WetConverter:
    """A page's languages stand in the metadata record that follows it: a conversion waits for that.

    Each method returns the conversion that is ready, if any.
    """

    def __init__(self, detect: LanguageDetector | None = None) -> None:
        self._detect = detect
        self._capture: CapturedRecord | None = None

    def follow(self, capture: CapturedRecord) -> PageText | None:
        """Tell it of every record, in order."""
        record = capture.record
        if self._capture and record.type == "metadata" and record.concurrent_to == self._capture.record.record_id:
            return self._finish(crawler_languages(record))
        ready = self._finish(())
        if capture.page and capture.page.text:
            self._capture = capture
        return ready

    def last(self) -> PageText | None:
        return self._finish(())

    def _finish(self, languages: tuple[str, ...]) -> PageText | None:
        capture, self._capture = self._capture, None
        if not capture or not capture.page:
            return None
        languages = languages_stated(capture.record) or languages
        if not languages and self._detect:
            languages = detect_page_languages(capture, self._detect)
        return PageText(capture.record, capture.page.text, languages)


def detect_page_languages(capture: CapturedRecord, detect: LanguageDetector) -> tuple[str, ...]:
    """Return the languages of a page by the detector; none where it cannot tell, or breaks."""
    assert capture.response  # a page has one
    page = capture.response.text.text.encode("utf-8", "replace")[:MAX_BYTES]
    found = detect(page, capture.record.target_uri or "", capture.response.fields.get("Content-Language") or "")
    return found.codes if found else ()


def crawler_languages(metadata: Record) -> tuple[str, ...]:
    """By the crawler, in the metadata record of a page. A code that could break a header is none."""
    found = MetadataFields(parse_warc_fields(metadata.content)).languages
    codes = [language.iso for language in found.languages] if found else []
    return tuple(code for code in codes if len(code) == _ISO_639_3 and code.isascii() and code.isalpha())


def languages_stated(response: Record) -> tuple[str, ...]:
    """In the response's own header."""
    value = response.headers.get("WARC-Identified-Content-Language") or ""
    return tuple(code for part in value.split(",") if (code := part.strip()))
