"""What pages and style sheets need, in good and in bad spelling."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.crawl.frontier.base import PAGE_RESOURCE
from webmill.crawl.frontier.hops import pack_hops, unpack_hops
from webmill.crawl.page.links import MAX_LINKS, MAX_PAGE, read_links
from webmill.crawl.page.resources import (
    PageResource,
    read_module_resources,
    read_page,
    read_resources,
    read_sheet_resources,
)
from webmill.crawl.visit.page_reader import MOST_STEPS
from webmill.crawl.visit.resource_share import share_out
from webmill.formats.css import read_css_urls, unescape_css
from webmill.formats.html.srcset import read_srcset
from webmill.model import Link

URL = "http://a.example/dir/page"
# Of these pages are put together that are read in one pass and in two.
WHOLE = [
    *("<a href=a>", "<A HREF='b' rel=nofollow>", "<area href=c>", "<base href=/other/>", "<iframe src=d></iframe>"),
    *("<link rel='next stylesheet' href=e>", "<link rel=canonical href=f>", "<link rel=icon href=g>", "<img src=h>"),
    *(
        "<meta name=robots content=nofollow>",
        "<meta http-equiv=refresh content='0;url=i'>",
        "<title>j</title>",
        "<title",
    ),
    *(
        "<script>",
        "<script type=module>import './k'</script>",
        "<style>a{b:url(l)}</style>",
        "<style>",
        "<svg:a href=m>",
    ),
    *(
        "<!--",
        "-->",
        "<textarea>",
        "</textarea>",
        "<a2 href=n>",
        "<a/href=o>",
        "<p style='c:url(q)'",
        ">",
        "<",
        "é",
        "\0",
    ),
    *(
        "<plaintext>",
        "<iframe srcdoc='<a href=r><img src=s>'>",
        "<title/>",
        "<",
        "</a>",
        "<p a='",
        '"',
        "<!DOCTYPE html>",
    ),
]
LEAF = "http://a.example/dir/x"


def found(page: str, **more: str) -> list[str]:
    return [one.url for one in read_resources(page.encode(), url=URL, content_type="text/html; charset=utf-8", **more)]


def styled(sheet: str) -> list[str]:
    return [unescape_css(reference.written) for reference in read_css_urls(sheet)]


# --- pages ---


@pytest.mark.parametrize(
    "page",
    [
        "<img src=x>",
        "<IMG SRC='x'>",
        "<img src=' x\n'>",
        "<img alt='>' src=x>",
        "<img data-src=x>",
        "<img src=x#part>",
        "<picture><source srcset=x></picture>",
        "<video src=x></video>",
        "<video poster=x></video>",
        "<audio><source src=x></audio>",
        "<video><track src=x></video>",
        "<script src=x></script>",
        "<script type=module src=x></script>",
        "<link rel=stylesheet href=x>",
        "<link rel='Shortcut Icon' href=x>",
        "<link rel='alternate stylesheet' href=x>",
        "<link rel=preload as=font href=x>",
        "<link rel=preload as=image imagesrcset='x 2x'>",
        "<link rel=manifest href=x>",
        "<iframe src=x></iframe>",
        "<frameset><frame src=x></frameset>",
        "<iframe srcdoc='<img src=x>'></iframe>",
        "<object data=x></object>",
        "<embed src=x>",
        "<input type=IMAGE src=x>",
        "<body background=x>",
        "<td background=x>",
        "<svg><image href=x /></svg>",
        "<svg><image xlink:href=x /></svg>",
        "<svg><use href=x#shape></use></svg>",
        "<svg><feImage href=x /></svg>",
        "<p style='background: url(x)'>",
        "<p style='background: url(&quot;x&quot;)'>",
        "<style>p { background: url(x) }</style>",
        "<style>@import 'x';</style>",
        "<noscript><img src=x></noscript>",
        "<template><img src=x></template>",
        "<base href=/dir/other/><img src=../x>",
        "<img src=/dir/x><base href=/elsewhere/>",
        "<img src=//a.example/dir/x>",
        "<svg><script href=x></script></svg>",
        "<svg><script xlink:href=x></script></svg>",
        "<svg><rect fill='url(x#red)'/></svg>",
        "<svg><g clip-path='url(&quot;x#shape&quot;)'></g></svg>",
        "<p style='background: image-set(\"x\" 2x)'>",
        "<link rel=modulepreload href=x>",
        "<link rel=preload as=image href=x imagesrcset=''>",
        "<link rel=preload as=image imagesrcset='x 400w, x 800w' imagesizes=50vw>",
        "<script type=module>import './x'</script>",
        "<script type=' Module '>import {a} from './x'; a()</script>",
        "<video poster=x src='' controls></video>",
        "<object data=x type=image/svg+xml><img src=x></object>",
    ],
)
def test_what_a_browser_loads_is_found(page: str) -> None:
    assert found(page) == [LEAF]


@pytest.mark.parametrize(
    "page",
    [
        "<a href=x>",
        "<link rel=next href=x>",
        "<link rel=canonical href=x>",
        "<link rel=dns-prefetch href=x>",
        "<link rel=prefetch href=x>",
        "<link href=x>",
        "<form action=x>",
        "<input src=x>",
        "<blockquote cite=x>",
        "<img src>",
        "<img src=''>",
        "<img src='#x'>",
        "<img src=' #x'>",
        "<img src=data:image/png;base64,AAAA>",
        "<img src=about:blank>",
        "<img src='\nJavaScript:x'>",
        "<img src=page>",  # itself
        "<img src=http://>",
        "<img src='http://a b/'>",
        "<img src=x",
        "<!-- <img src=x> -->",
        "<textarea><img src=x></textarea>",
        "<script>'<img src=x>'</script>",
        "<title><img src=x></title>",
        "<svg><use href='#x'></use></svg>",
        "<style>/* url(x) */</style>",
        "<p style='color: red'>",
        "<p title='background'>",
        "<p title='url(x)'>",
        "<svg><rect fill='url(#red)'/></svg>",
        "<script>import './x'</script>",
        "<script type=text/plain>import './x'</script>",
        "<script type=module>import('./x')</script>",
        "<script type=importmap>{'imports': {'a': './x'}}</script>",
        "<script type=speculationrules>{'prefetch': [{'urls': ['x']}]}</script>",
        "<video preload=x></video>",
        "<link rel=preload imagesizes=x>",
        "<object classid=x></object>",
    ],
)
def test_what_it_does_not_load_is_not(page: str) -> None:
    assert found(page) == []


def test_each_is_found_once_in_the_order_of_the_page() -> None:
    assert found("<img src=b><img src=a><img src=b><link rel=icon href=a>") == [
        "http://a.example/dir/b",
        "http://a.example/dir/a",
    ]


def test_documents_and_sheets_may_hold_more_and_pictures_may_not() -> None:
    page = b"<link rel=stylesheet href=1><iframe src=2></iframe><style>@import '3'; a{b:url(4)}</style><img src=5>"
    requisites = read_resources(page, url=URL, content_type=None)
    assert {one.url[-1]: one.may_hold_more for one in requisites} == {
        "1": True,
        "2": True,
        "3": True,
        "4": False,
        "5": False,
    }


def test_a_sheet_that_a_script_turns_on_may_hold_more() -> None:
    page = b"<link rel=preload as=Style href=1 onload=\"this.rel='stylesheet'\"><link rel=preload as=font href=2>"
    requisites = read_resources(page, url=URL, content_type=None)
    assert [one.may_hold_more for one in requisites] == [True, False]


def test_modules_and_what_they_import_may_hold_more() -> None:
    page = b"<script type=module src=1></script><script src=2></script><link rel=modulepreload href=3>"
    page += b"<script type=module>import './4'</script><embed src=5>"
    requisites = read_resources(page, url=URL, content_type=None)
    assert {one.url[-1]: one.may_hold_more for one in requisites} == {
        "1": True,
        "2": False,
        "3": True,
        "4": True,
        "5": True,
    }


def test_the_field_link_names_requisites_too() -> None:
    field = '<x>; rel="preload"; as=style, </sheet>; rel=stylesheet, <no>; rel=next, <dir2/y>; rel=icon'
    page = read_resources(b"<base href=/elsewhere/>", url=URL, content_type=None, link_field=field)
    assert page == [
        PageResource(LEAF, may_hold_more=False),
        PageResource("http://a.example/sheet", may_hold_more=True),
        PageResource("http://a.example/dir/dir2/y", may_hold_more=False),
    ]


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        ("", []),
        (" , ,", []),
        ("a", ["a"]),
        ("a, b 2x,c 100w", ["a", "b", "c"]),
        ("a,b", ["a,b"]),  # as browsers do: no white space behind the comma
        ("a,, b", ["a", "b"]),
        ("a 1x,b", ["a", "b"]),
        ("data:image/png;base64,AA== 1x, b", ["data:image/png;base64,AA==", "b"]),
        ("a (x, y), b", ["a", "b"]),
        ("a (never closed, b", ["a"]),
    ],
)
def test_a_set_of_pictures_is_taken_apart_as_browsers_do(value: str, addresses: list[str]) -> None:
    assert [value[start:end] for start, end in read_srcset(value)] == addresses


def test_no_page_gives_more_than_ten_thousand() -> None:
    page = "".join(f"<img src={number}>" for number in range(MAX_LINKS + 5))
    assert len(found(page)) == MAX_LINKS


# --- style sheets ---


@pytest.mark.parametrize(
    "sheet",
    [
        "url(x)",
        "URL( x )",
        "url('x')",
        'url( "x" )',
        "a{b:url(x)}",
        "src: url(x) format('woff2')",
        r"url(\78)",
        r"url(\000078 )",
        "url('\\\nx')",
        "@import 'x'",
        '@IMPORT"x";',
        "@import url(x) screen;",
        "@import url('x'",
        "/**/url(x)/* url(y)",
        "/*! first */*,:after{a:url(x)}",
        "/*/ url(y) */url(x)/*/",
        "'\\'' url(x)",
        "' url(y)\n url(x)",
        "@namespace svg url(y); url(x)",
        "url(y z) url(x)",
        "url(y'z) url(x)",
        "@import 'x' layer;",
        "@import url(x) layer(base);",
        "@import url('x')layer(base.more)supports(display: grid)screen and (min-width: 1px);",
        "@import url(x) supports(not (display: inline-grid));",
        "@import/**/'x';",
        "@import /* a */ url(x);",
        "@layer base; @import 'x';",
        'image-set("x" 1x)',
        "image-set('x')",
        "-webkit-image-set(url(x) 1x)",
        'IMAGE-SET("x" type("image/avif") 2x)',
        'image-set(linear-gradient(rgb(1, 2, 3), red) 1x, "x" type("image/png"))',
        'image-set(/* "y" */ "x")',
        "image-set(url(\"x\") type('image/png'), 2x",
        'a{b:image-set(1x;} c{content:"y"; d:url(x)}',
        "cross-fade(url(x), red)",
        "a{cursor:url(x) 2 2,auto}",
        "@font-face{src:local('y'),url(x)format('woff2')tech(variations)}",
    ],
)
def test_addresses_of_a_sheet_are_found(sheet: str) -> None:
    assert styled(sheet) == ["x"]


@pytest.mark.parametrize(
    "sheet",
    [
        *("", "/* url(x) */", "/* url(x)", "'url(x)'", '"@import y; url(x)"', "@import x;", "url", "url(", "url()"),
        *("my-url(x)", "image-set(1x)", "my-image-set('x')", "image-set(type('x'))", "image-set(", "url-prefix(x)"),
        "a{content:'x'}",
    ],
)
def test_what_is_none_is_not(sheet: str) -> None:
    assert styled(sheet) == []


def test_imports_are_told_from_pictures() -> None:
    references = read_css_urls("@import url(a); @import 'b'; c{d:url(e)}")
    assert [(one.written, one.is_import) for one in references] == [("a", True), ("b", True), ("e", False)]


def test_addresses_of_a_sheet_are_relative_to_it() -> None:
    sheet = b"\xef\xbb\xbf@import 'more.css'; a{b:url(../c.png)} d{e:url(data:,x)} f{g:url(#h)}"
    assert read_sheet_resources(sheet, url="http://a.example/look/main.css") == [
        PageResource("http://a.example/look/more.css", may_hold_more=True),
        PageResource("http://a.example/c.png", may_hold_more=False),
    ]


# --- modules ---


@pytest.mark.parametrize(
    "script",
    [
        "import './x'",
        'import"./x";',
        "import a from './x'",
        "import{a as b,c}from'./x'",
        "import a, * as b from './x'",
        "import {\n  a, // one\n  b, /* two */\n} from './x';",
        "import './x' with { type: 'json' }",
        "import defer * as a from './x'",
        "export * from './x'",
        "export * as a from './x'",
        "export { a, b as c } from './x'",
        "export {a} from 'react'; import '../dir/x'",
        "/* import './y' */ import './x'",
        "  // import './y'\nimport './x'",
        "const a = 'http://example.com/'; import './x'",
        "import a from 'react';import{b}from'./x';",
        "var a=1;import'./x'",
        "import 'HTTP://a.example/dir/x'",
    ],
)
def test_what_a_module_imports_is_found(script: str) -> None:
    (requisite,) = read_module_resources(script.encode(), url=URL)
    assert (requisite.url, requisite.may_hold_more) == (LEAF, True)


@pytest.mark.parametrize(
    "script",
    [
        "",
        "import",
        "import(",
        "import.meta.url + './x'",
        "import 'x'",
        "import a from 'x'",
        "import 'node:fs'",
        "import 'data:text/javascript,1'",
        "export default './x'",
        "export const a = './x'",
        "export { a }; './x'",
        "reimport './x'",
        "$import './x'",
        "a.import './x'",
        "'import' './x'",
        "import {a} './x'",
        "import './x",
        "import './page'",  # itself
    ],
)
def test_what_it_does_not_import_is_not(script: str) -> None:
    assert read_module_resources(script.encode(), url=URL) == []


# --- links and requisites at once ---


@given(
    st.lists(st.sampled_from(WHOLE), max_size=30).map("".join), st.sampled_from([None, "<x>; rel=next, <y>; rel=icon"])
)
@settings(deadline=None)
def test_one_pass_finds_what_two_find(page: str, field: str | None) -> None:
    reported = {"url": URL, "content_type": "text/html; charset=utf-8", "link_field": field}
    payload = page.encode()
    assert read_page(payload, **reported) == (read_links(payload, **reported), read_resources(payload, **reported))


def test_a_page_that_is_too_long_is_read_as_far_as_others_are() -> None:
    payload = b"<a href=1><img src=2>" + b" " * MAX_PAGE + b"<a href=3><img src=4>"
    links, requisites = read_page(payload, url=URL, content_type=None)
    assert links == read_links(payload, url=URL, content_type=None)
    assert requisites == read_resources(payload, url=URL, content_type=None)
    assert links.flaws == ("page_too_long",)


# --- whatever it holds ---

PIECES = [
    '"\\',
    "url(",
    "url('",
    "@import ",
    "/*",
    "url(a ",
    "@import url(",
    "\\",
    "'\n",
    "@namespace ",
    "url(\\(",
    "*/",
    "image-set(",
    "image-set('",
    "image-set(;",
    "@import/*",
]
SCRIPTED = ["import ", "import{", "import/*", "import//", "export from ", "import from//\n", "\n/*", "import '"]
MARKUP = [
    "<",
    "<img ",
    "<img src=x ",
    "<img srcset='a (",
    "<style>",
    "<p style='url(",
    "<iframe srcdoc='",
    "<!--",
    "</",
]


@pytest.mark.parametrize("piece", [*PIECES, *MARKUP])
def test_time_is_linear_in_a_page_of_nothing_but(piece: str) -> None:
    """A quadratic step would take hours for these."""
    many = (piece * (MAX_PAGE // 8 // len(piece))).encode()
    read_sheet_resources(many, url=URL)
    read_resources(many, url=URL, content_type="text/html")
    read_resources(b"<style>" + many, url=URL, content_type="text/html")


@pytest.mark.parametrize("piece", SCRIPTED)
def test_time_is_linear_in_a_module_of_nothing_but(piece: str) -> None:
    read_module_resources((piece * (MAX_PAGE // 8 // len(piece))).encode(), url=URL)


@pytest.mark.parametrize(("piece", "end"), [("from/*", "*/x"), ("from//", "\nx"), ("from ", "x"), ("/**/from", "x")])
def test_time_is_linear_in_the_names_that_a_module_imports(piece: str, end: str) -> None:
    """They are looked at once more, when an address stands behind them."""
    names = piece * (MAX_PAGE // 8 // len(piece))
    assert read_module_resources(f"import {names}{end}'./a.js'".encode(), url=URL) == []


@given(
    st.lists(st.sampled_from([*PIECES, *MARKUP, "x", " ", ")", "'", '"', ";", ">", "=", ",", "é", "\0"]), max_size=40)
)
@settings(deadline=None)
def test_nothing_that_is_found_is_no_url(pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    for one in [*read_resources(text, url=URL, content_type=None), *read_sheet_resources(text, url=URL)]:
        assert one.url.startswith(("http://", "https://"))
        assert "#" not in one.url
        assert one.url != URL


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read(data: bytes) -> None:
    read_resources(data, url=URL, content_type=None)
    read_sheet_resources(data, url=URL)
    read_module_resources(data, url=URL)


# --- shares ---


@given(st.integers(0, MOST_STEPS), st.integers(0, 100_000))
def test_a_share_travels_in_a_byte_and_never_grows(steps: int, share: int) -> None:
    packed = pack_hops(Link("", 0, PAGE_RESOURCE, resource_steps=steps, resource_share=share))
    assert 0 <= packed < 256
    found = Link("", 0, PAGE_RESOURCE, *unpack_hops(PAGE_RESOURCE, packed))
    assert (found.redirects, found.sitemap_depth, found.resource_steps) == (0, 0, steps)
    assert min(share, 16384) // 2 <= found.resource_share <= share
    assert pack_hops(found) == packed


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 100))
def test_what_is_dealt_out_is_never_more_than_there_is(holding: list[bool], share: int) -> None:
    requisites = [PageResource(f"http://a.example/{number}", more) for number, more in enumerate(holding)]
    dealt = share_out(requisites, share)
    assert len(dealt.taken) + sum(rest for _, rest in dealt.taken) <= share
    assert len(dealt.taken) + dealt.left_out == len(requisites)
    assert all(rest == 0 for (_, rest), requisite in zip(dealt.taken, requisites, strict=False) if not requisite[1])
