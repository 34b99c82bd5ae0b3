"""ErrorRecord, which is kept in place of a document, with the field names of reference 002 where it has them.

Offsets are byte ranges `[start, end)`, per file type: `{"WARC": 1024}`.
"""

from __future__ import annotations

import msgspec


class FlawRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One flaw of a page, and the bytes where it is."""

    file_type: str
    start: int
    end: int
    reason: str
    message: str


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why there is no document. `recordType` is WARC_ERROR, WAT_ERROR or WET_ERROR if a file is damaged, and
    DOCUMENT_ERROR if the page is complete but no document could be made of it."""

    document_id: str
    record_type: str
    partition_key: str
    reason: str
    error_message: str
    url: str | None = None
    record_id: str | None = None
    files: dict[str, str] = {}
    start_offset: dict[str, int] = {}
    end_offset: dict[str, int] = {}
    flaws: tuple[FlawRecord, ...] = ()
