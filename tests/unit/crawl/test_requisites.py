"""What pages and style sheets need, in good and in bad spelling."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.crawl.links import MAX_LINKS, MAX_PAGE
from webmill.crawl.requisites import Requisite, candidates, read_requisites, read_sheet_requisites
from webmill.crawl.style_sheets import Reference, read_style
from webmill.flows.crawl.requisites import MOST_STEPS, Belonging, deal

URL = "http://a.example/dir/page"
LEAF = "http://a.example/dir/x"


def found(page: str, **more: str) -> list[str]:
    return [one.url for one in read_requisites(page.encode(), url=URL, content_type="text/html; charset=utf-8", **more)]


def styled(sheet: str) -> list[str]:
    return [reference.url for reference in read_style(sheet)]


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
    requisites = read_requisites(page, url=URL, content_type=None)
    assert {one.url[-1]: one.may_hold_more for one in requisites} == {
        "1": True,
        "2": True,
        "3": True,
        "4": False,
        "5": False,
    }


def test_a_sheet_that_a_script_turns_on_may_hold_more() -> None:
    page = b"<link rel=preload as=Style href=1 onload=\"this.rel='stylesheet'\"><link rel=preload as=font href=2>"
    requisites = read_requisites(page, url=URL, content_type=None)
    assert [one.may_hold_more for one in requisites] == [True, False]


def test_the_field_link_names_requisites_too() -> None:
    field = '<x>; rel="preload"; as=style, </sheet>; rel=stylesheet, <no>; rel=next, <dir2/y>; rel=icon'
    page = read_requisites(b"<base href=/elsewhere/>", url=URL, content_type=None, link_field=field)
    assert page == [
        Requisite(LEAF, may_hold_more=False),
        Requisite("http://a.example/sheet", may_hold_more=True),
        Requisite("http://a.example/dir/dir2/y", may_hold_more=False),
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
    assert list(candidates(value)) == addresses


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
    ],
)
def test_addresses_of_a_sheet_are_found(sheet: str) -> None:
    assert styled(sheet) == ["x"]


@pytest.mark.parametrize(
    "sheet", ["", "/* url(x) */", "/* url(x)", "'url(x)'", '"@import y; url(x)"', "@import x;", "url", "url(", "url()"]
)
def test_what_is_none_is_not(sheet: str) -> None:
    assert styled(sheet) == []


def test_imports_are_told_from_pictures() -> None:
    assert list(read_style("@import url(a); @import 'b'; c{d:url(e)}")) == [
        Reference("a", is_import=True),
        Reference("b", is_import=True),
        Reference("e", is_import=False),
    ]


def test_addresses_of_a_sheet_are_relative_to_it() -> None:
    sheet = b"\xef\xbb\xbf@import 'more.css'; a{b:url(../c.png)} d{e:url(data:,x)} f{g:url(#h)}"
    assert read_sheet_requisites(sheet, url="http://a.example/look/main.css") == [
        Requisite("http://a.example/look/more.css", may_hold_more=True),
        Requisite("http://a.example/c.png", may_hold_more=False),
    ]


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
]
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
    read_sheet_requisites(many, url=URL)
    read_requisites(many, url=URL, content_type="text/html")
    read_requisites(b"<style>" + many, url=URL, content_type="text/html")


@given(
    st.lists(st.sampled_from([*PIECES, *MARKUP, "x", " ", ")", "'", '"', ";", ">", "=", ",", "é", "\0"]), max_size=40)
)
@settings(deadline=None)
def test_nothing_that_is_found_is_no_url(pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    for one in [*read_requisites(text, url=URL, content_type=None), *read_sheet_requisites(text, url=URL)]:
        assert one.url.startswith(("http://", "https://"))
        assert "#" not in one.url
        assert one.url != URL


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_any_bytes_are_read(data: bytes) -> None:
    read_requisites(data, url=URL, content_type=None)
    read_sheet_requisites(data, url=URL)


# --- shares ---


@given(st.integers(0, MOST_STEPS), st.integers(0, 100_000))
def test_a_share_travels_in_a_byte_and_never_grows(steps: int, share: int) -> None:
    packed = Belonging(steps, share).hops
    assert 0 <= packed < 256
    found = Belonging.of(packed)
    assert found.steps == steps
    assert min(share, 16384) // 2 <= found.share <= share
    assert Belonging.of(found.hops) == found


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 100))
def test_what_is_dealt_out_is_never_more_than_there_is(holding: list[bool], share: int) -> None:
    requisites = [Requisite(f"http://a.example/{number}", more) for number, more in enumerate(holding)]
    dealt = deal(requisites, share)
    assert len(dealt.taken) + sum(rest for _, rest in dealt.taken) <= share
    assert len(dealt.taken) + dealt.left_out == len(requisites)
    assert all(rest == 0 for (_, rest), requisite in zip(dealt.taken, requisites, strict=False) if not requisite[1])
