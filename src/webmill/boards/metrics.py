"""What a publisher counts, for Prometheus."""

from __future__ import annotations

from webmill.infra.metrics import Counter, Gauge, Metric

PORT = 8003

JOBS = Counter(
    "webmill_publish_jobs", "Boards by how they ended.", {"result": ("done", "failed", "given_up", "over", "retried")}
)
ITEMS = Counter("webmill_publish_items", "Notices handed in.")
BLOBS = Counter(
    "webmill_publish_blobs", "Blobs by what became of them.", {"result": ("written", "present", "repaired")}
)
WRITTEN = Counter("webmill_publish_blob_bytes", "Bytes of blobs written.")
RUNS = Counter(
    "webmill_publish_runs", "Runs by how they ended.", {"result": ("published", "unchanged", "refused", "failed")}
)
LIVE = Gauge("webmill_publish_items_live", "Items of the last version.")
STALE = Gauge("webmill_publish_items_stale", "Items of the last version that are kept from an earlier one.")

OF_WORKERS: tuple[Metric, ...] = (JOBS, ITEMS, BLOBS, WRITTEN)
OF_RUNS: tuple[Metric, ...] = (RUNS, LIVE, STALE)
