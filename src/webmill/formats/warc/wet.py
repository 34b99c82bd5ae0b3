"""The text of WET records: `text/plain`, UTF-8, as Common Crawl's extractor wrote it."""

from __future__ import annotations

from webmill.model import Record


def read_text(record: Record) -> str:
    """Return the text; bytes that are not UTF-8 (a text cut by a limit) become U+FFFD."""
    return record.content.decode("utf-8", "replace")


def header_languages(record: Record) -> tuple[str, ...]:
    """Return the ISO-639-3 codes in the header of a record, the main language first: `eng,fra` is two."""
    value = record.headers.get("WARC-Identified-Content-Language") or ""
    return tuple(code for code in (part.strip() for part in value.split(",")) if code)
