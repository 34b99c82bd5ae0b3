"""Which payloads a crawl has archived already, so that a page that comes again is a short `revisit` record.

A row is written after its record is durable, without a sync of its own: one that a power cut took away only costs
storing that payload a second time.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from webmill.formats.warc.record_headers import OriginalCapture
from webmill.infra.sqlite import Database, Schema

PayloadRecord = tuple[str, OriginalCapture]  # digest, and the record that has it
MIN_PAYLOAD = 256  # bytes: below that a revisit record is no shorter than the payload

SCHEMA = Schema(
    tag=int.from_bytes(b"wmPa"),
    steps=(
        """
        CREATE TABLE payload (
            digest TEXT PRIMARY KEY,
            record_id TEXT NOT NULL,
            url TEXT NOT NULL,
            time REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
    ),
)


class ArchivedPayloads:
    def __init__(self, path: Path) -> None:
        self._database = Database(path, schema=SCHEMA)

    def find(self, digests: Collection[str]) -> dict[str, OriginalCapture]:
        """Return the records of the digests that are known. One query: most of its price is the lock on the file."""
        sql = "SELECT digest, record_id, url, time FROM payload WHERE digest IN (SELECT value FROM json_each(?))"
        rows = self._database.read(sql, (msgspec.json.encode(list(digests)).decode(),)) if digests else []
        return {
            digest: OriginalCapture(record_id=record_id, uri=url, date=datetime.fromtimestamp(time, UTC))
            for digest, record_id, url, time in rows
        }

    def add(self, payloads: list[PayloadRecord]) -> None:
        """Remember payloads. The first record of a digest stays."""
        rows = [(key, one.record_id, one.uri, one.date.timestamp()) for key, one in payloads if one.date]
        if rows:
            with self._database.write_relaxed():
                self._database.many("INSERT INTO payload VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def close(self) -> None:
        self._database.close()
