"""Chromium judges what we make of bytes: its TextDecoder, the queries that it sends, the encodings of pages."""

from __future__ import annotations

import base64

import pytest

from tests.serve.answering import answering
from tests.serve.browser import NewTab, Tab, needs_browser
from tests.unit.formats.encoding_sequences import (
    CHROMIUM_FAULTS,
    MULTI_BYTE,
    SINGLE_BYTE,
    UNICODE,
    gb18030_fours,
    joined,
    sequences,
)
from tests.unit.formats.meta_pages import PAGES
from webmill.formats.encodings import _LABELS, decode_as, lookup_encoding
from webmill.formats.html.charset import decode_page
from webmill.formats.url.normalise import join
from webmill.formats.url.query_encoding import encode_query

pytestmark = needs_browser

DECODE = """([encoded, label]) => {
  const bytes = Uint8Array.from(atob(encoded), letter => letter.charCodeAt(0));
  return new TextDecoder(label, {ignoreBOM: true}).decode(bytes);
}"""
# Every code point but ASCII that the encoding of the page has, with what a link sends of it.
ENCODE = """() => {
  const link = document.createElement('a'), sent = [];
  for (let point = 0x80; point < 0x30000; point++) {
    if (point >= 0xD800 && point < 0xE000) continue;
    link.href = '?' + String.fromCodePoint(point);
    const query = link.search.slice(1);
    if (!query.startsWith('%26%23')) sent.push(point + ' ' + query);
  }
  return sent.join('\\n');
}"""


def differences(tab: Tab, encoding: str, parts: list[bytes]) -> dict[bytes, tuple[str, str]]:
    data = joined(parts, encoding)
    theirs = tab.page.evaluate(DECODE, [base64.b64encode(data).decode(), encoding])
    ours = decode_as(data, encoding)
    if ours == theirs:
        return {}
    lines = zip(data.split(b"\n"), ours.split("\n"), theirs.split("\n"), strict=True)
    return {part: (one, other) for part, one, other in lines if one != other}


def test_labels_mean_what_they_mean_in_chromium(new_tab: NewTab) -> None:
    script = "labels => labels.map(label => { try { return new TextDecoder(label).encoding } catch { return '' } })"
    named = new_tab().page.evaluate(script, [*_LABELS, "utf-7", "utf-32", "unknown"])
    assert dict(zip(_LABELS, named, strict=False)) == {
        label: "" if name == "replacement" else name for label, name in _LABELS.items()
    }
    assert named[len(_LABELS) :] == ["", "", ""]


def test_bytes_mean_what_they_mean_in_chromium(new_tab: NewTab) -> None:
    tab = new_tab()
    for encoding in (*UNICODE, *SINGLE_BYTE, *MULTI_BYTE):
        found = differences(tab, encoding, sequences(encoding))
        assert {part: ours for part, (ours, _) in found.items()} == CHROMIUM_FAULTS.get(encoding, {}), encoding


@pytest.mark.soak
def test_all_four_bytes_of_gb18030_mean_what_they_mean_in_chromium(new_tab: NewTab) -> None:
    assert differences(new_tab(), "gb18030", gb18030_fours(range(0x80, 0x100))) == {}


@pytest.mark.soak
def test_every_character_is_sent_in_a_query_as_chromium_sends_it(new_tab: NewTab) -> None:
    tab = new_tab()
    with answering(lambda path: (f"text/html; charset={path[1:]}", b"<title>a page</title>")) as site:
        for encoding in (*SINGLE_BYTE, *MULTI_BYTE):
            tab.page.goto(f"{site}/{encoding}")
            theirs = tab.page.evaluate(ENCODE).split("\n")
            assert _sent(encoding) == theirs, encoding


def _sent(encoding: str) -> list[str]:
    points = (*range(0x80, 0xD800), *range(0xE000, 0x30000))
    sent = ((point, encode_query(f"?{chr(point)}", encoding)) for point in points)
    known = ((point, query) for point, query in sent if not query.startswith("?%26%23"))
    return [f"{point} {join('http://a/', query).partition('?')[2]}" for point, query in known]


def test_a_query_of_several_characters_is_sent_as_chromium_sends_it(new_tab: NewTab) -> None:
    tab = new_tab()
    hrefs = ["?a=日本①語&b=ｱ\\~¥'", " ?日☃本\n語 #日本 ", "/日本?a", "?é€☃", "?q=日\tb", "?\uf780a"]
    with answering(lambda path: (f"text/html; charset={path[1:]}", b"<title>a page</title>")) as site:
        for encoding in ("iso-2022-jp", "euc-jp", "shift_jis", "gbk", "windows-1252", "x-user-defined", "utf-16le"):
            tab.page.goto(f"{site}/{encoding}")
            script = "hrefs => hrefs.map(href => Object.assign(document.createElement('a'), {href}).href)"
            theirs = [href.partition("#")[0] for href in tab.page.evaluate(script, hrefs)]
            assert [join(f"{site}/{encoding}", encode_query(href, encoding)) for href in hrefs] == theirs, encoding


def test_the_encoding_of_a_page_is_found_as_chromium_finds_it(new_tab: NewTab) -> None:
    tab = new_tab()
    pages = list(PAGES)
    with answering(lambda path: ("text/html", pages[int(path[1:])] if path[1:].isdigit() else b"")) as site:
        theirs = {}
        for number, page in enumerate(pages):
            tab.page.goto(f"{site}/{number}")
            theirs[page] = lookup_encoding(tab.page.evaluate("document.characterSet"))
    ours = {page: decode_page(page, content_type="text/html").encoding for page in pages}
    assert ours == PAGES
    assert {page: (ours[page], theirs[page]) for page in pages if ours[page] != theirs[page]} == {}
