"""The encodings of the web, by all of their bytes and characters."""

from __future__ import annotations

import pytest

from tests.unit.formats.encoding_sequences import DIGESTS, MULTI_BYTE, SINGLE_BYTE, digest, joined, sequences
from webmill.formats.encodings import decode_as, encode_as
from webmill.formats.url.query_encoding import encode_query


@pytest.mark.parametrize("encoding", DIGESTS)
def test_every_sequence_of_bytes_means_what_the_standard_says(encoding: str) -> None:
    assert digest(decode_as(joined(sequences(encoding), encoding), encoding)) == DIGESTS[encoding][0]


@pytest.mark.parametrize("encoding", [*SINGLE_BYTE, *MULTI_BYTE])
def test_every_character_that_an_encoding_has_is_written_as_the_standard_says(encoding: str) -> None:
    written = []
    for letter in sorted(set(decode_as(joined(sequences(encoding), encoding), encoding))):
        try:
            written.append(f"{ord(letter)} {encode_as(letter, encoding).hex()}")
        except UnicodeError:
            pass  # decoded from bytes that the encoder never makes
    assert digest("\n".join(written)) == DIGESTS[encoding][1]


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("euc-jp", b"\xad\xa1\xf9\xa1\x8f\xa2\xb7", "①纊～"),
        ("iso-2022-jp", b"\x1b$B-!\x1b(B", "①"),
        ("big5", b"\x88\x62\xc6\xa1", "Ê̄①"),
        ("gbk", b"\x80a", "€a"),
        ("gb18030", b"\x80\xa8\xbc\x84\x31\xa4\x37", "€ḿ\ufffd"),
        ("koi8-u", b"\xae\xbe", "ўЎ"),
        ("windows-1255", b"\xca", "\u05ba"),
        ("shift_jis", b"\xa0\x85\x40", "\ufffd\ufffd@"),
        ("utf-16le", b"\x00\xd8a\x00b", "\ufffda\ufffd"),
    ],
)
def test_what_python_reads_otherwise(encoding: str, data: bytes, text: str) -> None:
    assert decode_as(data, encoding) == text


@pytest.mark.parametrize(
    ("href", "encoding", "sent"),
    [
        ("/路?q=①", "euc-jp", "/路?q=%AD%A1"),
        ("?q=①日", "iso-2022-jp", "?q=%1B$B-!F|%1B(B"),
        ("?日☃本", "iso-2022-jp", "?%1B$BF|%1B(B%26%239731%3B%1B$BK\\%1B(B"),
        ("?～", "shift_jis", "?%81`"),
        (" ?a=\té\n #é ", "windows-1252", "?a=%E9%20#é"),
        ("?é", "utf-16le", "?é"),
        ("é#?é", "windows-1252", "é#?é"),
    ],
)
def test_a_query_is_sent_in_the_encoding_of_its_page(href: str, encoding: str, sent: str) -> None:
    assert encode_query(href, encoding) == sent
