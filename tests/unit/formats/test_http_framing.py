"""Where live responses begin and end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from httptools import HttpParserError, HttpResponseParser
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats.http import ChunkedReader, ResponseFramer
from webmill.formats.http.chunked import MAX_SMALL_CHUNKS

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Outcome:
    body: bytes
    reason: str | None = None  # of BadInput
    status: int | None = None
    ended: bool = False
    broken: bool = False
    reusable: bool = False
    flaws: frozenset[str] = frozenset()
    raw: bytes = b""
    interim: int = 0


def run(wire: bytes, *, step: int | None = None, close: bool = False, method: str = "GET") -> Outcome:
    framer = ResponseFramer(method=method)
    body, reason = b"", None
    try:
        for at in range(0, len(wire), step or len(wire) or 1):
            body += framer.feed(wire[at : at + (step or len(wire))])
        if close:
            framer.close()
    except BadInput as error:
        return Outcome(body, reason=error.reason)
    return Outcome(
        body,
        reason,
        framer.head.status if framer.head else None,
        framer.ended,
        framer.broken,
        framer.reusable,
        frozenset(framer.flaws),
        wire[framer.start : framer.taken],
        len(framer.interim),
    )


PLAIN = OK + b"Content-Length: 5\r\n\r\nhello"
CHUNKS = CHUNKED + b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n"
TRAILERS = CHUNKED + b"5\r\nhello\r\n0\r\nX-Trailer: a\r\nY: b\r\n\r\nexcess"
LF_CHUNKS = CHUNKED + b"5\nhello\n0\n\n"
LENGTH_AND_CHUNKED = OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
CHUNKED_IN_1_0 = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nhi"
WIRES = [
    PLAIN,
    OK + b"Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n",
    OK + b"Content-Length: 0\r\n\r\n",
    OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    OK + b"Content-Length: -1\r\n\r\nhello",
    OK + b"\r\nuntil the end",
    CHUNKS,
    TRAILERS,
    LF_CHUNKS,
    CHUNKED + b"5\r\nhelloXX\r\n0\r\n\r\n",
    CHUNKED + b"zz\r\nhello",
    CHUNKED + b"-5\r\nhello",
    CHUNKED + b"FFFFFFFFFFFFFFFFF\r\nhello",
    CHUNKED + b"5\r\nhello\r\n0\r\n" + b"T: " + b"x" * 20_000,
    CHUNKED + b"5;" + b"x" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    LENGTH_AND_CHUNKED,
    CHUNKED_IN_1_0,
    b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi",
    OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    OK + b"Transfer-Encoding: chunked, gzip\r\n\r\nxyz",
    INTERIM,
    b"HTTP/1.1 100 Continue\r\n\r\n" * 9,
    b"HTTP/1.1 101 Switching\r\n\r\nsecret",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
    b"\r\n" + OK + b"Content-Length: 2\r\n\r\nhi",
    b"\r\n" * 100 + OK + b"\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    b"<html>",
    b"HTTP/1.1 99999 X\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000,
    CHUNKED + b"5\r\nhelloX\n0\r\n\r\n",
]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: repr(wire[:60]))
@pytest.mark.parametrize("close", [False, True])
def test_bytes_one_by_one_mean_the_same_as_all_at_once(wire: bytes, close: bool) -> None:
    assert run(wire, step=1, close=close) == run(wire, close=close)
    assert run(wire, step=7, close=close) == run(wire, close=close)


@settings(deadline=None, max_examples=300)
@given(st.integers(0, len(WIRES) - 1), st.integers(0, 300), st.binary(max_size=4), st.integers(0, 3), st.integers(1, 9))
def test_a_damaged_response_means_the_same_in_any_pieces(
    which: int, at: int, inserted: bytes, removed: int, step: int
) -> None:
    wire = WIRES[which][:at] + inserted + WIRES[which][at + removed :]
    assert run(wire, step=step, close=True) == run(wire, close=True)


@pytest.mark.parametrize("wire", [PLAIN, CHUNKS, TRAILERS, INTERIM], ids=lambda wire: repr(wire[:60]))
def test_a_response_cut_anywhere_is_never_whole(wire: bytes) -> None:
    whole = run(wire)
    end = wire.index(whole.raw) + len(whole.raw)
    for cut in range(end):
        part = run(wire[:cut], close=True)
        assert part.reason == "truncated_head" or (part.broken and "truncated" in part.flaws)
        assert whole.body.startswith(part.body)
        assert not part.reusable


def test_a_length_ends_the_body_and_the_connection_lives() -> None:
    outcome = run(OK + b"Content-Length: 5\r\n\r\nhello")
    assert (outcome.body, outcome.ended, outcome.reusable, outcome.flaws) == (b"hello", True, True, frozenset())


def test_chunks_and_trailers_are_taken_off_and_the_raw_bytes_are_known() -> None:
    outcome = run(TRAILERS)
    assert outcome.body == b"hello"
    assert outcome.raw + b"excess" == TRAILERS
    assert (outcome.ended, outcome.reusable, outcome.flaws) == (True, False, {"excess_bytes"})


def test_interim_responses_are_not_part_of_the_raw_response() -> None:
    outcome = run(INTERIM)
    assert (outcome.body, outcome.interim, outcome.reusable) == (b"hi", 2, True)
    assert outcome.raw == OK + b"Content-Length: 2\r\n\r\nhi"


def test_a_body_without_a_length_ends_when_the_connection_does() -> None:
    assert not run(OK + b"\r\nabc").ended
    outcome = run(OK + b"\r\nabc", close=True)
    assert (outcome.body, outcome.ended, outcome.reusable, outcome.flaws) == (b"abc", True, False, frozenset())


@pytest.mark.parametrize(
    ("head", "flaw"),
    [
        (b"Content-Length: 5\r\nContent-Length: 5\r\n", "repeated_length"),
        (b"Content-Length: 5, 5\r\n", "repeated_length"),
        (b"Content-Length: 5\r\n folded: x\r\n", "obs_fold"),
        (b"Content-Length : 5\r\n", "odd_name"),
        (b"Content-Length: 5\r\nX: \0\r\n", "nul"),
        (b"nonsense\r\nContent-Length: 5\r\n", "bad_line"),
    ],
)
def test_a_connection_is_never_used_again_after_an_oddity(head: bytes, flaw: str) -> None:
    if flaw == "obs_fold":
        head = b"X: y\r\n z\r\nContent-Length: 5\r\n"
    outcome = run(OK + head + b"\r\nhello")
    assert (outcome.body, outcome.ended, outcome.reusable) == (b"hello", True, False)
    assert flaw in outcome.flaws


@pytest.mark.parametrize(
    ("wire", "flaw"),
    [(LENGTH_AND_CHUNKED, "length_and_chunked"), (CHUNKED_IN_1_0, "chunked_in_1_0"), (LF_CHUNKS, "lf_only")],
)
def test_chunks_that_are_clear_but_odd_are_read_and_close_the_connection(wire: bytes, flaw: str) -> None:
    outcome = run(wire)
    assert (outcome.body, outcome.ended, outcome.reusable) == (b"hello", True, False)
    assert flaw in outcome.flaws


@pytest.mark.parametrize("value", [b"-1", b"+5", b"5.0", b"0x5", b"1_0", b"", b"9" * 19, b"5 5", "٥".encode()])
def test_a_length_that_is_no_number_is_refused(value: bytes) -> None:
    assert run(OK + b"Content-Length: " + value + b"\r\n\r\nhello").reason == "bad_length"


@pytest.mark.parametrize("length", [b"x", b"-1", b"5\r\nContent-Length: 6"])
def test_a_bad_length_does_not_count_where_no_length_does(length: bytes) -> None:
    """RFC 9112, 6.3: 204 and 304 have no body, and Transfer-Encoding overrides a length."""
    field = b"Content-Length: " + length + b"\r\n"
    chunked = run(OK + field + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert (chunked.body, chunked.ended, chunked.reusable) == (b"hello", True, False)
    for status in (b"204 No Content", b"304 Not Modified"):
        bodiless = run(b"HTTP/1.1 " + status + b"\r\n" + field + b"\r\n")
        assert (bodiless.body, bodiless.ended, bodiless.reusable) == (b"", True, False)
        assert bodiless.flaws & {"bad_length", "conflicting_length"}


@pytest.mark.parametrize("value", [b"chunked, chunked", b"chunked\r\nTransfer-Encoding: Chunked"])
def test_chunked_twice_is_chunked_once(value: bytes) -> None:
    outcome = run(OK + b"Transfer-Encoding: " + value + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert (outcome.body, outcome.ended, outcome.reusable) == (b"hello", True, False)
    assert outcome.flaws == {"odd_transfer_encoding"}


def test_a_live_response_without_a_version_is_refused() -> None:
    assert run(b"HTTP 200 OK\r\nContent-Length: 2\r\n\r\nhi").reason == "no_start_line"


def test_a_connection_whose_lines_end_in_two_crs_is_not_used_again() -> None:
    outcome = run(b"HTTP/1.1 200 OK\r\r\nContent-Length: 2\r\r\n\r\r\nhi")
    assert (outcome.body, outcome.ended, outcome.reusable) == (b"hi", True, False)


class _Parsed:
    """What llhttp, the parser of Node.js, tells of a response."""

    def __init__(self) -> None:
        self.body = b""
        self.is_whole = False

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_whole = True


LENGTHS = st.sampled_from([b"", *(b"Content-Length: %d\r\n" % length for length in (0, 3, 5, 9))])
CODINGS = st.sampled_from([b"", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked, chunked\r\n"])
STATUSES = st.sampled_from([b"200 OK", b"204 No Content", b"304 Not Modified", b"404 Not Found", b"206 "])
BODIES = st.sampled_from(
    [b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"0005;a=b\r\nhello\r\n000\r\nT: x\r\n\r\n", b"5\r\nhel", b""]
)


@settings(deadline=None, max_examples=300)
@given(STATUSES, LENGTHS, CODINGS, BODIES)
def test_where_llhttp_has_an_answer_it_is_ours(status: bytes, length: bytes, coding: bytes, body: bytes) -> None:
    wire = b"HTTP/1.1 " + status + b"\r\n" + length + coding + b"\r\n" + body
    theirs, ours = _Parsed(), run(wire)
    try:
        HttpResponseParser(theirs).feed_data(wire)
    except HttpParserError:
        return  # stricter: a length beside chunks, bytes behind the end
    assert (ours.body, ours.ended) == (theirs.body, theirs.is_whole)


def test_two_lengths_that_differ_are_refused() -> None:
    assert run(OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!").reason == "conflicting_length"


@pytest.mark.parametrize(
    "chunks", [b"zz\r\n", b"-5\r\n", b"\r\n", b"0x5\r\n", b"5 5\r\n", b"5\r\nhelloXX", b"F" * 16 + b"\r\n"]
)
def test_a_bad_chunk_breaks_the_body_where_it_is(chunks: bytes) -> None:
    outcome = run(CHUNKED + b"3\r\nabc\r\n" + chunks + b"more")
    assert outcome.body.startswith(b"abc")
    assert (outcome.ended, outcome.broken, outcome.reusable) == (False, True, False)
    assert "bad_chunk" in outcome.flaws


def test_a_live_body_of_bytes_in_chunks_of_their_own_ends_at_the_limit() -> None:
    framer = ResponseFramer(method="GET")
    framer.feed(CHUNKED)
    body = b"".join(framer.feed(b"1\r\na\r\n" * 10_000) for _ in range(10))
    assert (len(body), framer.broken, framer.ended) == (MAX_SMALL_CHUNKS + MAX_SMALL_CHUNKS // 1024, True, False)
    assert framer.flaws == ("too_many_chunks",)


def test_an_archived_body_may_have_any_number_of_chunks() -> None:
    reader = ChunkedReader()
    body = reader.feed(b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n")
    assert (len(body), reader.ended) == (100_000, True)


def test_large_chunks_are_not_counted_as_small_ones() -> None:
    framer = ResponseFramer(method="GET")
    framer.feed(CHUNKED)
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    received = sum(len(framer.feed(chunk * 100)) for _ in range(1000))
    assert (received, framer.broken) == (1024 * 100_000, False)


@pytest.mark.parametrize("size", [b"0005", b"5 ", b"5;a=b", b"0" * 100 + b"5"])
def test_a_size_may_have_zeros_in_front_and_an_extension_behind(size: bytes) -> None:
    assert run(CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n").body == b"hello"


def test_bodiless_answers_end_with_their_heads() -> None:
    assert run(OK + b"Content-Length: 5\r\n\r\n", method="HEAD").reusable
    assert run(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n").reusable
    assert run(b"HTTP/1.1 204 No Content\r\n\r\n").reusable
    assert run(b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n").flaws == {"body_not_allowed"}


def test_a_second_response_on_the_wire_is_excess_and_closes_the_connection() -> None:
    outcome = run(OK + b"Content-Length: 2\r\n\r\nhi" + OK + b"\r\n")
    assert (outcome.body, outcome.reusable, outcome.flaws) == (b"hi", False, {"excess_bytes"})


def test_connection_options_are_obeyed() -> None:
    assert not run(OK + b"Connection: foo, Close\r\nContent-Length: 0\r\n\r\n").reusable
    assert not run(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").reusable
    assert run(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n").reusable


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 9, "header_limit"),
        (OK + b"A: " + b"x" * 70_000, "header_limit"),
        (OK + b"A: b\r\n" * 300 + b"\r\n", "header_limit"),
        (b"HTTP/1.1 101 Switching\r\n\r\n", "unexpected_upgrade"),
        (b"<html>", "no_start_line"),
    ],
)
def test_what_is_no_response_is_refused_as_soon_as_it_is_seen(wire: bytes, reason: str) -> None:
    assert run(wire).reason == reason


def test_eight_interim_responses_are_allowed() -> None:
    assert run(b"HTTP/1.1 100 Continue\r\n\r\n" * 8 + OK + b"Content-Length: 0\r\n\r\n").interim == 8


def test_an_endless_trailer_or_size_line_is_not_kept() -> None:
    for begin in (b"5;", b"0\r\nT: "):
        reader = ChunkedReader()
        reader.feed(begin)
        fed = 0
        while not reader.broken:
            reader.feed(b"x" * 1000)
            fed += 1000
        assert fed < 40_000


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.integers(1, 50))
def test_any_body_in_any_chunks_comes_out_whole(pieces: list[bytes], step: int) -> None:
    wire = CHUNKED + b"".join(b"%X\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    outcome = run(wire, step=step)
    assert outcome.body == b"".join(pieces)
    assert (outcome.reusable, outcome.raw) == (True, wire)
