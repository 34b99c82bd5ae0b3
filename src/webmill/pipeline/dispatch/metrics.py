"""What a batcher tells Prometheus: the names of the reference's batcher, counted from the start of this process."""

from __future__ import annotations

from collections.abc import Sequence

from webmill.infra.metrics import Counter, Gauge, Metrics
from webmill.pipeline.dispatch.blocks import ScanResult, SummaryRange

PORT = 9000

BATCHES = Counter("batcher_batches", "Batches published.")
DOCUMENTS = Counter("batcher_documents_total", "Lines of the index that were looked at.")
EMPTY = Counter("batcher_documents_empty_filtered", "Lines with nothing in them.")
LANGUAGE = Counter("batcher_documents_language_filtered", "Captures in other languages, or in none.")
STATUS = Counter("batcher_documents_status_filtered", "Captures with another HTTP status.")
ACCEPTED = Counter("batcher_documents_accepted", "Captures that are wanted.")
PROGRESS = Gauge("batcher_cluster_idx_progress_percent", "How far the summary is read, 0 to 100.")
CHUNKS = Counter("batcher_cdx_chunks_processed", "Blocks of the index that were looked through.")
CHUNKS_TOTAL = Gauge("batcher_cdx_chunks_total", "Blocks of the index that there are to look through.")
DOWNLOAD_ERRORS = Counter("batcher_cdx_download_errors", "Blocks of the index that could not be had.")
PARSE_ERRORS = Counter("batcher_cdx_parse_errors", "Blocks, or lines of the summary, that are damaged.")
JSON_ERRORS = Counter("batcher_json_parse_errors", "Lines of the index that are no captures.")
PUBLISH_ERRORS = Counter("batcher_publish_errors", "Times that the queue was out of reach.")

ALL = (
    BATCHES,
    DOCUMENTS,
    EMPTY,
    LANGUAGE,
    STATUS,
    ACCEPTED,
    PROGRESS,
    CHUNKS,
    CHUNKS_TOTAL,
    DOWNLOAD_ERRORS,
    PARSE_ERRORS,
    JSON_ERRORS,
    PUBLISH_ERRORS,
)
_BY_FILTER = {"blank": EMPTY, "language": LANGUAGE, "status": STATUS}
_BY_KIND = {"download": DOWNLOAD_ERRORS, "summary": PARSE_ERRORS, "block": PARSE_ERRORS, "line": JSON_ERRORS}


def count_scanned(metrics: Metrics, answer: ScanResult, *, accepted: int) -> None:
    metrics.count(CHUNKS, answer.blocks)
    metrics.count(DOCUMENTS, answer.lines)
    metrics.count(ACCEPTED, accepted)
    for name, metric in _BY_FILTER.items():
        metrics.count(metric, answer.filtered.get(name, 0))
    for reject in answer.rejects:
        metrics.count(_BY_KIND[reject.kind])


def count_published(metrics: Metrics, batches: int) -> None:
    metrics.count(BATCHES, batches)


def count_unpublished(metrics: Metrics) -> None:
    metrics.count(PUBLISH_ERRORS)


def show_progress(metrics: Metrics, extents: Sequence[SummaryRange], *, at: int, blocks: int) -> None:
    whole = sum(extent.high - extent.low for extent in extents)
    done = sum(max(0, min(at, extent.high) - extent.low) for extent in extents)
    metrics.set(PROGRESS, 100 * done / whole if whole else 100)
    metrics.set(CHUNKS_TOTAL, blocks)
