"""What a server counts."""

from __future__ import annotations

from webmill.infra.metrics import Counter, Histogram, Metric

KINDS = ("delivery", "files", "cdx", "capture", "replay", "search", "page", "control", "operations")
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")

REQUESTS = Counter(
    "webmill_serve_requests", "Requests by what was asked for and how it ended.", {"kind": KINDS, "status": STATUSES}
)
BYTES = Counter("webmill_serve_bytes", "Bytes of bodies sent.", {"kind": KINDS})
SECONDS = Histogram("webmill_serve_seconds", "Seconds until an answer was sent.", {"kind": KINDS})

METRICS: list[Metric] = [REQUESTS, BYTES, SECONDS]
