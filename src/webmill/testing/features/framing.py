"""Broken framing (N12, N13, N16): what a server sends by mistake, or so that two readers disagree where a body ends.

Every answer ends with a FIN unless the table says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from webmill.testing.exchange import Answer, Cut, ReceivedRequest, ScriptedReply
from webmill.testing.features.base import Feature, HostFeatures, whole_number

HOST = "broken.harvest.test"
BODY = b"<!doctype html><title>Broken</title><p>The body of a broken answer.\n"
_N = len(BODY)
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_ONE_CHUNK = b"%x\r\n%s\r\n" % (_N, BODY)
WHOLE = _OK + b"Content-Length: %d\r\n\r\n" % _N + BODY  # what /rst/N and /fin/N cut
SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"


def _fields(*lines: bytes) -> bytes:
    return _OK + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


_LENGTH = b"Content-Length: %d" % _N
_LAST = b"0\r\n\r\n"
_SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: mill\r\nConnection: upgrade\r\n\r\n\x00\x01"
_BOTH = _fields(b"Content-Length: 5", b"Transfer-Encoding: chunked")
_TRAILED = b"%x;a=b\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n" % (_N, BODY)
_FOLDED_FIRST = b"HTTP/1.1 200 OK\r\n  folded\r\n%s\r\n\r\n" % _LENGTH
_TWICE = _fields(b"Transfer-Encoding: chunked, chunked")
_LONG_LINE = b"5;%s\r\nhello\r\n" % (b"x" * 1_000_000)
CASES: tuple[tuple[str, str, int, bytes], ...] = (
    ("/no-length", "no length: the body ends with the connection (proper)", 200, _fields(b"Connection: close") + BODY),
    ("/chunked", "chunks with extension and trailer (proper)", 200, _CHUNKED + _TRAILED),
    ("/length-and-chunked", "Content-Length: 5 and chunked", 200, _BOTH + _ONE_CHUNK + _LAST),
    ("/two-lengths", "two different Content-Lengths", 200, _fields(_LENGTH, b"Content-Length: 5") + BODY),
    ("/same-lengths", "the same Content-Length twice", 200, _fields(_LENGTH, _LENGTH) + BODY),
    ("/list-length", "Content-Length: N, N", 200, _fields(b"Content-Length: %d, %d" % (_N, _N)) + BODY),
    ("/negative-length", "Content-Length: -5", 200, _fields(b"Content-Length: -5") + BODY),
    ("/plus-length", "Content-Length: +N", 200, _fields(b"Content-Length: +%d" % _N) + BODY),
    ("/word-length", "Content-Length: ten", 200, _fields(b"Content-Length: ten") + BODY),
    ("/huge-length", "Content-Length of 10^18, then N bytes", 200, _fields(b"Content-Length: %d" % 10**18) + BODY),
    ("/short-body", "ten bytes fewer than Content-Length", 200, _fields(b"Content-Length: %d" % (_N + 10)) + BODY),
    ("/long-body", "ten bytes more than Content-Length", 200, _fields(b"Content-Length: %d" % (_N - 10)) + BODY),
    ("/chunk-bad-size", "chunk size `xyz`", 200, _CHUNKED + b"xyz\r\n" + BODY),
    ("/chunk-huge-size", "chunk size of 17 digits", 200, _CHUNKED + b"fffffffffffffffff\r\n" + BODY),
    ("/chunk-negative-size", "chunk size `-1`", 200, _CHUNKED + b"-1\r\n" + BODY),
    ("/chunk-cut", "ends inside a chunk", 200, _CHUNKED + _ONE_CHUNK[:-12]),
    ("/chunk-no-last", "no last chunk", 200, _CHUNKED + _ONE_CHUNK),
    ("/chunk-lf", "chunk lines end in LF only", 200, _CHUNKED + (_ONE_CHUNK + _LAST).replace(b"\r\n", b"\n")),
    ("/chunk-long-line", "a chunk extension of 1 MB", 200, _CHUNKED + _LONG_LINE + _LAST),
    ("/chunked-twice", "Transfer-Encoding: chunked, chunked", 200, _TWICE + _ONE_CHUNK + _LAST),
    ("/chunked-unknown", "Transfer-Encoding: mill", 200, _fields(b"Transfer-Encoding: mill") + BODY),
    ("/chunked-lie", "says chunked, is plain", 200, _CHUNKED + BODY),
    ("/lf-only", "header lines end in LF only", 200, WHOLE.replace(b"\r\n", b"\n")),
    ("/bare-cr", "a CR inside a field value", 200, _fields(_LENGTH, b"X-Odd: a\rb") + BODY),
    ("/folded", "a folded field (obs-fold)", 200, _fields(b"X-Folded: one\r\n two", _LENGTH) + BODY),
    ("/folded-first", "the first line after the status is folded", 200, _FOLDED_FIRST + BODY),
    ("/nul", "NUL in a field value", 200, _fields(b"X-Nul: a\x00b", _LENGTH) + BODY),
    ("/raw-bytes", "a field of raw UTF-8 and Latin-1 bytes", 200, _fields(b"X-Raw: m\xc3\xbchle \xfc", _LENGTH) + BODY),
    ("/no-colon", "a line without colon", 200, _fields(b"no colon here", _LENGTH) + BODY),
    ("/no-name", "a field without name", 200, _fields(b": nameless", _LENGTH) + BODY),
    ("/space-before-colon", "`Content-Length : N`", 200, _fields(b"Content-Length : %d" % _N) + BODY),
    ("/http09", "only the body: HTTP/0.9", 0, BODY),
    ("/http2-line", "status line `HTTP/2 200`", 200, WHOLE.replace(b"HTTP/1.1 200 OK", b"HTTP/2 200")),
    ("/http99", "status line `HTTP/9.9 200 OK`", 200, WHOLE.replace(b"HTTP/1.1", b"HTTP/9.9")),
    ("/icy", "status line `ICY 200 OK`", 200, WHOLE.replace(b"HTTP/1.1", b"ICY")),
    ("/status-99999", "status 99999", 99999, WHOLE.replace(b"200", b"99999")),
    ("/status-0", "status 000", 0, WHOLE.replace(b"200", b"000")),
    ("/status-word", "status `OK`", 0, WHOLE.replace(b"200 OK", b"OK")),
    ("/no-reason", "no reason phrase, not even the space (proper enough)", 200, WHOLE.replace(b" OK", b"")),
    ("/blank-first", "two empty lines before the status line", 200, b"\r\n\r\n" + WHOLE),
    ("/junk", "1,000 binary bytes", 0, (bytes(range(128, 256)) * 8)[:1000]),
    ("/no-end-of-head", "the head never ends, then FIN", 200, _OK + _LENGTH),
    ("/body-on-204", "204 with a body", 204, WHOLE.replace(b"200 OK", b"204 No Content")),
    ("/body-on-304", "304 with a body, to no condition", 304, WHOLE.replace(b"200 OK", b"304 Not Modified")),
    ("/101", "101 Switching Protocols that nobody asked for", 101, _SWITCH),
    ("/nothing", "FIN without a byte", 0, b""),
)


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    for path, description, status, data in CASES:
        table.put(path, description, ScriptedReply(status=status, steps=(data,)))
    table.put("/two-answers", "two answers to one request; the connection stays open", _two_answers())
    table.add("/rst/*", "the first N bytes of a proper answer, then RST", _cut(Cut.RST), start="/rst/100")
    table.add("/fin/*", "the first N bytes of a proper answer, then FIN", _cut(Cut.FIN), start="/fin/100")
    return table.features


def _two_answers() -> ScriptedReply:
    return ScriptedReply(steps=(WHOLE + SECOND,), reuse=True)


def _cut(how: Cut) -> Callable[[ReceivedRequest], Answer]:
    def answer(request: ReceivedRequest) -> Answer:
        length = whole_number(request.path.split("/")[2], default=0, most=len(WHOLE))
        return ScriptedReply(status=200 if length else 0, steps=(WHOLE[:length], how))

    return answer
