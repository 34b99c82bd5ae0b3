"""Boards are found on sites of several systems; what is in doubt is for review; hostile pages do no harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.boards.readers import BoardSites, Pages, Stand, rows, scratch
from tests.unit.boards.board_samples import GNUBOARD, JWXE, K2WEB, PLAIN, WORDPRESS, XPRESSENGINE
from webmill.boards.board_list import read_board_list
from webmill.boards.discovery import MAX_CANDIDATES, Discovery, DiscoveryOptions, discover_boards, discover_departments
from webmill.boards.discovery_rules import KEYWORDS, BoardKeyword, keyword_of
from webmill.boards.listing import selector_error
from webmill.cli.main import webmill
from webmill.testing import HttpReply
from webmill.testing.exchange import TEXT

SEOUL = DiscoveryOptions(campus="Seoul")


@pytest.fixture(scope="module")
def board_sites() -> Iterator[BoardSites]:
    with scratch() as root, ExitStack() as stack:
        yield BoardSites(root, stack)


def page(inside: str, *, title: str = "컴퓨터과학과 | 예시대학교") -> HttpReply:
    return HttpReply(body=f"<title>{title}</title><body>{inside}</body>".encode())


def menu(**links: str) -> str:
    """A menu of these names by path."""
    return "".join(f'<li><a href="/{path}">{name}</a></li>' for path, name in links.items())


def found(stand: Stand, *, options: DiscoveryOptions = SEOUL, path: str = "") -> Discovery:
    return stand.reader.call(partial(discover_boards, urls=[f"http://{stand.host}/{path}"], options=options))


def boards_of(discovery: Discovery) -> dict[str, tuple[str, str]]:
    (department,) = discovery.campus.departments
    return {board.id: (board.name, board.cms) for board in department.boards}


def reasons(discovery: Discovery) -> dict[str, str]:
    return {entry.name: entry.reason for entry in discovery.review}


def test_boards_of_every_known_system_are_found_by_their_names_and_read(board_sites: BoardSites) -> None:
    listings = {
        "gnu": (GNUBOARD, "공지사항", "notice", "gnuboard"),
        "xe": (XPRESSENGINE, "학사안내", "academic", "xpressengine"),
        "k2": (K2WEB, "장학", "scholarship", "k2web"),
        "jw": (JWXE + "<div class=fr-view>글</div>", "취업정보", "jobs", "jwxe"),
        "wp": (WORDPRESS, "News", "news", "wordpress"),
        "plain": (PLAIN, "행사", "event", "generic"),
        "second": (PLAIN.replace("seq=", "no="), "Events", "event_2", "generic"),
    }
    home = page(menu(about="학과 소개", **{path: name for path, (_, name, _, _) in listings.items()}))
    stand = board_sites.place(Pages(**{"": home}, **{path: page(body) for path, (body, *_) in listings.items()}))
    discovery = found(stand)
    assert boards_of(discovery) == {id_: (name, cms) for _, name, id_, cms in listings.values()}
    assert discovery.review == ()
    (department,) = discovery.campus.departments
    assert (department.id, department.name) == (stand.host.partition(".")[0], "컴퓨터과학과")
    read = read_board_list(discovery.board_list(), selector_error=selector_error)
    assert (len(read.boards), read.problems) == (7, ())
    for board in read.boards:
        reading = stand.reader.read(board)  # as a run does; the pages of the notices are not there
        assert (reading.failed, reading.counts["rows"]) == (False, 2), board.name


def test_a_site_map_of_the_site_is_searched_too_and_the_home_page_may_be_a_board(board_sites: BoardSites) -> None:
    home = page(menu(sitemap="사이트맵") + GNUBOARD, title="새 소식")
    stand = board_sites.place(
        Pages(**{"": page(menu(map="Site Map")), "map": page(menu(list="공지")), "list": rows(1, 2)})
    )
    assert boards_of(found(stand)) == {"notice": ("공지", "generic")}
    stand = board_sites.place(Pages(bbs=home))
    assert boards_of(found(stand, path="bbs?bo_table=n")) == {"board": ("새 소식", "gnuboard")}


def test_what_is_named_like_a_board_but_cannot_be_read_as_one_is_for_review(board_sites: BoardSites) -> None:
    pages = {
        "good": page(PLAIN),
        "undated": page('<table><tr><td><a href="v?seq=1">하나</a></td><td>어느 날</td></tr></table>'),
        "prose": page("<p>공지는 없습니다</p>"),
        "empty": page("<div id=bo_list><table><tbody><tr><td>게시물이 없습니다.</td></tr></tbody></table></div>"),
        "same": page(PLAIN),
        "away": HttpReply(status=302, headers=(("Location", "http://elsewhere.example/"),)),
        "home": HttpReply(status=302, headers=(("Location", "/"),)),
        "pdf": HttpReply(body=b"%PDF", media_type="application/pdf"),
        "closed": page(PLAIN),
        "robots": HttpReply(body=b"User-agent: *\nDisallow: /closed\n", media_type=TEXT),
        "bbs": page(GNUBOARD),
    }
    names = {path: f"공지 {path}" for path in pages if path not in ("robots", "bbs")} | {"gone": "공지 gone"}
    links = menu(**names) + '<a href="/bbs?bo_table=n">자료</a><a href="/page?bo_table=x">연혁</a>'
    links += '<a href="http://news.town.test/">뉴스</a><a href="/good?articleNo=3">공지: 3번 글</a>'
    stand = board_sites.place(Pages(**{"": page(links + PLAIN)}, **pages))
    discovery = found(stand)
    assert boards_of(discovery) == {"notice": ("공지 good", "generic")}
    reported = reasons(discovery)
    assert reported.pop("공지 away")  # refused or unknown: the web has no such host
    assert reported == {
        "공지 undated": "most of its rows have no date that can be read",
        "공지 prose": "no list of notices was found by the built-in selectors",
        "공지 empty": "it lists no notices now",
        "공지 same": "it lists the same notices as 공지 good",
        "공지 home": "it leads back to the home page",
        "공지 pdf": "not a page but application/pdf",
        "공지 closed": "forbidden by robots.txt",
        "공지 gone": "status 404",
        "자료": "it lists notices (gnuboard), but its name has no known keyword",
        "뉴스": "on another host, news.town.test",
    }
    asked = stand.asked()
    assert "/closed" not in asked
    assert asked.count("/robots.txt") == 1


def test_a_board_whose_notices_have_no_text_is_found_and_reported(board_sites: BoardSites) -> None:
    pages = {"": page(menu(n="공지", m="소식")), "n": rows(1), "m": rows(2, 3)}
    stand = board_sites.place(Pages(**pages, **{"view-1": page("<p>글"), "view-3": page("<article>글")}))
    discovery = found(stand)
    assert set(boards_of(discovery)) == {"notice", "news"}
    assert list(reasons(discovery)) == ["공지"]
    assert "body_selector" in reasons(discovery)["공지"]


def test_a_page_of_departments_leads_to_their_home_pages(board_sites: BoardSites) -> None:
    first = board_sites.place(Pages(**{"": page(menu(n="공지"), title="전산학과"), "n": rows(1)}))
    second = board_sites.place(Pages(**{"": page(menu(n="Notices"), title="x"), "n": rows(2)}))
    empty = board_sites.place(Pages(**{"": page("<p>준비 중")}))
    listed = page(
        f'<h3>컴퓨터과학과</h3><a href="http://{first.host}/">홈페이지</a>'
        f'<ul><li><a href="http://{second.host}">Physics</a></li></ul>'
        f'<h3>화학과</h3><a href="http://{empty.host}/">home page</a><a href="/about">소개</a>'
    )
    campus = board_sites.place(Pages(departments=listed))
    discovery = campus.reader.call(
        partial(discover_departments, urls=[f"http://{campus.host}/departments"], options=SEOUL)
    )
    assert [one.name for one in discovery.campus.departments] == ["컴퓨터과학과", "Physics"]
    assert reasons(discovery) == {"화학과": "nothing on it is named like a board"}
    sources = [board.source for board in read_board_list(discovery.board_list()).boards]
    hosts = [stand.host.partition(".")[0] for stand in (first, second)]
    assert sources == [f"Seoul/{host}/notice" for host in hosts]


def test_hostile_pages_cost_requests_and_memory_within_limits(board_sites: BoardSites) -> None:
    many = "".join(f'<a href="/trap{n}">공지 {n}</a>' for n in range(5000))
    bad = '<a href="javascript:alert(1)">공지</a><a href="http://[::1">공지</a><a href="\x00">공지</a>'
    name = "\u202e공지\x1b[31m" + "<b>" * 3000
    stand = board_sites.place(Pages(**{"": page(f'{bad}<a href="/list">{name}</a>' + many), "list": rows(1)}))
    discovery = found(stand)
    assert len(discovery.campus.departments[0].boards) == 1
    assert "\x1b" not in discovery.board_list().decode()
    assert len(stand.asked()) == MAX_CANDIDATES + 3  # and robots.txt, the home page and a notice
    assert "status 404" in reasons(discovery).values()
    assert f"not read: the site has more than {MAX_CANDIDATES} of them" in reasons(discovery).values()


def test_a_page_that_kills_its_parser_is_for_review(board_sites: BoardSites) -> None:
    deep = HttpReply(body=b"<div>" * 700_000 + b"<a href=/n>x</a>")
    stand = board_sites.place(Pages(**{"": page(menu(bomb="공지", fine="소식")), "bomb": deep, "fine": rows(1)}))
    discovery = found(stand)
    assert boards_of(discovery) == {"news": ("소식", "generic")}
    assert set(reasons(discovery)) == {"공지"}
    assert found(board_sites.place(Pages(**{"": HttpReply(status=500)}))).campus.departments == ()


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("공지사항", "notice"),
        ("Notices", "notice"),
        ("Noticeable people", ""),
        ("학과 소식", "news"),
        ("JOBS", "jobs"),
        ("공지" * 30, ""),
        ("", ""),
        ("주간 학식", "board"),
    ],
)
def test_a_keyword_is_a_part_of_a_korean_name_and_a_word_of_another(name: str, id_: str) -> None:
    assert keyword_of(name, (*KEYWORDS, BoardKeyword("학식", "board"))) == id_


def command(stand: Stand, *arguments: str | Path) -> Result:
    address, port = stand.web.resolve[stand.host][0], stand.web.port
    flags = ["--contact=me@example.org", "--allow-private", "--delay=1ms", f"--resolve={stand.host}={address}:{port}"]
    return CliRunner().invoke(webmill, ["-q", "boards", "discover", *map(str, arguments), *flags])


def test_the_command_writes_a_board_list_and_what_is_to_be_reviewed(board_sites: BoardSites, tmp_path: Path) -> None:
    pages: dict[str, Any] = {"": page(menu(n="공지", x="소식")), "n": rows(1, 2)}
    stand = board_sites.place(Pages(**pages))
    output, review = tmp_path / "boards.json", tmp_path / "mapReview.json"
    done = command(
        stand, f"http://{stand.host}", "-o", output, "--review", review, "--collection", tmp_path / "notices"
    )
    assert (done.exit_code, done.stdout) == (3, "")
    assert "1 page to review" in done.stderr
    (campus,) = json.loads(output.read_bytes())
    assert campus["campus"] == "town.test"
    (board,) = campus["departments"][0]["boards"]
    assert board == {"id": "notice", "name": "공지", "url": f"http://{stand.host}/n", "cms": "generic"}
    (entry,) = json.loads(review.read_bytes())
    assert entry == {"campus": "town.test", "name": "소식", "url": f"http://{stand.host}/x", "reason": "status 404"}
    assert (tmp_path / "notices" / "frontier" / "gates.sqlite").is_file()


def test_the_command_prints_the_list_and_fails_where_there_is_no_board(board_sites: BoardSites) -> None:
    stand = board_sites.place(Pages(**{"": page(menu(n="학식")), "n": rows(1, 2)}))
    address = f"http://{stand.host}"
    nothing = command(stand, address)
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    done = command(stand, address, "--keyword", "학식", "--campus", "Seoul")
    assert done.exit_code == 0, done.output
    assert [board.source for board in read_board_list(done.stdout.encode()).boards] == [
        f"Seoul/{stand.host.partition('.')[0]}/board"
    ]
    assert command(stand, "not a url").exit_code == 1
