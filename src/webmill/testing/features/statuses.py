"""Status codes, and every form of Retry-After (N19)."""

from __future__ import annotations

from collections import Counter

from webmill.testing.exchange import Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures, page, whole_number

HOST = "codes.mill.example"

_RETRY_AFTER = (
    ("seconds", "2"),
    ("date", "Fri, 01 Jan 2100 00:00:00 GMT"),
    ("past", "Sat, 01 Jan 2000 00:00:00 GMT"),
    ("ten-years", "315360000"),
    ("negative", "-30"),
    ("words", "soon"),
    ("digits", "9" * 400),
)


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    for status in (400, 403, 404, 410, 418, 429, 451, 500, 502, 503, 504):
        table.put(f"/{status}", str(status), _status(status))
    table.put("/401", "401 with WWW-Authenticate: Basic", _status(401, ("WWW-Authenticate", 'Basic realm="mill"')))
    table.put("/204", "204, no body", HttpReply(status=204, media_type=""))
    table.put("/206", "206 that nobody asked for", HttpReply(status=206, body=b"part", headers=_PART))
    table.put("/300", "300 with two links", HttpReply(status=300, body=page("Choose", links=["/200", "/404"]).body))
    table.put("/200", "200", page("Fine"))
    for name, value in _RETRY_AFTER:
        shown = value if len(value) < 40 else "400 digits"
        table.put(f"/503-{name}", f"503, Retry-After: {shown}", _status(503, ("Retry-After", value)))
    table.put("/429-seconds", "429, Retry-After: 2", _status(429, ("Retry-After", "2")))
    table.add("/flaky/*", "503 for the first N requests of this path, then 200", _Flaky(), start="/flaky/2")
    return table.features


_PART = (("Content-Range", "bytes 0-3/100"),)


def _status(status: int, *headers: tuple[str, str]) -> HttpReply:
    return HttpReply(status=status, headers=headers, body=page(f"Status {status}").body)


class _Flaky:
    """Fails the first N requests of each path; remembers at most a thousand paths."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()

    def __call__(self, request: ReceivedRequest) -> Answer:
        failures = whole_number(request.path.split("/")[2], default=1, most=1000)
        if len(self._requests) < 1000 or request.path in self._requests:
            self._requests[request.path] += 1
        return page("At last") if self._requests.get(request.path, 0) > failures else _status(503)
