"""The worker's counters, by the names of the pipeline that webmill takes the place of."""

from __future__ import annotations

from webmill.infra.metrics import Counter, Metrics
from webmill.pipeline.extract.totals import TaskTotals

PORT = 9001

BATCHES = Counter("worker_batches", "Batches whose documents are durable.")
ITEMS = Counter("worker_batch_items_total", "Captures in the batches that were received.")
PROCESSED = Counter("worker_batch_items_processed", "Captures that became a row, or were filtered.")
DOWNLOADED = Counter("worker_download_bytes_total", "Bytes read from the archive.")
RECORDS = Counter("worker_warc_records_total", "WARC records read.")
RESPONSES = Counter("worker_warc_records_response", "WARC records read that are responses.")
OTHER_RECORDS = Counter("worker_warc_records_non_response", "WARC records read that are no responses.")
EXTRACTED = Counter("worker_documents_extracted", "Pages with text.")
NOT_EXTRACTED = Counter("worker_documents_extraction_failed", "Pages without text, or that broke the extractor.")
WRITTEN = Counter("worker_documents_written", "Rows made durable.")
UPLOADED = Counter("worker_upload_bytes_total", "Bytes made durable.")
UPLOAD_ERRORS = Counter("worker_upload_errors", "Writes that failed.")
DOWNLOAD_ERRORS = Counter("worker_batch_item_download_errors", "Captures that could not be fetched.")
PARSE_ERRORS = Counter("worker_batch_item_parse_errors", "Captures that are no whole WARC record of their URL.")
BATCH_ERRORS = Counter("worker_batch_processing_errors", "Batches that were given back or buried.")

ALL = (
    BATCHES,
    ITEMS,
    PROCESSED,
    DOWNLOADED,
    RECORDS,
    RESPONSES,
    OTHER_RECORDS,
    EXTRACTED,
    NOT_EXTRACTED,
    WRITTEN,
    UPLOADED,
    UPLOAD_ERRORS,
    DOWNLOAD_ERRORS,
    PARSE_ERRORS,
    BATCH_ERRORS,
)
BY_OUTCOME = {
    "ok": EXTRACTED,
    "empty": NOT_EXTRACTED,
    "parse_limit": NOT_EXTRACTED,
    "parse_crash": NOT_EXTRACTED,
    "parse_error": NOT_EXTRACTED,
    "not_found": DOWNLOAD_ERRORS,
    "bad_place": DOWNLOAD_ERRORS,
    "bad_record": PARSE_ERRORS,
    "bad_item": PARSE_ERRORS,
}


def count_task(metrics: Metrics, totals: TaskTotals) -> None:
    """Count what a task has made, once it is durable."""
    outcomes = totals.outcomes
    unread = sum(outcomes.get(name, 0) for name in ("not_found", "bad_place", "bad_record", "bad_item"))
    others = outcomes.get("revisit", 0) + outcomes.get("not_response", 0)
    metrics.count(BATCHES)
    metrics.count(ITEMS, totals.captures)
    metrics.count(PROCESSED, totals.captures)
    metrics.count(RECORDS, totals.captures - unread)
    metrics.count(RESPONSES, totals.captures - unread - others)
    metrics.count(OTHER_RECORDS, others)
    metrics.count(WRITTEN, totals.documents)
    metrics.count(UPLOADED, totals.written)
    metrics.count(DOWNLOADED, totals.downloaded)
    for outcome, counter in BY_OUTCOME.items():
        metrics.count(counter, outcomes.get(outcome, 0))


def count_failure(metrics: Metrics) -> None:
    """Count a task that was given back or failed."""
    metrics.count(BATCH_ERRORS)
