"""Write captures, each payload once: a page that was archived before becomes a short `revisit` record.

Which payloads are archived is kept in SQLite. A row is written after its record is durable, without a sync of its own:
one that a power cut took away only costs storing that payload a second time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec

from webmill.crawl.archive import CaptureWriter
from webmill.crawl.frontier.base import Outcome, VisitDone
from webmill.crawl.scheduler.batch import PayloadRecord, WrittenRecords
from webmill.crawl.visit.outcome import VisitResult
from webmill.formats.http.head import end_of_head
from webmill.formats.warc import digest
from webmill.formats.warc.capture import Capture, WrittenCapture
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.infra.sqlite import Database, Schema

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


class CaptureArchiver:
    def __init__(self, writer: CaptureWriter, payloads: ArchivedPayloads) -> None:
        self._writer, self._payloads = writer, payloads

    def write(self, results: Sequence[VisitResult], written: WrittenRecords) -> None:
        """Write the captures of results that are not in `written` yet, and add them to it."""
        waiting = results[len(written.results) :]
        captures = [_add_digest(capture) for result in waiting for capture in result.captures]
        known = dict(written.payloads)
        known |= self._payloads.find({capture.digest for capture in captures})
        described = iter(self._writer.describe([_deduplicate(capture, known) for capture in captures]))
        for result in waiting:
            own = list(islice(described, len(result.captures)))
            written.results.append(self._write_result(result, own, known, written))

    def sync(self) -> None:
        """Make all records durable. When this raises, those since the last sync are lost."""
        self._writer.sync()

    def remember_payloads(self, written: WrittenRecords) -> None:
        """Let later batches find the payloads of durable records."""
        self._payloads.add(written.payloads)

    def _write_result(
        self, result: VisitResult, captures: list[Capture], known: dict[str, OriginalCapture], written: WrittenRecords
    ) -> VisitResult:
        """Return the result with the place of its record. Its payloads are known to the results behind it."""
        record, original = None, None
        for made in result.records:  # first: where the capture of the page is, these are
            self._writer.append_record(made)
        for whole in captures:
            capture = _deduplicate(whole, known)
            record = self._writer.append(capture)
            written.revisits += capture.kind != "response"
            own = OriginalCapture(record_id=record.record_id, uri=capture.exchange.url, date=capture.exchange.date)
            original = capture.original or own
            if _can_be_original(capture):
                written.payloads.append((record.capture.digest, own))
                known[record.capture.digest] = own
            if not result.outcome or capture.exchange.url != result.outcome.url:  # a robots.txt, fetched first
                record = original = None
        return msgspec.structs.replace(result, outcome=_add_place(result.outcome, record, original))


def _add_digest(capture: Capture) -> Capture:
    """Return the capture with its payload's digest, where an earlier record may have that payload."""
    if capture.kind != "response" or capture.subset != "warc" or capture.exchange.truncated or capture.is_rendered:
        return capture
    response = capture.exchange.response
    payload = memoryview(response)[end_of_head(response) or len(response) :]
    return msgspec.structs.replace(capture, digest=digest.compute(payload)) if len(payload) >= MIN_PAYLOAD else capture


def _deduplicate(capture: Capture, known: Mapping[str, OriginalCapture]) -> Capture:
    original = known.get(capture.digest)
    return msgspec.structs.replace(capture, kind="identical", original=original) if original else capture


def _can_be_original(capture: Capture) -> bool:
    """Tell whether a revisit record may refer to this one: it is whole, a page, and found in the index by its URL."""
    exchange = capture.exchange
    whole = capture.kind == "response" and capture.subset == "warc" and not exchange.truncated
    return whole and len(exchange.response) > MIN_PAYLOAD and exchange.request.startswith(b"GET ")


def _add_place(
    outcome: Outcome | None, record: WrittenCapture | None, original: OriginalCapture | None
) -> Outcome | None:
    """Return the outcome with where its capture lies. `original` is what a later revisit of this URL will refer to,
    unless the visit says that it is an older one."""
    if not isinstance(outcome, VisitDone) or record is None or original is None:
        return outcome
    capture = record.capture
    visit = msgspec.structs.replace(
        outcome.visit, filename=capture.filename, offset=capture.offset, length=capture.length
    )
    if visit.record_id:
        return msgspec.structs.replace(outcome, visit=visit)
    visit = msgspec.structs.replace(
        visit,
        record_id=original.record_id or record.record_id,
        record_url=original.uri or "" if original.uri != outcome.visit.url else "",
        record_time=original.date.timestamp() if original.date else 0.0,
        digest=capture.digest or outcome.visit.digest,
    )
    return msgspec.structs.replace(outcome, visit=visit)


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
