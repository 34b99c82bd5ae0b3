"""Slow and endless answers (N07, N08, N09). They end at the limits of the server, or when the client disconnects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count, repeat

from webmill.testing.exchange import Answer, ReceivedRequest, ScriptedReply, Step, Wait
from webmill.testing.features.base import Feature, HostFeatures

HOST = "slow.harvest.test"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
_PAGE = b"<!doctype html><title>Slow</title><p>All good things come slowly to those who wait."
_WHOLE = _HEAD + b"Content-Length: %d\r\n\r\n" % len(_PAGE) + _PAGE


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    table.add("/body", "a proper answer, the body one byte per beat", _play(_slow_body))
    table.add("/header", "a proper answer, all of it one byte per beat", _play(lambda: _drip(_WHOLE)))
    table.add("/late", "a proper answer after 20 beats", _play(lambda: [Wait(20), _WHOLE]))
    table.add("/silent", "nothing for 1,000 beats, then the connection ends", _play(lambda: [Wait(1000)]))
    table.add("/stall", "the head and half of the body, then nothing for 1,000 beats", _play(_stall))
    table.add("/drip", "a body without end, one byte per beat", _play(_endless_drip))
    table.add(
        "/endless", "a body without end and without length", _play(lambda: _endless(_HEAD + b"\r\n", b"z" * 65536))
    )
    table.add("/endless-chunks", "chunks without end", _play(_endless_chunks))
    table.add(
        "/tiny-chunks", "chunks of one byte, without end", _play(lambda: _endless(_CHUNKED, b"1\r\nz\r\n" * 10_000))
    )
    table.add(
        "/chunk-extensions",
        "chunks of one byte with 4,000 bytes of extension, without end",
        _play(lambda: _endless(_CHUNKED, b"1;" + b"x" * 4000 + b"\r\nz\r\n")),
    )
    table.add(
        "/endless-head", "header fields without end", _play(lambda: _endless(_HEAD, b"X-More: and more\r\n" * 100))
    )
    table.add("/drip-head", "header fields without end, one per beat", _play(_drip_head))
    table.add(
        "/endless-100",
        "`100 Continue` without end",
        _play(lambda: _endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100)),
    )
    table.add("/103", "one `103 Early Hints`, then a proper answer", _play(lambda: [_HINT, _WHOLE]))
    table.add("/big-field", "one field of 10 MB, then a proper answer", _play(_big_field))
    table.add("/many-fields", "500,000 fields, then a proper answer", _play(_many_fields))
    return table.features


_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
_HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
_REST = _WHOLE.removeprefix(b"HTTP/1.1 200 OK\r\n")


def _play(steps: Callable[[], Iterable[Step]]) -> Callable[[ReceivedRequest], Answer]:
    return lambda _: ScriptedReply(steps=steps())


def _drip(data: bytes) -> Iterator[Step]:
    for byte in data:
        yield bytes([byte])
        yield Wait()


def _slow_body() -> Iterator[Step]:
    yield _WHOLE.removesuffix(_PAGE)
    yield from _drip(_PAGE)


def _stall() -> Iterator[Step]:
    yield _WHOLE[: -len(_PAGE) // 2]
    yield Wait(1000)


def _endless(start: bytes, again: bytes) -> Iterator[Step]:
    yield start
    yield from repeat(again)


def _endless_drip() -> Iterator[Step]:
    yield _HEAD + b"\r\n"
    for _ in count():
        yield from (b"z", Wait())


def _endless_chunks() -> Iterator[Step]:
    return _endless(_CHUNKED, b"1000\r\n" + b"z" * 4096 + b"\r\n")


def _drip_head() -> Iterator[Step]:
    yield _HEAD
    for n in count():
        yield from (b"X-Drop-%d: 1\r\n" % n, Wait())


def _big_field() -> Iterator[Step]:
    yield b"HTTP/1.1 200 OK\r\nX-Big: "
    yield from repeat(b"z" * 100_000, 100)
    yield b"\r\n" + _REST


def _many_fields() -> Iterator[Step]:
    yield b"HTTP/1.1 200 OK\r\n"
    for n in range(0, 500_000, 1000):
        yield b"".join(b"X-Field-%d: 1\r\n" % each for each in range(n, n + 1000))
    yield _REST
