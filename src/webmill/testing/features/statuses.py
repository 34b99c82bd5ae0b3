"""Status codes, and the many ways to say "later" (N19)."""

from __future__ import annotations

from collections import Counter

from webmill.testing.exchange import Answer, Reply, Request
from webmill.testing.features.base import Feature, Shelf, page, whole_number

HOST = "codes.mill.example"

_LATER = (
    ("seconds", "2"),
    ("date", "Fri, 01 Jan 2100 00:00:00 GMT"),
    ("past", "Sat, 01 Jan 2000 00:00:00 GMT"),
    ("ten-years", "315360000"),
    ("negative", "-30"),
    ("words", "soon"),
    ("digits", "9" * 400),
)


def features() -> list[Feature]:
    shelf = Shelf(HOST)
    for status in (400, 403, 404, 410, 418, 429, 451, 500, 502, 503, 504):
        shelf.put(f"/{status}", str(status), _status(status))
    shelf.put("/401", "401 with WWW-Authenticate: Basic", _status(401, ("WWW-Authenticate", 'Basic realm="mill"')))
    shelf.put("/204", "204, no body", Reply(status=204, media_type=""))
    shelf.put("/206", "206 that nobody asked for", Reply(status=206, body=b"part", headers=_PART))
    shelf.put("/300", "300 with two links", Reply(status=300, body=page("Choose", links=["/200", "/404"]).body))
    shelf.put("/200", "200", page("Fine"))
    for name, value in _LATER:
        shown = value if len(value) < 40 else "400 digits"
        shelf.put(f"/503-{name}", f"503, Retry-After: {shown}", _status(503, ("Retry-After", value)))
    shelf.put("/429-seconds", "429, Retry-After: 2", _status(429, ("Retry-After", "2")))
    shelf.add("/flaky/*", "503 for the first N requests of this path, then 200", _Flaky(), start="/flaky/2")
    return shelf.features


_PART = (("Content-Range", "bytes 0-3/100"),)


def _status(status: int, *headers: tuple[str, str]) -> Reply:
    return Reply(status=status, headers=headers, body=page(f"Status {status}").body)


class _Flaky:
    """Remembers how often each path was asked; at most a thousand of them."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> Answer:
        failures = whole_number(request.path.split("/")[2], default=1, most=1000)
        if len(self._asked) < 1000 or request.path in self._asked:
            self._asked[request.path] += 1
        return page("At last") if self._asked.get(request.path, 0) > failures else _status(503)
