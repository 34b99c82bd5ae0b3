"""One WARC, WAT or WET file alone: its records as typed documents, and error documents for what is damaged.

For the pages of a WARC file alone, see `aligned.read_pages`.
"""

from __future__ import annotations

from collections.abc import Iterator

from webmill.commoncrawl.page import ErrorDocument, Flaw
from webmill.commoncrawl.stored import Lost, read_stored
from webmill.formats.typed_records import FileType, TypedRecord, read_typed
from webmill.formats.warc import Limits
from webmill.formats.window import Source

DEFAULT = Limits()


def read_documents(
    source: Source, *, file_type: FileType, start: int = 0, limits: Limits = DEFAULT
) -> Iterator[TypedRecord | ErrorDocument]:
    for item in read_stored(source, start=start, limits=limits):
        yield _error(item, file_type) if isinstance(item, Lost) else read_typed(item, file_type=file_type)


def _error(lost: Lost, file_type: FileType) -> ErrorDocument:
    damage = lost.damage
    return ErrorDocument(
        flaws=(Flaw(file_type, damage.offset, damage.end, damage.reason, damage.message),),
        target_uri=lost.headers.get("WARC-Target-URI"),
        record_id=lost.headers.get("WARC-Record-ID"),
        offsets={file_type: (damage.offset, damage.end)},
        resume={file_type: damage.end},
    )
