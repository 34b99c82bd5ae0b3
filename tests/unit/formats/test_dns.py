"""Messages of the DNS: whole, cut anywhere, and hostile (N17)."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats.dns import (
    AAAA,
    NO_SUCH_NAME,
    A,
    DnsReply,
    decode_reply,
    encode_name,
    encode_query,
    encode_question,
    is_reply_in_other_case,
    is_reply_to,
    mix_case,
    reply_number,
)
from webmill.testing.name_server import ZoneAnswer, encode_answer, encode_lie, name_of

LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=12)
NAME = st.lists(LABEL, min_size=1, max_size=5).map(".".join)
QUESTION = encode_question(encode_name("www.example.org"), A)
QUERY = encode_query(7, QUESTION, is_extended=False)


@settings(deadline=None)
@given(NAME, st.integers(0, 2**255), st.integers(0, 65535), st.booleans())
def test_a_question_is_read_back_whatever_the_case_of_its_letters(
    name: str, random: int, number: int, is_extended: bool
) -> None:
    question = encode_question(mix_case(encode_name(name), random), A)
    query = encode_query(number, question, is_extended=is_extended)
    assert name_of(question) == name
    reply = encode_answer(query, ZoneAnswer(addresses=("192.0.2.1",)))
    assert reply_number(reply) == number
    assert reply_number(query) == -1  # somebody sends us our own question
    assert is_reply_to(question, reply)
    other = encode_question(mix_case(encode_name(name), ~random), A)
    assert is_reply_in_other_case(other, reply)
    assert is_reply_to(other, reply) == (not any(letter.isalpha() for letter in name))


@settings(deadline=None)
@given(st.lists(st.ip_addresses(v=4).map(str), min_size=1, max_size=20, unique=True), st.integers(0, 2**31 - 1))
def test_addresses_at_the_end_of_aliases_are_found_with_the_shortest_time(addresses: list[str], ttl: int) -> None:
    answer = ZoneAnswer(addresses=tuple(addresses), aliases=("a.example", "b.example"), ttl=ttl)
    found = decode_reply(encode_answer(QUERY, answer), QUESTION)
    assert found == DnsReply(addresses=tuple(addresses), alias=encode_name("b.example"), ttl=ttl)


@settings(deadline=None)
@given(st.lists(st.ip_addresses(v=6).map(str), min_size=1, max_size=9, unique=True))
def test_ipv6_addresses_are_read_as_python_writes_them(addresses: list[str]) -> None:
    question = encode_question(encode_name("www.example.org"), AAAA)
    query = encode_query(7, question, is_extended=True)
    found = decode_reply(encode_answer(query, ZoneAnswer(addresses=tuple(addresses))), question)
    assert found.addresses == tuple(str(ip_address(each)) for each in addresses)


def test_what_does_not_exist_says_for_how_long() -> None:
    message = encode_answer(QUERY, ZoneAnswer(code=NO_SUCH_NAME, missing_ttl=300))
    assert decode_reply(message, QUESTION) == DnsReply(code=NO_SUCH_NAME, ttl=300, has_soa=True)


@pytest.mark.parametrize("ttl", [1 << 31, (1 << 32) - 1])
def test_a_time_beyond_all_numbers_is_none(ttl: int) -> None:
    assert decode_reply(encode_answer(QUERY, ZoneAnswer(addresses=("192.0.2.1",), ttl=ttl)), QUESTION).ttl == 0


@pytest.mark.parametrize("aliases", [("www.example.org",), ("a.example", "b.example", "a.example")])
def test_aliases_in_circles_are_refused(aliases: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="no end"):
        decode_reply(encode_answer(QUERY, ZoneAnswer(aliases=aliases)), QUESTION)


def test_a_long_chain_of_aliases_is_refused() -> None:
    chain = tuple(f"a{n}.example" for n in range(40))
    with pytest.raises(BadInput, match="no end"):
        decode_reply(encode_answer(QUERY, ZoneAnswer(aliases=chain, addresses=("192.0.2.1",))), QUESTION)


def test_of_thousands_of_addresses_a_hundred_are_read() -> None:
    many = tuple(f"10.1.{n // 250}.{n % 250}" for n in range(3000))
    assert decode_reply(encode_answer(QUERY, ZoneAnswer(addresses=many)), QUESTION).addresses == many[:128]


def test_an_address_of_another_name_is_not_believed() -> None:
    assert decode_reply(encode_lie(QUERY, "stranger"), QUESTION).addresses == ()


@pytest.mark.parametrize("lie", ["pointer", "short_address"])
def test_a_damaged_record_is_refused(lie: str) -> None:
    with pytest.raises(BadInput):
        decode_reply(encode_lie(QUERY, lie), QUESTION)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.integers(0, 400))
def test_a_message_that_is_cut_is_refused(end: int) -> None:
    answer = ZoneAnswer(addresses=("192.0.2.1", "192.0.2.2"), aliases=("a.example",), missing_ttl=60)
    message = encode_answer(QUERY, answer)[:end]
    if reply_number(message) != 7 or not is_reply_to(QUESTION, message):
        return
    try:
        assert set(decode_reply(message, QUESTION).addresses) <= {"192.0.2.1", "192.0.2.2"}
    except BadInput:
        pass


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 3), st.integers(0, 65535))
def test_any_bytes_after_a_question_are_an_answer_or_bad_input(rest: bytes, code: int, count: int) -> None:
    head = QUERY[:2] + bytes((0x81, 0x80 | code)) + b"\0\1" + count.to_bytes(2, "big") + b"\0\1\0\0"
    try:
        decode_reply(head + QUESTION + rest, QUESTION)
    except BadInput:
        pass


@pytest.mark.parametrize("name", ["", ".", "a..b", "a" * 64, ".".join(["a" * 49] * 6), "ü.example"])
def test_what_no_message_can_hold_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        encode_name(name)
