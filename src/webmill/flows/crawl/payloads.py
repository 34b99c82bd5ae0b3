"""Which payloads a crawl has archived already, so that a page that comes again is a short `revisit` record.

A row is written after its record is durable, without a sync of its own: one that a power cut took away only costs
storing that payload a second time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from webmill.formats.warc_records import Original
from webmill.infra.sqlite import Database, Schema

Payload = tuple[str, Original]  # digest, and the record that has it
LEAST = 256  # bytes: below that a revisit record is no shorter than the payload

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


class Payloads:
    def __init__(self, path: Path) -> None:
        self._database = Database(path, schema=SCHEMA)

    def find(self, digest: str) -> Original | None:
        rows = self._database.read("SELECT record_id, url, time FROM payload WHERE digest = ?", (digest,))
        if not rows:
            return None
        record_id, url, time = rows[0]
        return Original(record_id=record_id, uri=url, date=datetime.fromtimestamp(time, UTC))

    def add(self, payloads: list[Payload]) -> None:
        """The first of a digest stays."""
        rows = [(key, one.record_id, one.uri, one.date.timestamp()) for key, one in payloads if one.date]
        if rows:
            with self._database.write_relaxed():
                self._database.many("INSERT INTO payload VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", rows)

    def close(self) -> None:
        self._database.close()
