"""The metrics of a server."""

from __future__ import annotations

from webmill.infra.metrics import Counter, Gauge, Histogram, Metric

KINDS = ("delivery", "files", "cdx", "capture", "replay", "search", "page", "control", "operations")
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
REFUSALS = (
    *("junk", "slow_request", "slow_reader", "large_head", "large_body", "pipelined"),  # malformed or slow
    *("too_many", "too_many_of_one", "rate", "ignored"),  # over a limit
    *("host", "origin", "method", "token"),  # not allowed
)

REQUESTS = Counter("webmill_serve_requests", "Requests, by kind and status.", {"kind": KINDS, "status": STATUSES})
BYTES = Counter("webmill_serve_bytes", "Bytes of response bodies sent.", {"kind": KINDS})
SECONDS = Histogram("webmill_serve_seconds", "Seconds until the response was sent.", {"kind": KINDS})
REFUSED = Counter("webmill_serve_refused", "Refused requests and connections, by reason.", {"reason": REFUSALS})
DAMAGED = Counter("webmill_serve_damaged", "Published files that do not match their hash and were not sent.")
BAD_LINES = Counter("webmill_serve_bad_lines", "Index lines that are not CDXJ and were left out.")
CACHED = Gauge("webmill_serve_cached_bytes", "Bytes of published files in the cache.")
CONNECTIONS = Gauge("webmill_serve_connections", "Open connections.")

METRICS: list[Metric] = [REQUESTS, BYTES, SECONDS, REFUSED, DAMAGED, BAD_LINES, CACHED, CONNECTIONS]


def status_class(status: int) -> str:
    return "429" if status == 429 else f"{status // 100}xx"
