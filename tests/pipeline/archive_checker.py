"""What of an archive's promises is there after a crash: read with gzip and warcio alone."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from warcio.archiveiterator import ArchiveIterator

from webmill.formats.warc.capture import WrittenCapture


class Account(NamedTuple):
    """`lost` was acknowledged and is not alone in its bytes; `twice` is there more than once; nobody acknowledged
    `extras`; of `torn` ends the bytes are kept with a reason."""

    lost: set[str]
    twice: set[str]
    extras: set[str]
    torn: int


def account(root: Path, places: list[WrittenCapture]) -> Account:
    """Of an archive that was recovered: it has no open files any more."""
    found: Counter[str] = Counter()
    for file in (root / "crawl-data").rglob("*.warc.gz"):
        with file.open("rb") as stream:
            found.update(
                record.rec_headers.get_header("WARC-Record-ID")
                for record in ArchiveIterator(stream)
                if record.rec_type == "response"
            )
    acknowledged = {place.record_id for place in places}
    kept = {place.record_id for place in places if found[place.record_id] and is_at(root, place)}
    return Account(
        lost=acknowledged - kept,
        twice={name for name, times in found.items() if times > 1},
        extras=found.keys() - acknowledged,
        torn=sum(1 for _ in (root / "rejected").rglob("*.torn")),
    )


def is_at(root: Path, place: WrittenCapture) -> bool:
    """The record, whole, in exactly its bytes."""
    try:
        with (root / place.capture.filename).open("rb") as file:
            file.seek(place.capture.offset)
            stored = file.read(place.capture.length)
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        head, _, rest = unpacker.decompress(stored).partition(b"\r\n\r\n")
    except (OSError, zlib.error, gzip.BadGzipFile):
        return False
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    whole = len(stored) == place.capture.length and unpacker.eof and not unpacker.unused_data
    return whole and fields["WARC-Record-ID"] == place.record_id and len(rest) == int(fields["Content-Length"]) + 4
