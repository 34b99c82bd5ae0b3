"""Page bytes to text."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.formats.meta_pages import PAGES
from webmill.formats.encodings import decode_as, lookup_encoding
from webmill.formats.html.charset import charset_label, decode_page
from webmill.formats.html.meta_prescan import MOST_IN_HEAD, find_declared_encoding

HTML = "text/html; charset="


def test_a_byte_order_mark_rules_over_everything() -> None:
    page = decode_page(b"\xef\xbb\xbf<meta charset=koi8-r>\xc3\xa9", content_type=HTML + "windows-1251")
    assert (page.text, page.encoding, page.source) == ("<meta charset=koi8-r>é", "utf-8", "bom")
    assert decode_page("é".encode("utf-16")).text == "é"
    assert decode_page(b"\xfe\xff\0a").encoding == "utf-16be"


def test_only_the_first_byte_order_mark_is_taken_off() -> None:
    assert decode_page(b"\xef\xbb\xbf\xef\xbb\xbfa").text == "\ufeffa"


def test_the_http_charset_rules_over_meta() -> None:
    page = decode_page(b"<meta charset=utf-8>\xe9", content_type=HTML + "ISO-8859-1")
    assert (page.text[-1], page.encoding, page.source, page.replaced) == ("é", "windows-1252", "http", False)


@pytest.mark.parametrize(
    "label",
    ["utf-7", "unicode_escape", "idna", "undefined", "utf-32", "rot13", "hex", "a\0b", "x" * 99, "\u212aoi8-r", ""],
)
def test_a_label_that_is_not_the_webs_means_nothing(label: str) -> None:
    assert lookup_encoding(label) is None
    page = decode_page(b"\xc3\xa9+AGE-", content_type=HTML + label)
    assert (page.text, page.encoding, page.source) == ("é+AGE-", "utf-8", "fallback")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        (" UTF8\n", "utf-8"),
        ("latin1", "windows-1252"),
        ("ascii", "windows-1252"),
        ("GB2312", "gbk"),
        ("x-sjis", "shift_jis"),
        ("ks_c_5601-1987", "euc-kr"),
        ("tis-620", "windows-874"),
        ("unicode", "utf-16le"),
        ("iso-2022-kr", "replacement"),
    ],
)
def test_labels_mean_what_browsers_mean(label: str, name: str) -> None:
    assert lookup_encoding(label) == name


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("gbk", "中文".encode("gb18030"), "中文"),
        ("big5", "香港".encode("big5hkscs"), "香港"),
        ("shift_jis", "日本①".encode("cp932"), "日本①"),
        ("euc-jp", "日本".encode("euc-jp"), "日本"),
        ("iso-2022-jp", "日本".encode("iso2022-jp"), "日本"),
        ("euc-kr", "한국똠".encode("cp949"), "한국똠"),
        ("koi8-r", "мир".encode("koi8-r"), "мир"),
        ("windows-1252", b"\x80\x81\x9d\xe9", "€\x81\x9dé"),
        ("windows-874", b"\xa1\xff", "ก\ufffd"),
        ("x-user-defined", b"a\x80\xff", "a\uf780\uf7ff"),
        ("replacement", b"anything", "\ufffd"),
        ("utf-8", b"a\xffb", "a\ufffdb"),
    ],
)
def test_each_encoding_reads_its_bytes(encoding: str, data: bytes, text: str) -> None:
    assert decode_as(data, encoding) == text


@pytest.mark.parametrize(
    "meta",
    [
        b"<meta charset=koi8-r>",
        b"<META CHARSET='KOI8-R'/>",
        b'<meta name=x charset = "koi8-r" >',
        b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">',
        b"<meta content='text/html;charset=\"koi8-r\"' http-equiv=content-type>",
        b"<!-- <meta charset=utf-8> --><meta charset=koi8-r>",
        b"<!doctype html><html lang='>'><head data-x='<meta charset=utf-8>'><meta charset=koi8-r>",
        b"</p <meta charset=utf-8> ><?php <meta charset=utf-8?><meta charset=koi8-r>",
        b"<meta charset=koi8-r charset=utf-8>",
        b"<metal charset=utf-8><meta name=charset content=utf-8><meta charset=koi8-r>",
        b"<?xml version='1.0' encoding='koi8-r'?>",
        b"a < b <1 <meta charset=koi8-r>",
    ],
)
def test_a_declaration_in_the_page_is_found(meta: bytes) -> None:
    page = decode_page(meta + "мир".encode("koi8-r"), content_type="text/html")
    assert (page.text[-3:], page.encoding, page.source) == ("мир", "koi8-r", "meta")


@pytest.mark.parametrize("page", PAGES)
def test_a_declaration_counts_where_it_does_in_browsers(page: bytes) -> None:
    assert decode_page(page, content_type="text/html").encoding == PAGES[page]


def test_a_page_that_calls_itself_utf16_in_ascii_is_utf8() -> None:
    assert decode_page(b"<meta charset=utf-16>\xc3\xa9").encoding == "utf-8"
    assert decode_page(b"<meta charset=x-user-defined>").encoding == "windows-1252"


def test_without_a_label_utf8_is_recognised_even_when_it_is_cut() -> None:
    page = decode_page("naïve €".encode()[:-1])
    assert (page.text, page.encoding, page.replaced) == ("naïve \ufffd", "utf-8", True)
    assert decode_page(b"na\xefve").text == "naïve"


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("text/html; charset=UTF-8", "UTF-8"),
        ("text/html;charset = 'x' ", "x"),
        ('text/html; charset="a b"; y', "a b"),
        ("text/html", None),
        (None, None),
        ("text/html; charset=", None),
    ],
)
def test_the_charset_of_a_content_type(value: str | None, label: str | None) -> None:
    assert charset_label(value) == label


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200), st.text(max_size=20))
@example(b"<meta" + b" a" * 500, "utf-8")
@example(b"<" * 2000, "")
def test_no_page_and_no_label_can_make_it_fail(page: bytes, label: str) -> None:
    for begin in (b"", b"<meta ", b"<meta charset=", b"<!--", b"\xff\xfe"):
        assert isinstance(decode_page(begin + page, content_type=HTML + label).text, str)


def test_a_declaration_behind_thousands_of_tags_is_not_looked_for() -> None:
    late = b'<meta charset="euc-jp">'
    assert find_declared_encoding(b"<meta name=x>" * (MOST_IN_HEAD - 1) + late) == "euc-jp"
    assert find_declared_encoding(b"<" * 100_000 + late) is None
