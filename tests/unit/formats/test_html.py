"""What is kept of a page, rule by rule. Whole real pages are compared in tests/unit/archive/test_derive_sample.py."""

from __future__ import annotations

import gzip
import html
from html.entities import html5
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats.html.charset import decode_page
from webmill.formats.html.entities import decode_attribute, decode_text
from webmill.formats.html.links import HtmlLink, HtmlMeta, strip_data_url
from webmill.formats.html.page import MAX_PAGE, HtmlPage, read_html, read_html_text

# Pieces that make pages break in as many ways as possible.
WORDS = (
    "< > </ <! <!-- --> <!- <? ?> <% %> <a <a> <a/> </a> <b> <p> </p> <br/> <div <title> </title> <script> </script> "
    "<style> </style> <pre> </pre> <svg> <head> <body> href= src= = ' \" / & &amp; &#x &#0; &#x110000; &lt url( ) "
    "@import ; - -- ! x é 　 \u00a0 \x00 \x1b \ud7ff 𝒳"
)
PIECES = [*WORDS.split(" "), " "]


def links(page: str) -> list[dict[str, str]]:
    return list(msgspec.to_builtins(read_html(page).links))


def text(page: str) -> str:
    return read_html(page).text


# --- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>One <b>bold</b>ly</p><p>two</p>", "One boldly\ntwo\n"),
        ("a<br>b<hr/>c", "a\nb\nc"),
        ("<div><div>\n  <p>  x \n y </p></div></div>", "x y\n"),
        ("<td>a</td><td>b</td>", "a b "),
        ("a<img src=x>b", "a b"),
        ("<title>T</title>x", "T\nx"),
        ("x<title>T</title>", "xT\n"),
        ("<script>var a = '<p>no</p>';</script>yes", "yes"),
        ("<style>p { color: red }</style>yes", "yes"),
        ("<script><!-- document.write('</script>') --></script>yes", "yes"),
        ("<SCRIPT type=x>a</script b>c", "c"),
        ("<script/>seen", "seen"),
        ("<!-- a > b -- c -->x<!-- y --!>z", "xz"),
        ("x<!-- never ends", "x"),
        ("<!doctype html public 'a b'>x", "x"),
        ("<?xml version='1.0'?>x<?php echo 1 ?>y", "xy"),
        ("1 < 2 <3 & 4 <<", "1 < 2 <3 & 4 <<"),
        ("a &amp; b &eacute;&#233;&#xE9; &nbsp; c &unknown; &copy", "a & b ééé c &unknown; ©"),
        ("a\u3000\u3000b\u3000 c d", "a\u3000b\u3000c d"),
        ("a\x00\x01b\x7fc\u00a0d", "a b c d"),
        ("<p>a</p><pre>  b\n\n  c </pre>d", "a\n  b\n\n  c\nd"),
        ("<textarea>a</textarea>b", "a\nb"),
        ("<a title='>'>in</a >out", "inout"),
        ("<p class=a>b<p<i>c", "b\nc"),
        ("", ""),
        ("   \n ", ""),
    ],
)
def test_text_is_laid_out_as_in_wet_files(page: str, expected: str) -> None:
    assert text(page) == expected
    assert read_html_text(page).text == expected


# --- links ----------------------------------------------------------------------------------------------------------


def test_an_anchor_tells_its_address_its_attributes_and_its_text() -> None:
    page = "<a HREF='/x?a=1&amp;b=2' rel=nofollow target=_blank title=\"T &lt;\" class=z>Some <b>bold</b>\n text</a>"
    assert links(page) == [
        {
            "path": "A@/href",
            "url": "/x?a=1&b=2",
            "target": "_blank",
            "title": "T <",
            "rel": "nofollow",
            "text": "Some bold text",
        }
    ]


def test_an_anchor_without_an_address_or_without_an_end_is_no_link() -> None:
    assert links("<a name=here>x</a><a href=lost>y") == []


def test_the_text_of_a_link_has_at_most_128_characters() -> None:
    assert links(f"<a href=x>{'ab ' * 100}</a>")[0]["text"] == ("ab " * 43)[:128].strip()


def test_text_belongs_to_every_open_anchor() -> None:
    assert links("<a href=1>one <a href=2>two</a></a>") == [
        {"path": "A@/href", "url": "2", "text": "two"},
        {"path": "A@/href", "url": "1", "text": "one two"},
    ]


def test_an_unclosed_anchor_takes_the_room_for_text_from_those_that_follow() -> None:
    page = f"<a name=top>{'long ' * 40}<a href=x>lost</a>"
    assert links(page) == [{"path": "A@/href", "url": "x"}]


def test_elements_that_close_inside_a_link_keep_its_words_apart() -> None:
    assert links("<a href=x><h2>Title</h2><p>text</p></a>")[0]["text"] == "Title text"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<img src=a alt='b' title=c longdesc=d>", ["IMG@/src a", "IMG@/longdesc d"]),
        ("<img src=''>", ["IMG@/src "]),
        ("<img src>", []),
        ("<area href=a><iframe src=b></iframe><frame src=c>", ["AREA@/href a", "IFRAME@/src b", "FRAME@/src c"]),
        ("<form action=a method=post target=t>", ["FORM@/action a"]),
        ("<video src=a poster=b>", ["VIDEO@/src a", "VIDEO@/poster b"]),
        ("<source src=c><track src=d>", ["SOURCE@/src c", "TRACK@/src d"]),
        ("<object data=a codebase=b>", ["OBJECT@/codebase b", "OBJECT@/data a"]),
        ("<input src=a formaction=b>", ["INPUT@/src a", "INPUT@/formaction b"]),
        ("<button formaction=c>", ["BUTTON@/formaction c"]),
        ("<blockquote cite=a><q cite=b><ins cite=c>", ["BLOCKQUOTE@/cite a", "Q@/cite b", "INS@/cite c"]),
        ("<body BACKGROUND=a><p data-href=b data-uri=c>", ["BODY@/background a", "P@/data-href b", "P@/data-uri c"]),
        ("<div onclick=\"location.href='/go'\">", ["DIV@/onclick /go"]),
        ("<input onclick=\"window.open('/pop','w')\">", ["INPUT@/onclick /pop"]),
        ("<div onclick='alert(1)'>", []),
        ("<img src='data:image/png;base64,AAAA'>", ["IMG@/src data:image/png;base64,"]),
        ("<span href=a src=b>", []),
    ],
)
def test_links_stand_in_these_attributes(page: str, expected: list[str]) -> None:
    assert [f"{link['path']} {link['url']}" for link in links(page)] == expected


def test_links_of_style_sheets_have_href_for_url() -> None:
    page = """<style>@import "a.css"; b { background: url( 'c.png' ) } d { src: url(e) } url(())</style>"""
    assert [link["href"] for link in links(page)] == ["c.png", "e", "a.css"]
    assert {link["path"] for link in links(page)} == {"STYLE/#text"}


def test_data_urls_are_cut_at_their_comma_or_after_128_characters() -> None:
    assert strip_data_url("data:,hello") == "data:,"
    assert strip_data_url("data:text/plain,hello") == "data:text/plain,"
    assert strip_data_url("data:" + "x" * 500) == "data:" + "x" * 123
    assert strip_data_url("http://x/,data:") == "http://x/,data:"


# --- the head -------------------------------------------------------------------------------------------------------


def test_a_head_gives_title_base_metas_links_and_scripts() -> None:
    page = read_html(
        "<html lang=de xml:lang=de-AT><head><base href='/b/'><title> A &amp; B </title>"
        "<meta name=description content='c'><meta http-equiv=refresh content=5><meta property=og:type content=d>"
        "<meta charset=utf-8><meta itemprop=x content=y><link rel=icon href=i type=t><script src=s></script>"
    )
    assert page == HtmlPage(
        text="A & B\n",
        title="A & B",
        base="/b/",
        metas=(
            HtmlMeta(name="HTML@/lang", content="de"),
            HtmlMeta(name="HTML@/xml:lang", content="de-AT"),
            HtmlMeta(name="description", content="c"),
            HtmlMeta(content="5", http_equiv="refresh"),
            HtmlMeta(content="d", property="og:type"),
        ),
        head_links=(HtmlLink("LINK@/href", "i", rel="icon", type="t"),),
        scripts=(HtmlLink("SCRIPT@/src", "s"),),
    )


def test_the_title_of_a_picture_is_not_the_pages() -> None:
    page = "<head><title>Page</title></head><body><svg><title>Logo</title></svg><title>Late</title>"
    assert read_html(page).title == "Page"
    assert read_html("<svg><title>Logo</title></svg>").title is None
    assert read_html("<title/>x").title is None


# --- entities, with Python's own decoder as judge --------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([*html5, "amp", "#38", "#x26;", "#150;", "#0", "xyz"]), max_size=5),
    st.sampled_from(["", " ", "x", ";"]),
)
@settings(deadline=None)  # fmt: skip
def test_references_in_text_are_decoded_as_python_does(names: list[str], end: str) -> None:
    written = "".join(f"&{name}" for name in names) + end
    assert decode_text(written) == html.unescape(written)


def test_an_open_reference_in_an_attribute_is_left_alone_before_a_letter_or_an_equals_sign() -> None:
    assert decode_attribute("?a=1&copy=2&lt=3&notx&amp;b&amp") == "?a=1&copy=2&lt=3&notx&b&"
    assert decode_text("&copy=2 &notx") == "©=2 ¬x"


def test_numbers_that_are_no_characters_become_the_replacement_character() -> None:
    assert decode_text("&#x81;&#x8d;&#143;&#x80;") == "\x81\x8d\x8f€"  # five that windows-1252 lacks stay
    assert decode_text("&#xD800;&#x110000;&#99999999999999999999;&#0;") == "\ufffd" * 4


# --- hostile pages ---------------------------------------------------------------------------------------------------


@given(st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=60).map("".join))
@settings(deadline=None, max_examples=300)
def test_no_text_breaks_it(page: str) -> None:
    read = read_html(page)
    assert read.text == read_html_text(page).text
    msgspec.json.encode(read.links)


@given(st.binary(max_size=2000), st.sampled_from([None, "text/html; charset=utf-16", "text/html; charset=gbk"]))
@settings(deadline=None)
def test_no_bytes_break_it(body: bytes, content_type: str | None) -> None:
    page = read_html(decode_page(body, content_type=content_type).text)
    msgspec.json.encode(page)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.data())
@settings(deadline=None)
def test_a_page_cut_anywhere_is_read(page: str, data: st.DataObject) -> None:
    cut = page[: data.draw(st.integers(0, len(page)))]
    assert read_html(cut).text == read_html_text(cut).text


@pytest.mark.parametrize(
    "piece", ["<a>", "<a> ", "<p background=x>", "<?", "<!-- --", "<a b='", "<style>url(", "</p>", "&#"]
)
def test_pages_of_one_piece_repeated_end(piece: str) -> None:
    """Expressions that go back would not end within a test's patience on any of these."""
    read_html(piece * (300_000 // len(piece)))


def test_many_open_anchors_and_many_words_end() -> None:
    page = read_html("<a href=x>" * 30_000 + "x <i></p>" * 30_000 + "</a>" * 30_000)
    assert len(page.links) == 30_000


@pytest.mark.parametrize("name", ["html_80k_attrs", "html_nested_div_40k"])
def test_bombs_for_parsers_are_pages_like_others(shared_data: Path, name: str) -> None:
    bomb = gzip.decompress((shared_data / "hostile" / f"{name}.html.gz").read_bytes())
    read_html(bomb.decode())


def test_a_page_beyond_the_limit_is_refused() -> None:
    with pytest.raises(BadInput, match="characters") as refused:
        read_html("x" * (MAX_PAGE + 1))
    assert refused.value.reason == "parse_limit"
