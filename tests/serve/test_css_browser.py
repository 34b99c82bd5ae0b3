"""Chromium judges which URLs a style sheet and a `srcset` have: it fetches them."""

from __future__ import annotations

from tests.serve.answering import answering
from tests.serve.browser import NewTab, needs_browser
from webmill.formats.css import read_css_urls, unescape_css
from webmill.formats.html.srcset import read_srcset
from webmill.formats.url.normalise import join

pytestmark = needs_browser

# Each is a whole sheet; a letter that is not fetched stands where only a string or a name is.
SHEETS = (
    "p{background:url(a)}",
    "p{background:url( 'a' )}",
    'p{background:URL("a"',
    "p{background:url(a",
    "p{background:url('a",
    "p{background:u\\72l(a)}",
    "p{background:\\75 rl(a)}",
    "@namespace url(http://www.w3.org/1999/xhtml); p{background:url(a)}",
    "p::before{content:'url(n)'} p{background:url(a)}",
    "p{background:image-set('a' 1x)}",
    "p{background:-webkit-image-set(url(a) 1x)}",
    "p{background:image-set('a' type('image/png'), 'b' type('text/n'))}",
    "@import/**/'a';",
    "@import url(a) screen;",
    '@IMPORT "a"',
    "@import/**/url('a') layer(x);",
    "/*p{background:url(n)}*/p{background:url(a)}",
    "<!-- p{background:url(a)} -->",
    "p{background:url(n m)} p{background:url(a)}",
    "p{background:1url(n)} p{background:#url(n)} p{background:curl(n)} p{background:url(a)}",
    "p{background:url('n\n')} p{background:url(a)}",
    "p{background:url(a\\\nb)}",
    "p{background:url('a\\\nb')}",
    "p{--x:url(a);background:var(--x)}",
    "@supports (background:url(n)){p{background:url(a)}}",
    "p{background:-webkit-cross-fade(url(a),url(b),50%)}",
    "p{background:url(\\61)}",
    "p{background:url(a);",
    "p{content:'a\\'}p{background:url(n)}",
)
# Which of a set is fetched depends on the screen: these have one that every screen takes.
SETS = (
    "a",
    "a 1x",
    "a,b 1x",
    "a,b,c",
    " , a,",
    ",,a 1x,,",
    "\fa\t1x\n,",
    "a\u00a0b 1x",
)


TAKEN = """async srcset => {
  const image = Object.assign(document.createElement('img'), {srcset});
  await new Promise(done => image.onload = image.onerror = done);
  return image.currentSrc;
}"""


def name(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_sheet_has_the_urls_that_chromium_fetches(new_tab: NewTab) -> None:
    tab = new_tab()
    with answering(lambda path: _answer(int(path[2:])) if path.startswith("/p") else ("image/png", b"")) as site:
        fetched = {}
        for number, sheet in enumerate(SHEETS):
            tab.asked.clear()
            tab.page.goto(f"{site}/p{number}", wait_until="load")
            fetched[sheet] = _asked(tab.asked, f"p{number}")
    assert {sheet: found(sheet) for sheet in SHEETS} == fetched


def found(sheet: str) -> set[str]:
    urls = {unescape_css(one.written) for one in read_css_urls(sheet)}
    return urls - NOT_USED.get(sheet, set())


# URLs that are there, and that Chromium does not need: the sheet does not use them.
NOT_USED = {
    "p{background:image-set('a' type('image/png'), 'b' type('text/n'))}": {"b"},
    "@supports (background:url(n)){p{background:url(a)}}": {"n"},
}


def _answer(number: int) -> tuple[str, bytes]:
    page = "<!doctype html><link rel=icon href=data:,><style>\ufeff</style><p>words"
    return "text/html; charset=utf-8", page.replace("\ufeff", SHEETS[number]).encode()


def _asked(urls: list[str], page: str) -> set[str]:
    return {name(url) for url in urls if not url.startswith("data:")} - {page}


def test_a_set_has_the_url_that_chromium_takes(new_tab: NewTab) -> None:
    page = new_tab().page
    with answering(lambda path: ("text/html", b"<!doctype html>") if path == "/" else ("image/png", b"")) as site:
        page.goto(site)
        taken = {value: page.evaluate(TAKEN, value) for value in SETS}
    ours = {value: [join(f"{site}/", value[start:end]) for start, end in read_srcset(value)] for value in SETS}
    assert ours == {value: [url] for value, url in taken.items()}
