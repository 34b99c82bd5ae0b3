"""Servers that lie, break off, refuse, redirect and dawdle: what the HTTP storage makes of each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import count
from typing import Any

import pytest
from tests.contracts.range_server import RangeServer, serving

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.infra.storage.http import HttpReadLimits, HttpStorage

VALUE = bytes(range(256)) * 400
QUICK = HttpReadLimits(connect=5, silence=0.3)


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with serving() as running:
        yield running


@pytest.fixture
def http(server: RangeServer) -> Iterator[HttpStorage]:
    with HttpStorage(server.url, user_agent="webmill-test (+mailto:x@example.org)") as storage:
        yield storage


def read_range(http: HttpStorage, key: str = "k") -> bytes:
    return http.read(key, start=10, length=100)


# --- lies about a range ----------------------------------------------------------------------------------------------


def test_a_whole_file_for_a_range_is_refused_and_not_read(server: RangeServer, http: HttpStorage) -> None:
    huge = 1 << 30

    def lie(handler: Any) -> None:
        handler.answer(200, length=huge)
        for _ in range(huge >> 20):
            handler.send(bytes(1 << 20))

    server.lies["k"] = lie
    with pytest.raises(Unavailable, match="200"):
        read_range(http)
    server.values["next"] = VALUE
    assert read_range(http, "next") == VALUE[10:110]
    assert server.sent < 100 << 20  # what fits into the sockets' buffers, then the line was cut


WRONG_RANGES = ["bytes 0-99/1000", "bytes 10-108/1000", "bytes 10-110/1000", "bytes 11-110/1000", "bytes 9-109/1000"]
WRONG_RANGES += ["", "10-109/1000", "items 10-109/1000", "bytes 10", "bytes 10-109", "bytes */1000", "bytes 10-109/x"]
WRONG_RANGES += ["bytes 10-1²9/1000", "bytes 10-99999999999999999999/1000", "bytes 10-109/1000, bytes 10-109/1000"]


@pytest.mark.parametrize("stated", WRONG_RANGES)
def test_a_wrong_content_range_is_not_believed(server: RangeServer, http: HttpStorage, stated: str) -> None:
    server.lies["k"] = lambda handler: handler.answer(206, bytes(100), **{"Content-Range": stated})
    with pytest.raises(Unavailable):
        read_range(http)


def test_a_length_other_than_the_ranges_is_not_believed(server: RangeServer, http: HttpStorage) -> None:
    for body in (bytes(99), bytes(101)):
        server.lies["k"] = lambda handler, b=body: handler.answer(206, b, **{"Content-Range": "bytes 10-109/1000"})
        with pytest.raises(Unavailable):
            read_range(http)


def test_a_range_over_the_end_is_told_from_a_lie(server: RangeServer, http: HttpStorage) -> None:
    server.values["k"] = VALUE[:50]
    with pytest.raises(BadInput) as caught:
        read_range(http)
    assert caught.value.reason == "bad_range"


def test_another_etag_is_a_conflict_even_if_the_server_ignores_if_match(server: RangeServer, http: HttpStorage) -> None:
    server.lies["k"] = lambda handler: handler.answer(206, VALUE[:9], etag='"new"', **{"Content-Range": "bytes 0-8/9"})
    with pytest.raises(Conflict):
        http.read("k", length=9, etag='"old"')
    assert server.requests[-1][2]["If-Match"] == '"old"'
    with pytest.raises(Conflict):
        http.read("k", length=9, etag='W/"old"')
    assert "If-Match" not in server.requests[-1][2]  # a weak etag never matches there
    assert http.read("k", length=9, etag='"new"') == VALUE[:9]


def test_an_etag_from_a_forged_index_does_not_become_a_header(server: RangeServer, http: HttpStorage) -> None:
    server.values["k"] = VALUE
    for etag in ('"a"\r\nX-Evil: 1', '"é"', "\ud800"):
        with pytest.raises(Conflict):
            http.read("k", etag=etag)
    assert not any("X-Evil" in headers for _, _, headers in server.requests)


# --- bodies that break off -------------------------------------------------------------------------------------------


def cut(handler: Any) -> None:
    handler.answer(206, VALUE[10:60], length=100, **{"Content-Range": f"bytes 10-109/{len(VALUE)}"})
    handler.close_connection = True


def test_a_short_body_is_unavailable(server: RangeServer, http: HttpStorage) -> None:
    server.lies["k"] = cut
    with pytest.raises(Unavailable):
        read_range(http)
    with http.open("k", start=10, length=100) as stream, pytest.raises(Unavailable):
        stream.read()


def test_a_whole_file_cut_short_is_unavailable(server: RangeServer, http: HttpStorage) -> None:
    def lie(handler: Any) -> None:
        handler.answer(200, VALUE[:1000], length=len(VALUE))
        handler.close_connection = True

    server.lies["k"] = lie
    with pytest.raises(Unavailable):
        http.read("k")


def chunked(handler: Any, *chunks: bytes, end: bytes = b"0\r\n\r\n", length: str = "") -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    if length:
        handler.send_header("Content-Length", length)
    handler.end_headers()
    for chunk in chunks:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    handler.wfile.write(end)
    handler.close_connection = True


def test_a_chunked_body_is_read_to_its_end_and_not_less(server: RangeServer, http: HttpStorage) -> None:
    server.lies["k"] = lambda handler: chunked(handler, b"abc", b"def")
    assert http.read("k") == b"abcdef"
    for end in (b"", b"5\r\nab", b"zz\r\n"):
        server.lies["k"] = lambda handler, e=end: chunked(handler, b"abc", b"def", end=e)
        with pytest.raises(Unavailable):
            http.read("k")


def test_a_body_without_one_certain_end_is_refused(server: RangeServer, http: HttpStorage) -> None:
    def endless(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(b"until the line is cut")
        handler.close_connection = True

    server.lies["k"] = endless
    with pytest.raises(Misconfigured):
        http.read("k")
    server.lies["k"] = lambda handler: chunked(handler, b"abcdef", length="3")
    with pytest.raises(Misconfigured):
        http.read("k")


def test_more_than_fits_into_memory_is_refused_before_it_is_read(server: RangeServer, http: HttpStorage) -> None:
    server.lies["k"] = lambda handler: handler.answer(200, b"", length=1 << 40)
    with pytest.raises(BadInput) as caught:
        http.read("k")
    assert caught.value.reason == "too_large"


# --- statuses --------------------------------------------------------------------------------------------------------


MEANINGS: dict[type[WebmillError], tuple[int, ...]] = {
    NotFound: (404, 410),
    Conflict: (412,),
    BadInput: (416,),
    Unavailable: (206, 408, 425, 429, 500, 502, 503, 504),
    Misconfigured: (204, 304, 400, 401, 403, 405, 407, 451),
}


@pytest.mark.parametrize(("status", "error"), [(s, error) for error, statuses in MEANINGS.items() for s in statuses])
def test_a_status_means_what_the_caller_can_do(
    server: RangeServer, http: HttpStorage, status: int, error: type[WebmillError]
) -> None:
    server.lies["k"] = lambda handler: handler.answer(status)
    for read in (http.read, http.open):
        with pytest.raises(error):
            read("k")
    if status != 206:
        with pytest.raises(error):
            read_range(http)
        with pytest.raises(error):
            http.stat("k")


FUTURE = format_datetime(datetime(2999, 1, 1, tzinfo=UTC), usegmt=True)
PAST = format_datetime(datetime(1999, 1, 1, tzinfo=UTC), usegmt=True)
RETRY_AFTER = {"7": 7, "0": 0, "999999": 3600, FUTURE: 3600, PAST: 0}
RETRY_AFTER_NONSENSE = ["9" * 30, "-5", "soon", "", "Mon, 99 Foo", "1e3"]


@pytest.mark.parametrize(
    ("stated", "wait"), [*RETRY_AFTER.items(), *((stated, None) for stated in RETRY_AFTER_NONSENSE)]
)
def test_retry_after_is_read_and_clamped(
    server: RangeServer, http: HttpStorage, stated: str, wait: float | None
) -> None:
    server.lies["k"] = lambda handler: handler.answer(503, **{"Retry-After": stated})
    with pytest.raises(Unavailable) as caught:
        http.read("k")
    assert caught.value.retry_after == wait


# --- redirects -------------------------------------------------------------------------------------------------------


def test_redirects_are_followed_with_the_range(server: RangeServer, http: HttpStorage) -> None:
    server.values["new place"] = VALUE
    server.lies["k"] = lambda handler: handler.answer(302, Location="/data/new%20place")
    assert read_range(http) == VALUE[10:110]
    assert http.stat("k").size == len(VALUE)


def test_redirects_in_a_circle_end(server: RangeServer, http: HttpStorage) -> None:
    server.lies["k"] = lambda handler: handler.answer(301, Location="k")
    with pytest.raises(Misconfigured):
        http.read("k")
    assert len(server.requests) == HttpReadLimits().redirects + 1


@pytest.mark.parametrize("location", ["", "file:///etc/passwd", "ftp://example.org/x", "http://[::1"])
def test_a_redirect_to_elsewhere_than_http_is_not_followed(
    server: RangeServer, http: HttpStorage, location: str
) -> None:
    server.lies["k"] = lambda handler: handler.answer(302, Location=location)
    with pytest.raises((Misconfigured, Unavailable)):
        http.read("k")
    assert len(server.requests) == 1


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_server_that_falls_silent_is_unavailable(server: RangeServer) -> None:
    def before_the_head(handler: Any) -> None:
        server.over.wait(60)

    def in_the_body(handler: Any) -> None:
        handler.answer(200, b"some", length=100)
        server.over.wait(60)

    with HttpStorage(server.url, user_agent="t", limits=QUICK) as http:
        for lie in (before_the_head, in_the_body):
            server.lies["k"] = lie
            with pytest.raises(Unavailable):
                http.read("k")


def test_a_body_that_drips_is_given_up_at_the_deadline(server: RangeServer) -> None:
    """By a clock on which each read of the socket takes a minute."""
    server.values["k"] = VALUE
    ticks = count(step=60)
    with HttpStorage(server.url, user_agent="t", limits=HttpReadLimits(total=59), clock=lambda: next(ticks)) as http:
        server.lies["k"] = lambda handler: handler.answer(200, b"x" * 100)
        with pytest.raises(Unavailable, match="slower"):
            http.read("k")
        with http.open("k") as stream, pytest.raises(Unavailable, match="slower"):
            stream.read()


def test_the_time_the_caller_takes_between_two_reads_does_not_count(server: RangeServer) -> None:
    server.values["k"] = VALUE
    now = [0.0]
    with HttpStorage(server.url, user_agent="t", clock=lambda: now[0]) as http, http.open("k") as stream:
        parts = []
        while part := stream.read(10_000):
            parts.append(part)
            now[0] += 10_000
        assert b"".join(parts) == VALUE


def test_nobody_listening_is_unavailable(server: RangeServer) -> None:
    with serving() as gone:
        url = gone.url
    with HttpStorage(url, user_agent="t", limits=QUICK) as http, pytest.raises(Unavailable) as caught:
        http.stat("k")
    assert str(caught.value) == f"{url}/k: the server does not answer: connection refused"


@pytest.mark.parametrize("lie", ["silent", "gone", "torn"])
def test_why_there_is_no_answer_is_told_in_words(server: RangeServer, lie: str) -> None:
    def answer(handler: Any) -> None:
        if lie == "silent":
            server.over.wait(60)
        elif lie == "torn":
            handler.answer(200, b"half", length=8)
        handler.close_connection = True

    server.lies["k"] = answer
    limits = QUICK if lie == "silent" else HttpReadLimits()
    with HttpStorage(server.url, user_agent="t", limits=limits) as http, pytest.raises(Unavailable) as caught:
        http.read("k")
    reported = str(caught.value)
    words = {
        "silent": "silent for too long",
        "gone": "remote end closed",
        "torn": "the answer broke off: it ended early",
    }
    assert words[lie] in reported
    assert "HTTPConnection" not in reported
    assert "Error" not in reported


# --- manners ---------------------------------------------------------------------------------------------------------


def test_we_say_who_we_are_and_want_the_bytes_as_they_are(server: RangeServer, http: HttpStorage) -> None:
    server.values["a b/ü#?%.gz"] = VALUE
    read_range(http, "a b/ü#?%.gz")
    _, path, headers = server.requests[-1]
    assert path == "/data/a%20b/%C3%BC%23%3F%25.gz"
    assert headers["User-Agent"] == "webmill-test (+mailto:x@example.org)"
    assert headers["Accept-Encoding"] == "identity"
    assert headers["Range"] == "bytes=10-109"


def test_content_labelled_gzip_is_not_unpacked(server: RangeServer, http: HttpStorage) -> None:
    server.lies["k"] = lambda handler: handler.answer(200, b"\x1f\x8b raw", **{"Content-Encoding": "gzip"})
    assert http.read("k") == b"\x1f\x8b raw"


def test_the_environments_proxy_is_not_used(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.values["k"] = VALUE
    with serving() as trap:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, trap.url)
        with HttpStorage(server.url, user_agent="t") as http:
            assert http.read("k") == VALUE
        assert trap.requests == []
        with HttpStorage(server.url, user_agent="t", proxy=trap.url) as http, pytest.raises(NotFound):
            http.read("k")
        assert len(trap.requests) == 1  # asked for, it is used


def test_connections_are_kept(server: RangeServer, http: HttpStorage) -> None:
    server.values["k"] = VALUE
    seen = set()

    def note(handler: Any) -> None:
        seen.add(handler.client_address)
        handler.honest(VALUE)

    server.lies["k"] = note
    for _ in range(5):
        assert http.stat("k").size == len(VALUE)
        assert read_range(http) == VALUE[10:110]
        assert http.read("k") == VALUE
    assert len(seen) == 1


@pytest.mark.parametrize("url", ["ftp://example.org", "example.org", "", "http://", "file:///etc", "http://[::1"])
def test_an_address_that_is_not_http_is_the_operators_matter(url: str) -> None:
    with pytest.raises(Misconfigured):
        HttpStorage(url, user_agent="t")
