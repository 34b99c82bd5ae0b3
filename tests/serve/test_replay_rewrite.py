"""Links of archived pages lead into the archive, and nothing else of a page changes."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from webmill.errors import BadInput
from webmill.formats.warc.http_records import read_response
from webmill.formats.warc.reader import read_records
from webmill.model import Record
from webmill.serve.replay.links import LinkRewriter, PageEncoding
from webmill.serve.replay.rewrite_css import rewrite_css
from webmill.serve.replay.rewrite_html import rewrite_html

LINKS = LinkRewriter("2023", "https://a.example/dir/page?q=1")
SITE, DIR = "/web/2023/https://a.example", "/web/2023/https://a.example/dir"


@pytest.mark.parametrize(
    ("page", "rewritten"),
    [
        ('<a href="x">', f'<a href="{DIR}/x">'),
        ("<a href=x>", f'<a href="{DIR}/x">'),
        ("<A HREF='/x'>", f'<A HREF="{SITE}/x">'),
        ("<a\nhref = /x class=y>", f'<a\nhref="{SITE}/x" class=y>'),
        ("<a/href=x>", f'<a/href="{DIR}/x">'),
        ('<a href="//b.example/?a&amp;b">', '<a href="/web/2023/https://b.example/?a&amp;b">'),
        ('<a href="http://b.example">', '<a href="/web/2023/http://b.example/">'),
        ('<a href=" ../../../up#there ">', f'<a href="{SITE}/up#there">'),
        ('<a href="?p=2">', f'<a href="{DIR}/page?p=2">'),
        ('<a href="&#x2f;x">', f'<a href="{SITE}/x">'),
        ("<a href='/\"><b>'>", f'<a href="{SITE}/%22%3E%3Cb%3E">'),
        ('<form action="/go"><button formaction=on>', f'<form action="{SITE}/go"><button formaction="{DIR}/on">'),
        ("<video poster=p.png src=v.mp4></video>", f'<video poster="{DIR}/p.png" src="{DIR}/v.mp4"></video>'),
        ("<object data=d>", f'<object data="{DIR}/d">'),
        ("<body background=b.gif>", f'<body background="{DIR}/b.gif">'),
        (
            '<img srcset="a.png, b.png 2x,/c,d.png 3x">',
            f'<img srcset="{DIR}/a.png, {DIR}/b.png 2x,{SITE}/c,d.png 3x">',
        ),
        (
            '<img srcset="/w_100,h_50/a.png 1x, /w_200,h_100/b.png,, c (1, 2), data:image/png;base64,AA== 3x">',
            (
                f'<img srcset="{SITE}/w_100,h_50/a.png 1x, {SITE}/w_200,h_100/b.png,, {DIR}/c (1, 2), '
                'data:image/png;base64,AA== 3x">'
            ),
        ),
        ('<img src=x integrity="sha256-x" crossorigin>', f'<img src="{DIR}/x"  >'),
        ('<p style="background:url(b.png);top:0">', f'<p style="background:url(&quot;{DIR}/b.png&quot;);top:0">'),
        ("<style>@import 'i.css';</style>", f'<style>@import "{DIR}/i.css";</style>'),
        ("<style>p{a:url( b.png )}</style>", f'<style>p{{a:url( "{DIR}/b.png" )}}</style>'),
        ("<meta http-equiv=Refresh content='5; URL=\"x\"'>", f'<meta http-equiv=Refresh content="5; url={DIR}/x">'),
        (
            '<meta http-equiv="Content-Security-Policy" content="default-src x">',
            '<meta http-equiv="Content-Security-Policy" content="">',
        ),
        ("<meta name=referrer content=never>", '<meta name=referrer content="">'),
        ('<a target=_blank href="x">', f'<a target="_self" href="{DIR}/x">'),
        ('<svg><image xlink:href="i.svg"/></svg>', f'<svg><image xlink:href="{DIR}/i.svg"/></svg>'),
        ('<img data-src="https://b.example/lazy.png">', '<img data-src="/web/2023/https://b.example/lazy.png">'),
        ('<iframe srcdoc="&lt;img src=x&gt;">', f'<iframe srcdoc="&lt;img src=&quot;{DIR}/x&quot;&gt;">'),
        (
            '<base href="/other/"><base href="/later/"><a href=x><base target=_top>',
            f'<base href="{SITE}/other/"><base href="{SITE}/later/"><a href="{SITE}/other/x"><base target="_self">',
        ),
    ],
)
def test_a_link_leads_into_the_archive(page: str, rewritten: str) -> None:
    assert rewrite_html(page, LINKS) == rewritten


@pytest.mark.parametrize(
    "page",
    [
        *('<a href="#top">', '<a href="javascript:go()">', '<a href="mailto:a@b.example">', '<img src="data:,x">'),
        *("<a href>", '<a href="">', "<a name=x target=main>", "<p title='<a href=x>'>", "a < b <3 </ <", "<a href='x"),
        *("<!-- <a href=x> -->", "<!--><a title=x>-->", "<! a href=x>", "<?php <a href=x ?>", "</a href=x>"),
        *("<script>'<a href=x>'</script>", "<script>a='</a><a href=x>'", "<textarea><a href=x></textarea>"),
        *("<title><a href=x></title>", "<xmp><a href=x></xmp>", "<plaintext><a href=x>", "<a href=x", '<a href="x'),
        *("<a title=\"x><img src='y'>", '<a title=\'x><img src="y">', "<a href='x><a href=y></a>"),
        '<p data-text="about https://b.example/">',
    ],
)
def test_what_is_no_link_stays(page: str) -> None:
    assert rewrite_html(page, LINKS) == page


def test_a_script_within_a_comment_of_a_script_does_not_end_it() -> None:
    """As browsers see it: what looks like a text field is part of the script, and a link follows."""
    script = "<script><!-- <script></script> '<textarea>' --></script>"
    assert rewrite_html(f"{script}<a href=x>", LINKS) == f'{script}<a href="{DIR}/x">'
    closed = "<script><!--> '<script>' </script>"
    assert rewrite_html(f"{closed}<a href=x>", LINKS) == f'{closed}<a href="{DIR}/x">'


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<!doctype html><html lang=en><head><title>x", "<!doctype html><html lang=en><head>!<title>x"),
        ("<!doctype html><title>x", "<!doctype html>!<title>x"),
        ("<html><body>", "<html>!<body>"),
        ("<!-- <head> --><HEAD a=b>", "<!-- <head> --><HEAD a=b>!"),
        ("<header>", "!<header>"),
        ("words", "words!"),
        ("", "!"),
        ("words <base href=//b.example/", "words !<base href=//b.example/"),
        ("words <!-- words", "words !<!-- words"),
        ("</p", "!</p"),
    ],
)
def test_a_script_of_ours_comes_before_all_of_the_page(page: str, expected: str) -> None:
    assert rewrite_html(page, LINKS, first="!") == expected


@pytest.mark.parametrize(
    ("sheet", "rewritten"),
    [
        ("a{b:url(x)}", f'a{{b:url("{DIR}/x")}}'),
        ('a{b:URL( "/x y" )}', f'a{{b:URL( "{SITE}/x%20y" )}}'),
        ("a{b:url('x\\'y')}", f'a{{b:url("{DIR}/x\'y")}}'),
        ("a{b:url(\\78 )}", f'a{{b:url("{DIR}/x")}}'),
        ("a{b:url(\\D55C)}", f'a{{b:url("{DIR}/%ED%95%9C")}}'),
        ('@import"x"screen;', f'@import"{DIR}/x"screen;'),
        ("@import url(x);", f'@import url("{DIR}/x");'),
        ("a{b:url(data:,x) url(#y) url() curl(x)}", "a{b:url(data:,x) url(#y) url() curl(x)}"),
        ('a{b:url("x', f'a{{b:url("{DIR}/x"'),
        ("a{b:url(x", f'a{{b:url("{DIR}/x"'),
        ("@import/**/'x';", f'@import/**/"{DIR}/x";'),
        ('a{b:image-set("x" 1x, url(y) 2x)}', f'a{{b:image-set("{DIR}/x" 1x, url("{DIR}/y") 2x)}}'),
        ('a{b:image-set("x" type("image/png"))}', f'a{{b:image-set("{DIR}/x" type("image/png"))}}'),
        ("@namespace url(http://www.w3.org/1999/xhtml);", "@namespace url(http://www.w3.org/1999/xhtml);"),
        ('@namespace svg "http://www.w3.org/2000/svg";', '@namespace svg "http://www.w3.org/2000/svg";'),
        ('a{content:"url(a)"}', 'a{content:"url(a)"}'),
        ("/* url(a) */ a{b:u\\72l(x)}", f'/* url(a) */ a{{b:u\\72l("{DIR}/x")}}'),
        ("a{b:url(a b)}", "a{b:url(a b)}"),
        ("/* it's */ a{b:url(x)}", f'/* it\'s */ a{{b:url("{DIR}/x")}}'),
    ],
)
def test_a_style_sheet_leads_into_the_archive(sheet: str, rewritten: str) -> None:
    assert rewrite_css(sheet, LINKS) == rewritten


def test_bytes_of_any_encoding_stay_and_links_mean_what_they_mean_in_it() -> None:
    page = "<p>한글\xff</p><a href='/길?말=말#말'>".encode("euc-kr", "ignore") + b"\x80\xff<b>"
    links = msgspec.structs.replace(LINKS, encoding="euc-kr")
    written = rewrite_html(page.decode("latin-1"), links, encoding=PageEncoding("euc-kr")).encode("latin-1")
    path, query = "%EA%B8%B8", "".join(f"%{byte:02X}" for byte in "말".encode("euc-kr"))
    link = f'<a href="{SITE}/{path}?{query}={query}#%EB%A7%90">'.encode()
    assert written == "<p>한글</p>".encode("euc-kr") + link + b"\x80\xff<b>"


@pytest.mark.parametrize(
    ("encoding", "href", "query"),
    [("euc-jp", "?q=&#9312;", "%AD%A1"), ("iso-2022-jp", "?q=①", "%1B$B-!%1B(B"), ("utf-8", "?q=é", "%C3%A9")],
)
def test_a_query_is_the_one_that_the_browser_sent(encoding: str, href: str, query: str) -> None:
    links = msgspec.structs.replace(LINKS, encoding=encoding)
    assert f'?q={query}"' in rewrite_html(f"<a href='{href}'>", links)


def test_a_backslash_that_is_half_of_a_character_escapes_nothing() -> None:
    page = "<style>a{content:'表';b:url(表)}</style>".encode("shift_jis")
    links = msgspec.structs.replace(LINKS, encoding="shift_jis")
    written = rewrite_html(page.decode("latin-1"), links, encoding=PageEncoding("shift_jis")).encode("latin-1")
    assert written.decode("shift_jis") == f"<style>a{{content:'表';b:url(\"{DIR}/%E8%A1%A8\")}}</style>"


@pytest.mark.parametrize("between", [",", " ", ", "])
def test_a_set_of_nothing_but_commas_takes_no_time(between: str) -> None:
    """In the square of its length this would take hours."""
    page = f'<img srcset="{between * 1_000_000}">'
    assert rewrite_html(page, LINKS) == page
    assert rewrite_html(f'<img srcset="x{between * 100}">', LINKS) == f'<img srcset="{DIR}/x{between * 100}">'


def test_a_page_may_not_become_a_thousand_times_as_long() -> None:
    long = LinkRewriter("2023", "https://a.example/" + "x" * 8000 + "/")
    for rewrite, piece in ((rewrite_html, "<a href=x>"), (rewrite_css, "url(x)")):
        with pytest.raises(BadInput, match="too many links"):
            rewrite(piece * 100_000, long)


def tags_and_links(page: str) -> tuple[list[str | None], list[str]]:
    """By a parser that follows HTML's rules for trees, too."""
    nodes = list(LexborHTMLParser(page).root.traverse())  # type: ignore[union-attr]
    found = (node.attributes.get(name) for node in nodes for name in ("href", "src", "action", "data", "poster"))
    return [node.tag for node in nodes], [link.strip() for link in found if link]


def test_real_pages_keep_their_tags_and_have_all_their_links_rewritten(shared_data: Path) -> None:
    """An independent parser finds the same links as the rewriting did."""
    seen = 0
    (file,) = (shared_data / "triple").glob("*.warc.gz")
    with file.open("rb") as stream:
        for record in islice((item for item in read_records(stream) if isinstance(item, Record)), 300):
            response = read_response(record.content)
            if record.type != "response" or "html" not in (response.content_type or ""):
                continue
            page, links = response.text.text, LinkRewriter("2024", record.target_uri or "")
            tags, before = tags_and_links(page)
            new_tags, after = tags_and_links(rewrite_html(page, links))
            assert new_tags == tags
            base = links
            if bases := re.findall(r"<base[^>]*href=[\"']?([^\"'> ]+)", page):
                base = links.with_base(bases[0])
            for old, new in zip(before, after, strict=True):
                assert new in (base.rewrite(old) or old, links.rewrite(old)), record.target_uri
                seen += new.startswith("/web/2024/http")
    assert seen > 10_000


PIECES = st.sampled_from(
    [
        *("<a href=", "<a b='", '<img src="', "<style>", "</style>", "<script>", "</script>", "<!--", "-->", "--!>"),
        *(">", '"', "'", "=", "/", " ", "x", "&amp;", "url(", "url('", ")", "@import ", "\\", "<", "</", "<!"),
        *("<meta http-equiv=refresh content=", "srcset=", ",", "\n", "\x00", "é", "<iframe srcdoc='", "<plaintext>"),
        "<base href=",
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_page_breaks_the_rewriting_and_a_page_without_links_stays(page: str) -> None:
    assert isinstance(rewrite_html(page, LINKS, encoding=PageEncoding("utf-8"), first=""), str)
    nowhere = LinkRewriter("2023", "urn:nothing")  # no link can be resolved: nothing to rewrite
    assert len(rewrite_html(page.replace("srcset", "src"), nowhere)) <= 8 * len(page) + 8


@pytest.mark.parametrize(
    "piece",
    [
        *('<a href="', "<a b='", "<!--", "<a ", "<", "<a href=x ", "&", "<style>url('", 'url("', "<script", "<a ="),
        *(
            "<img srcset='a,",
            " ,",
            '<iframe srcdoc="',
            "<meta content='",
            "<a href=/",
            "@import ",
            "\\",
            "url(\\",
            "</a",
        ),
    ],
)
def test_time_is_linear_in_a_page_of_nothing_but(piece: str) -> None:
    """A quadratic step would take hours for these."""
    page = piece * (500_000 // len(piece))
    rewrite_html(page, LINKS)
    rewrite_css(page, LINKS)
