"""The fields of the metadata record that a crawl writes for a capture, as in Common Crawl's files.

    fetchTimeMs: 312
    charset-detected: UTF-8
    languages-cld2: {"reliable":true,"text-bytes":1800,"languages":[{"code":"de",…}]}

Charset and languages are detected in the first `MAX_PAGE_BYTES` of a page. CLD2 costs more than all else together
(benchmarks/archiving.py); of 1,119 pages of Common Crawl 1,109 keep their main language, 1,117 without the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from webmill.archive.identify import HTML, XHTML
from webmill.archive.language_detection import LanguageDetector
from webmill.formats.encodings import iana_name
from webmill.formats.html.charset import decode_page

MAX_PAGE_BYTES = 1 << 17
PAGES = frozenset({HTML, XHTML})

_UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


class CaptureFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a capture. `page` is its decoded body if that is HTML, else empty."""

    url: str
    seconds: float
    page: bytes = b""
    content_type: str | None = None
    content_language: str | None = None


def metadata_fields(
    facts: CaptureFacts, *, detect: LanguageDetector | None, extra: Iterable[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    fields = [("fetchTimeMs", str(max(0, round(facts.seconds * 1000))))]
    if facts.page:
        text = decode_page(facts.page[:MAX_PAGE_BYTES], content_type=facts.content_type)
        fields.append(("charset-detected", iana_name(text.encoding)))
        page = text.text.encode("utf-8", "replace") if detect else b""
        found = detect(page, facts.url, facts.content_language or "") if detect else None
        if found and found.languages:
            fields.append(("languages-cld2", msgspec.json.encode(found).decode()))
    return [*fields, *((name, escape_controls(value)) for name, value in extra)]


def escape_controls(value: str) -> str:
    """Percent-encode control characters and lone surrogates: some values come from the web (`via` is a URL)."""
    return _UNFIT.sub(_escape, value)


def _escape(found: re.Match[str]) -> str:
    try:
        data = found[0].encode("utf-8", "surrogateescape")  # a byte that was not valid text when it was read
    except UnicodeEncodeError:
        data = found[0].encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in data)
