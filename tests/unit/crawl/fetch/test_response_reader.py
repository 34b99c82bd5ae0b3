"""An answer may come in any pieces, and be any bytes."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.crawl.fetch.fetching import answer
from webmill.crawl.fetch.response_reader import ResponseReader, decode_payload
from webmill.crawl.fetch.types import FAILURES
from webmill.errors import BadInput
from webmill.formats.compression.content_coding import DecodeLimits

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX: y\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
WORDS = st.sampled_from(
    [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 404\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n",
     b"Content-Encoding: gzip\r\n", b"HTTP/1.1 100 \r\n\r\n", b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n", b"\n", b"\0",
     b"-1", b"Content-Encoding: br, zstd\r\n", b"\x1f\x8b\x08\0\0\0\0\0", b"Transfer-Encoding: gzip\r\n"]
)  # fmt: skip


@given(cuts=st.lists(st.integers(0, 200), max_size=20))
@settings(deadline=None)
def test_the_same_answer_comes_of_any_pieces(cuts: list[int]) -> None:
    for sent, payload in ((answer(b"hello world"), b"hello world"), (INTERIM + CHUNKED, b"hello world")):
        reader = ResponseReader(limit=1000)
        for start, end in _pieces(sent, cuts):
            reader.feed(sent[start:end])
        assert reader.is_complete
        assert reader.is_reusable
        assert reader.head is not None
        assert reader.response() == sent.removeprefix(INTERIM)
        assert decode_payload(reader.head, reader.response(), limits=DecodeLimits()) == (payload, None)


@given(st.lists(st.one_of(WORDS, st.binary(max_size=40)), max_size=30), st.booleans(), st.integers(0, 50))
@example([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n"], True, 0)
@settings(deadline=None, max_examples=150)
def test_any_bytes_are_an_answer_or_a_named_failure(pieces: list[bytes], closed: bool, limit: int) -> None:
    reader = ResponseReader(limit=limit)
    sent = b"".join(pieces)
    try:
        for piece in pieces:
            if piece and not reader.is_complete:
                reader.feed(piece)
        if closed and not reader.is_complete:
            reader.close()
    except BadInput as error:
        reason = error.reason
    else:
        reason = ""
    assert sent.startswith(reader.first_bytes(1000))
    if reason:
        assert reason in FAILURES
        return
    if reader.head is not None:
        response = reader.response()
        assert response in sent
        assert len(response) <= len(reader.head.raw) + limit
        payload, _ = decode_payload(reader.head, response, limits=DecodeLimits())
        assert isinstance(payload, bytes)


def _pieces(data: bytes, cuts: list[int]) -> list[tuple[int, int]]:
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return list(pairwise(edges))


def test_of_a_large_answer_there_are_two_copies_at_most() -> None:
    """As it was sent, and its payload: with chunks, too, and where it is cut at the limit."""
    size, chunk = 16 << 20, b"10000\r\n" + b"z" * 65536 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    tracemalloc.start()
    try:
        reader = ResponseReader(limit=size)
        reader.feed(head)
        while not reader.is_complete:
            reader.feed(chunk)
        assert reader.head is not None
        response = reader.response()
        payload, _ = decode_payload(reader.head, response, limits=DecodeLimits())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(response) == len(head) + size
    assert payload.startswith(b"z" * 65536)
    assert peak < 2.5 * size
