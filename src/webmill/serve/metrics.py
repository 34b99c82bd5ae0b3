"""What a server counts."""

from __future__ import annotations

from webmill.infra.metrics import Counter, Gauge, Histogram, Metric

KINDS = ("delivery", "files", "cdx", "capture", "replay", "search", "page", "control", "operations")
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
REFUSALS = (
    *("junk", "slow_request", "slow_reader", "large_head", "large_body", "pipelined"),  # what they sent, and how
    *("too_many", "too_many_of_one", "rate"),  # how much
    *("host", "origin", "method", "token"),  # what they may not
)

REQUESTS = Counter(
    "webmill_serve_requests", "Requests by what was asked for and how it ended.", {"kind": KINDS, "status": STATUSES}
)
BYTES = Counter("webmill_serve_bytes", "Bytes of bodies sent.", {"kind": KINDS})
SECONDS = Histogram("webmill_serve_seconds", "Seconds until an answer was sent.", {"kind": KINDS})
REFUSED = Counter("webmill_serve_refused", "Requests and connections refused, by reason.", {"reason": REFUSALS})
DAMAGED = Counter("webmill_serve_damaged", "Files that are not what their name or manifest says, and were not sent.")
BAD_LINES = Counter("webmill_serve_bad_lines", "Lines of an index that are no CDXJ, left out of answers.")
CACHED = Gauge("webmill_serve_cached_bytes", "Bytes of published files kept in memory.")
CONNECTIONS = Gauge("webmill_serve_connections", "Connections that are open.")

METRICS: list[Metric] = [REQUESTS, BYTES, SECONDS, REFUSED, DAMAGED, BAD_LINES, CACHED, CONNECTIONS]


def status_class(status: int) -> str:
    return "429" if status == 429 else f"{status // 100}xx"
