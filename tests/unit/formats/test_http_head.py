"""Heads of HTTP messages, and archived messages."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from webmill.errors import BadInput
from webmill.formats.http import (
    encode_request_head,
    encode_response_head,
    parse_request_head,
    parse_response_head,
    split_request,
    split_response,
)
from webmill.model import Headers

TOKEN = st.text(string.ascii_letters + string.digits + "-_.!~", min_size=1, max_size=20)
CHARACTERS = st.characters(max_codepoint=255, blacklist_characters="\r\n\0")
VALUE = st.text(CHARACTERS, max_size=40).map(lambda value: value.strip(" \t"))
FIELDS = st.lists(st.tuples(TOKEN, VALUE), max_size=8).map(Headers)


def refused(raw: bytes) -> str:
    with pytest.raises(BadInput) as caught:
        parse_response_head(raw)
    return caught.value.reason


def test_a_plain_head_has_no_flaws_and_keeps_its_bytes() -> None:
    raw = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nSet-Cookie: a=1\r\nset-cookie:b=2 \r\nX:\r\n\r\n"
    head = parse_response_head(raw)
    assert (head.version, head.status, head.reason, head.flaws, head.raw) == ("HTTP/1.1", 200, "OK", (), raw)
    assert head.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert head.headers.get("x") == ""


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (b"HTTP/1.1 200 OK\nA: b\n\n", "lf_only"),
        (b"HTTP/1.1 200 OK\r\nA: b\n\r\n", "lf_only"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "obs_fold"),
        (b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", "nul"),
        (b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", "bare_cr"),
        (b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", "bad_line"),
        (b"HTTP/1.1 200 OK\r\n: b\r\n\r\n", "bad_line"),
        (b"HTTP/1.1 200 OK\r\n folded into nothing\r\n\r\n", "bad_line"),
        (b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "odd_name"),
        (b"HTTP/1.1 200\r\n\r\n", "no_reason"),
        (b"HTTP/2 200\r\n\r\n", "odd_version"),
        (b"http/1.1 200 OK\r\n\r\n", "odd_version"),
        (b"HTTP 200 OK\r\nA: b\r\n\r\n", "odd_version"),
        (b"HTTP/1.1 200 OK\r\r\nA: b\r\n\r\n", "double_cr"),
        (b"HTTP/1.1 200 OK\r\r\nA: b\r\r\n\r\r\n", "double_cr"),
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", "leading_blank"),
    ],
)
def test_an_oddity_is_parsed_and_noted(raw: bytes, flaw: str) -> None:
    head = parse_response_head(raw)
    assert head.status == 200
    assert flaw in head.flaws
    assert head.raw == raw


def test_lines_that_end_in_two_crs_have_none_of_them_in_their_values() -> None:
    message = split_response(b"HTTP/1.0 302 Found\r\r\nLocation: /a\r\r\n\r\r\nbody")
    assert message.head is not None
    assert (message.head.reason, message.head.headers.get("location"), message.body) == ("Found", "/a", b"body")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"<html>hello\r\n\r\n", "no_start_line"),
        (b"ICY 200 OK\r\n\r\n", "no_start_line"),
        (b"HTTP/1.1\r\n\r\n", "no_start_line"),
        (b"HTTP/1.1 99999 What\r\n\r\n", "bad_status"),
        (b"HTTP/1.1 -20 What\r\n\r\n", "bad_status"),
        (b"HTTP/1.1 099 What\r\n\r\n", "bad_status"),
        ("HTTP/1.1 ²00 What\r\n\r\n".encode("latin-1"), "bad_status"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", "truncated_head"),
        (b"", "truncated_head"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 256 + b"\r\n", "header_limit"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 65536 + b"\r\n\r\n", "header_limit"),
    ],
)
def test_what_has_no_meaning_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    assert refused(raw) == reason


def test_a_folded_value_is_joined_by_one_space() -> None:
    head = parse_response_head(b"HTTP/1.1 200 OK\r\nA: b\r\n\t  c\r\n d\r\n\r\n")
    assert head.headers.pairs == (("A", "b c d"),)


def test_a_missing_reason_after_a_space_is_no_flaw() -> None:
    head = parse_response_head(b"HTTP/1.1 200 \r\n\r\n")
    assert (head.reason, head.flaws) == ("", ())


def test_a_request_target_with_spaces_is_kept() -> None:
    head = parse_request_head(b"GET /a b c HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (head.method, head.target, head.version) == ("GET", "/a b c", "HTTP/1.1")


@settings(deadline=None)
@given(FIELDS, st.integers(100, 999), VALUE)
def test_a_written_response_head_is_read_back_and_written_again_the_same(
    headers: Headers, status: int, reason: str
) -> None:
    raw = encode_response_head(headers, status=status, reason=reason)
    head = parse_response_head(raw)
    assert (head.headers, head.status, head.reason) == (headers, status, reason)
    assert encode_response_head(head.headers, status=head.status, reason=head.reason) == raw
    assert not set(head.flaws) - {"bare_cr"}


@settings(deadline=None)
@given(FIELDS, TOKEN, st.text(string.printable.strip(), min_size=1))
def test_a_written_request_head_is_read_back(headers: Headers, method: str, target: str) -> None:
    head = parse_request_head(encode_request_head(headers, method=method, target=target))
    assert (head.headers, head.method, head.target) == (headers, method, target)


@pytest.mark.parametrize("evil", ["a\r\nX: y", "a\nX: y", "a\rX", "a\0b"])
def test_no_value_can_begin_another_line(evil: str) -> None:
    for build in (
        lambda: encode_response_head(Headers([("A", evil)]), status=200),
        lambda: encode_response_head(Headers([(evil, "b")]), status=200),
        lambda: encode_response_head(Headers(), status=200, reason=evil),
        lambda: encode_request_head(Headers([("A", evil)]), method="GET", target="/"),
        lambda: encode_request_head(Headers(), method="GET", target=evil),
        lambda: encode_request_head(Headers(), method=evil, target="/"),
    ):
        with pytest.raises(BadInput) as caught:
            build()
        assert caught.value.reason == "header_injection"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", " a"])
def test_a_name_that_is_no_token_is_not_written(name: str) -> None:
    with pytest.raises(BadInput):
        encode_response_head(Headers([(name, "b")]), status=200)


def test_a_value_beyond_latin1_is_not_written() -> None:
    with pytest.raises(BadInput) as caught:
        encode_response_head(Headers([("A", "Ω")]), status=200)
    assert caught.value.reason == "not_latin1"


def test_a_response_cut_anywhere_is_a_shorter_answer_or_bad_input() -> None:
    raw = b"\r\nHTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 5\r\n\r\nhello"
    for end in range(len(raw)):
        message = split_response(raw[:end])
        assert message.body in raw[:end]
        if end < len(raw) - 5:
            with pytest.raises(BadInput):
                parse_response_head(raw[:end])


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_can_be_split(block: bytes) -> None:
    for data in (block, b"HTTP/1.1 200 OK\r\n" + block):
        for message in (split_response(data), split_request(data)):
            assert data.endswith(message.body)
            if message.head is not None:
                assert message.head.raw + message.body == data


def test_an_archived_response_gives_head_and_body() -> None:
    message = split_response(b"HTTP/1.0 404 Not Found\nServer: x\n\n<html>")
    assert message.head is not None
    assert (message.head.status, message.body, message.flaws) == (404, b"<html>", ("lf_only",))


def test_a_second_empty_line_is_noted_when_the_length_proves_it() -> None:
    proven = split_response(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\r\nhi")
    assert (proven.body, proven.flaws) == (b"\r\nhi", ("double_empty_line",))
    assert split_response(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\nhi").flaws == ()


def test_a_block_without_a_head_is_all_body() -> None:
    message = split_response(b"<html>\r\n\r\n</html>")
    assert (message.head, message.body, message.flaws) == (None, b"<html>\r\n\r\n</html>", ("no_start_line",))


def test_a_head_that_cannot_be_read_still_ends_where_it_ends() -> None:
    assert split_response(b"HTTP/1.1 99999 X\r\n\r\nbody").body == b"body"
    large = b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000 + b"\r\nbody"
    assert (split_response(large).head, split_response(large).body) == (None, b"body")
    binary = b"\x89PNG" + b"x" * 70_000 + b"\r\n\r\nrest"
    assert split_response(binary).body == binary


def test_a_capture_cut_inside_its_head_keeps_what_is_there() -> None:
    message = split_response(b"HTTP/1.1 301 Moved\r\nLocation: /x")
    assert message.head is not None
    assert (message.head.headers.get("location"), message.body, message.flaws) == ("/x", b"", ("truncated_head",))


def test_real_heads_are_read_as_warcio_reads_them(shared_data: Path) -> None:
    [path] = (shared_data / "triple").glob("*.warc.gz")
    seen = 0
    with path.open("rb") as blocks, path.open("rb") as parsed:
        pairs = zip(ArchiveIterator(blocks, no_record_parse=True), ArchiveIterator(parsed), range(600), strict=False)
        for block, theirs, _ in pairs:
            if block.rec_type != "response":
                continue
            message = split_response(block.raw_stream.read())
            assert message.head is not None
            assert str(message.head.status) == theirs.http_headers.get_statuscode()
            assert message.head.headers.pairs == tuple(theirs.http_headers.headers)
            assert message.body == theirs.raw_stream.read()
            seen += 1
    assert seen > 150
