"""WET: the plain text of pages, each in a conversion record that refers to its response."""

from __future__ import annotations

import msgspec

from webmill.archive.capture import CapturedRecord
from webmill.archive.language_detection import LanguageDetector
from webmill.formats.cld2 import MAX_BYTES, MAX_HINT, DetectorInput, top_level_domain
from webmill.formats.warc.fields import MetadataFields, parse_warc_fields
from webmill.formats.warc.wet import header_languages
from webmill.model import Record

_ISO_639_3 = 3


class PageText(msgspec.Struct, frozen=True):
    """The text of a page, for a conversion record. `languages` are ISO-639-3 codes, the main one first."""

    record: Record
    text: str
    languages: tuple[str, ...] = ()


class WetConverter:
    """Turns pages into texts. A page is held until the metadata record after it, which has its languages, has come.

    Each method returns the page text that is ready, if any.
    """

    def __init__(self, detect: LanguageDetector | None = None) -> None:
        self._detect = detect
        self._capture: CapturedRecord | None = None

    def add(self, capture: CapturedRecord) -> PageText | None:
        """Take the next record; pass every record, in order."""
        record = capture.record
        if self._capture and record.type == "metadata" and record.concurrent_to == self._capture.record.record_id:
            return self._finish(crawler_languages(record))
        ready = self._finish(())
        if capture.page and capture.page.text:
            self._capture = capture
        return ready

    def flush(self) -> PageText | None:
        return self._finish(())

    def _finish(self, languages: tuple[str, ...]) -> PageText | None:
        capture, self._capture = self._capture, None
        if not capture or not capture.page:
            return None
        languages = header_languages(capture.record) or languages
        if not languages and self._detect:
            languages = detect_page_languages(capture, self._detect)
        return PageText(capture.record, capture.page.text, languages)


def detect_page_languages(capture: CapturedRecord, detect: LanguageDetector) -> tuple[str, ...]:
    """Return the languages that the detector finds in a page; none if it cannot tell or fails."""
    assert capture.response  # every page has one
    page = capture.response.text.text.encode("utf-8", "replace")[:MAX_BYTES]
    tld, hint = top_level_domain(capture.record.target_uri or ""), capture.response.fields.get("Content-Language") or ""
    [found] = detect([DetectorInput(page, tld, hint[:MAX_HINT])])
    return found.codes if found else ()


def crawler_languages(metadata: Record) -> tuple[str, ...]:
    """Return the languages in the metadata record of a page. Codes that could break a header are left out."""
    found = MetadataFields(parse_warc_fields(metadata.content)).languages
    codes = [language.iso for language in found.languages] if found else []
    return tuple(code for code in codes if len(code) == _ISO_639_3 and code.isascii() and code.isalpha())
