"""Listings to rows and pages to bodies, in the dialects of several systems, and of strangers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.boards.board_samples import GNUBOARD, JWXE, K2WEB, PIECES, PLAIN, WORDPRESS, XPRESSENGINE
from webmill.boards.board_list import Board, Selectors
from webmill.boards.links import clean_link, notice_number
from webmill.boards.listing import (
    Attachment,
    NoticeBody,
    NoticeListing,
    NoticeRow,
    read_body,
    read_listing,
    selector_error,
)
from webmill.errors import BadInput

NOW = datetime(2024, 5, 20, 12, 0, tzinfo=timezone(timedelta(hours=9)))
URL = "http://cs.uni.example/board/list"


def listing(
    html: str, *, url: str = URL, charset: str = "utf-8", own: Selectors | None = None, cms: str = ""
) -> NoticeListing:
    board = Board(source="s/b", board="b", url=url, selectors=own or Selectors(), cms=cms)
    kind = f"text/html; charset={charset}"
    return read_listing(html.encode(charset, "xmlcharrefreplace"), url=url, content_type=kind, board=board, now=NOW)


def body(html: str, *, own: Selectors | None = None, cms: str = "") -> NoticeBody:
    board = Board(source="s/b", board="b", url=URL, selectors=own or Selectors(), cms=cms)
    return read_body(html.encode(), url=URL, content_type="text/html; charset=utf-8", board=board)


@pytest.mark.parametrize("charset", ["utf-8", "euc-kr"])
@pytest.mark.parametrize(
    ("name", "html"),
    [
        ("gnuboard", GNUBOARD),
        ("xpressengine", XPRESSENGINE),
        ("k2web", K2WEB),
        ("jwxe", JWXE),
        ("wordpress", WORDPRESS),
        ("generic", PLAIN),
    ],
    ids=["gnuboard", "xpressengine", "k2web", "jwxe", "wordpress", "generic"],
)
def test_the_boards_of_known_systems_are_read_without_selectors(name: str, html: str, charset: str) -> None:
    found = listing(html, charset=charset)
    assert found.cms == name
    assert [row.title for row in found.rows] == ["수강신청 안내", "둘째"]
    assert [row.is_pinned for row in found.rows] == [True, False]
    assert found.rows[0].date == "2024-05-01"
    assert found.rows[1].date in ("2024-05-19", "2024-05-20")
    if name not in ("jwxe", "generic"):  # these do not say which cell is whose
        assert [row.author for row in found.rows] == ["학사팀", "조교"]
    if name != "wordpress":
        assert [row.id for row in found.rows] == ["7", "6"]
    assert "jsession" not in found.rows[0].url
    assert bool(found.next_url) == (name != "jwxe")
    assert not found.problems


def test_views_and_comments_and_sessions_change_no_row() -> None:
    before = listing(GNUBOARD)
    after = listing(
        GNUBOARD.replace(">55<", ">56<")
        .replace('cnt_cmt">3', 'cnt_cmt">4')
        .replace('<span class="new_icon">N</span>', "")
        .replace("page=1", "page=2")
    )
    assert before.rows == after.rows
    assert listing(K2WEB).rows == listing(K2WEB.replace("A1B2", "C3D4")).rows


def test_own_selectors_come_before_those_of_a_system() -> None:
    html = '<div id="bo_list"><p class=x><i>24.05.01</i><b>제목</b><u data-to="view?no=5">가기</u></p></div>'
    own = Selectors(item="p.x", title="b", link="u", link_attribute="data-to", date="i")
    assert listing(html, own=own).rows == (
        NoticeRow("5", "http://cs.uni.example/board/view?no=5", "제목", date="2024-05-01"),
    )


def test_lines_of_a_selector_are_tried_in_turn() -> None:
    html = "<li class=r><a href=/c>분류</a><a class=t href=/notice/3>제목</a></li>"
    assert [row.id for row in listing(html, own=Selectors(item="tr\n.r", title=".none\n.t")).rows] == ["3"]


def test_a_notice_that_is_pinned_and_listed_is_one() -> None:
    row = '<tr{}><td>{}<td><a href="v?seq=1&page=9">가</a><td>2024.05.01<td>1</tr>'
    found = listing("<table>" + row.format(" class=notice", "공지") + row.format("", "1") + "</table>")
    assert [(one.id, one.is_pinned) for one in found.rows] == [("1", True)]
    assert found.problems == {"twice": 1}


def test_two_notices_with_one_number_are_two() -> None:
    found = listing('<table><tr><td><a href="/a?id=5">가</a><tr><td><a href="/b?id=5">나</a></table>')
    assert len({row.id for row in found.rows}) == 2


def test_what_is_wrong_with_rows_is_counted() -> None:
    rows = [
        "<td>없음</td>",
        '<td><a href="javascript:go(5)">스크립트</a></td><td>2024.05.01</td><td></td>',
        '<td><a href="v?seq=2"> </a></td><td>2024.05.01</td><td></td>',
        '<td><a href="v?seq=3">날짜 없음</a></td><td>1, 3학년</td><td></td>',
    ]
    html = "<table>" + "".join(f"<tr class=r>{row}</tr>" for row in rows) + "</table>"
    found = listing(html, own=Selectors(item="tr.r"))
    assert found.matched == 4
    assert found.problems == {"no_link": 1, "bad_link": 1, "no_title": 1, "bad_date": 1}
    assert [(row.title, row.date, row.date_text) for row in found.rows] == [("날짜 없음", "", "1, 3학년")]


def test_an_empty_board_matches_something_and_has_no_rows() -> None:
    html = "<div id=bo_list><table><tbody><tr><td colspan=5>게시물이 없습니다.</td></tr></tbody></table></div>"
    found = listing(html)
    assert (found.matched, found.rows, found.problems) == (1, (), {"no_link": 1})
    assert listing("<p>hello").matched == 0


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("list?page=2", "http://cs.uni.example/board/list?page=2"),
        ("http://elsewhere.example/list?page=2", ""),
        ("javascript:page(2)", ""),
        ("list", ""),  # this page
        ("http://[", ""),
    ],
)
def test_the_next_page_is_another_one_of_the_same_host(href: str, expected: str) -> None:
    assert listing(f"{PLAIN.replace('list?page=2', href)}").next_url == expected


def test_a_page_of_too_many_rows_is_cut_and_told() -> None:
    found = listing(
        "<table>" + "".join(f"<tr><td><a href='v?seq={n}'>{n}</a></td></tr>" for n in range(1100)) + "</table>"
    )
    assert (len(found.rows), found.problems["too_many"]) == (1000, 100)


@pytest.mark.parametrize(
    ("href", "clean"),
    [
        ("view;jsessionid=0A?articleNo=5", "view?articleNo=5"),
        ("view?articleNo=5&article.offset=20&articleLimit=10", "view?articleNo=5"),
        ("view?articleNo=5&PHPSESSID=abc&utm_source=x&fbclid=y", "view?articleNo=5"),
        ("view?b=notice&sid=1", "view?b=notice"),
        ("view?sid=1", "view"),
        ("list?page=2", "list?page=2"),  # no notice is named: the page may be what matters
        ("/notice/5?page=2", "/notice/5"),
        ("view?seq=5#top", "view?seq=5"),
        (" view?seq=5 ", "view?seq=5"),
        ("view?seq=5&name=%EA%B0%80", "view?seq=5&name=%EA%B0%80"),
    ],
)
def test_links_lose_what_changes_by_itself(href: str, clean: str) -> None:
    expected = f"http://cs.uni.example{clean}" if clean.startswith("/") else f"http://cs.uni.example/board/{clean}"
    assert clean_link(URL, href) == expected


@pytest.mark.parametrize(
    ("path", "id_"),
    [
        ("view?id=123", "123"),
        ("notice/456", "456"),
        ("view?bo_table=notice&wr_id=9", "9"),
        ("view?id=notice&no=12", "12"),
        ("view?boardId=1&articleNo=77&no=3", "77"),
        ("article/88/", "88"),
        ("bbs/cs/12/99/artclView.do", "99"),
    ],
)
def test_the_number_of_a_notice_is_in_its_link(path: str, id_: str) -> None:
    assert notice_number(f"http://cs.uni.example/{path}") == id_


def test_a_link_without_a_number_has_a_hash_for_it() -> None:
    first, second = notice_number("http://x.example/2024/05/sugang/"), notice_number("http://x.example/2024/05/other/")
    assert first != second
    assert len(first) == len(second) == 16


# --- bodies ---


@pytest.mark.parametrize(
    ("cms", "html"),
    [
        ("gnuboard", '<div id="bo_v_con">{}</div><section id="bo_v_file"><a href="{}">서식.hwp</a></section>'),
        ("xpressengine", '<div class="xe_content">{}</div><ul class="files"><li><a href="{}">서식.hwp</a></ul>'),
        ("k2web", '<div class="view-con">{}</div><div class="view-file"><a href="{}">서식.hwp</a></div>'),
        ("jwxe", '<div class="fr-view">{}</div><div class="c-board-file"><a href="{}">서식.hwp</a></div>'),
        ("generic", '<nav>menu</nav><main>{}</main><a download href="{}">서식.hwp</a>'),
    ],
    ids=["gnuboard", "xpressengine", "k2web", "jwxe", "generic"],
)
def test_a_body_is_its_text_and_its_files(cms: str, html: str) -> None:
    text = "<p>첫째 줄</p><p>조회수 : 1,234</p><script>x()</script><p>둘째&nbsp;줄</p>"
    found = body(html.format(text, "/down?no=3&amp;sid=77"), cms=cms)
    assert found.text.replace("\u00a0", " ") == "첫째 줄\n둘째 줄"
    assert found.attachments == (Attachment("서식.hwp", "http://cs.uni.example/down?no=3"),)
    assert found.found


def test_a_page_without_its_body_says_so() -> None:
    assert body("<p>로그인이 필요합니다</p>", own=Selectors(body="#b")) == NoticeBody("", found=False)


def test_a_body_that_is_too_long_is_cut_and_told() -> None:
    found = body(f"<main>{'가' * 1_100_000}</main>")
    assert (len(found.text), found.is_cut) == (1_000_000, True)


# --- strangers ---


@pytest.mark.parametrize("css", ["tr[[", "a:nope", "> td", "a,,b", "\ud800", "*" * 5000 + "["])
def test_a_selector_that_is_none_is_bad_input(css: str) -> None:
    assert selector_error(css)
    with pytest.raises(BadInput) as caught:
        listing(PLAIN, own=Selectors(item=css))
    assert caught.value.reason == "bad_selector"


def test_a_good_selector_is_nothing_to_complain_about() -> None:
    assert not selector_error("table tr:has(a), li:not(.x) > a[href^='/']\n.other")


@given(
    pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40),
    cms=st.sampled_from(["", "gnuboard", "generic"]),
)
@settings(deadline=None, max_examples=300)
def test_any_page_is_a_listing_and_a_body(pieces: list[str], cms: str) -> None:
    html = "".join(pieces)
    found = listing(html, cms=cms)
    assert len({row.id for row in found.rows}) == len(found.rows)
    for row in found.rows:
        assert row.title
        assert row.url.startswith("http")
        (row.title + row.author + row.category + row.date_text + row.url).encode()
    body(html, cms=cms).text.encode()


@given(data=st.binary(max_size=300), charset=st.sampled_from(["", "utf-8", "euc-kr", "utf-16", "nonsense"]))
@settings(deadline=None, max_examples=100)
def test_any_bytes_are_a_page(data: bytes, charset: str) -> None:
    board = Board(source="s", board="b", url=URL)
    read_listing(data, url=URL, content_type=f"text/html; charset={charset}", board=board, now=NOW)
    read_body(data, url=URL, content_type=f"text/html; charset={charset}", board=board)
