"""ErrorRecord: what is kept in place of a document, with the names of reference 002 where it has them.

Offsets are byte ranges `[start, end)`, per file type: `{"WARC": 1024}`.
"""

from __future__ import annotations

import msgspec


class FlawRecord(msgspec.Struct, frozen=True, rename="camel"):
    file_type: str
    start: int
    end: int
    reason: str
    message: str


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`recordType` is WARC_ERROR, WAT_ERROR or WET_ERROR for what is wrong with the files, and DOCUMENT_ERROR when the
    page is whole but no document could be made of it."""

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
