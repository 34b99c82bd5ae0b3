"""A university: 250 boards of 80 departments on eight hosts, as a board list names them, with known changes.

Version 2 changes three notices, removes one and adds two (`CHANGED`, `REMOVED`, `ADDED`), and three boards fail from
then on. In version 4 every third board is empty. Nothing else changes but view counts and session ids.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache
from html import escape
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from webmill.testing.articles import FIRST_DAY
from webmill.testing.exchange import (
    TEXT,
    Answer,
    HttpReply,
    ReceivedRequest,
    ScriptedReply,
    Wait,
    format_head,
    reply_with_etag,
)
from webmill.testing.features.base import Feature, HostFeatures

HOSTS = tuple(f"dept-{number}.uni.example" for number in range(1, 9))
DEPARTMENTS = 80
PER_PAGE = 5
CLOSED = "/closed/"

# By the number of the board.
BROKEN = frozenset({17, 120})  # 500
BREAKING = frozenset({33, 77, 201})  # 500 from version 2 on
SLOW = frozenset({50, 51})
EMPTY = frozenset({61, 62, 63})
FORBIDDEN = frozenset({249})  # by robots.txt
# Notices by (board, number). Each is on the first page of a board that answers.
CHANGED = frozenset({(3, 2), (101, 3), (222, 1)})
REMOVED = frozenset({(142, 2)})
ADDED = frozenset({(8, 5), (182, 5)})

_NAMES = (("notice", "공지사항"), ("academic", "학사공지"), ("jobs", "취업 게시판"))
_WORDS = ("수강신청", "장학생 선발", "졸업요건", "특강", "도서관 이용", "기숙사 입사", "교환학생", "논문 심사")


class BoardSite(Struct, frozen=True, kw_only=True):
    number: int
    department: int
    id: str  # shared by up to 80 departments
    name: str

    @property
    def campus(self) -> str:
        return "신촌" if self.department < 60 else "국제"

    @property
    def college(self) -> str:
        """Return the college, or nothing for the last departments, which belong to the campus directly."""
        return f"제{self.department // 10 + 1}대학" if self.department < 70 else ""

    @property
    def source(self) -> str:
        return "/".join(filter(None, (self.campus, self.college, f"d{self.department:02}", self.id)))

    @property
    def host(self) -> str:
        return HOSTS[self.department % len(HOSTS)]

    @property
    def path(self) -> str:
        return f"{CLOSED if self.number in FORBIDDEN else '/'}d{self.department:02}/{self.id}"

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}/list{self.query}"

    @property
    def query(self) -> str:
        return "?bo_table=x" if self.style == "gnuboard" else ""

    @property
    def style(self) -> str:
        return ("gnuboard", "k2web", "own")[self.department % 3]

    @property
    def charset(self) -> str:
        return "euc-kr" if self.department % 4 == 1 else "utf-8"

    def is_broken(self, version: int) -> bool:
        return self.number in BROKEN or (self.number in BREAKING and version >= 2)


class NoticeText(Struct, frozen=True, kw_only=True):
    number: int
    title: str
    author: str
    date: date
    text: str
    pinned: bool = False


@cache
def boards() -> tuple[BoardSite, ...]:
    made = [(department, id_, name) for department in range(DEPARTMENTS) for id_, name in _NAMES]
    made += [(department, "event", "행사 안내") for department in range(0, DEPARTMENTS, 8)]
    return tuple(
        BoardSite(number=number, department=department, id=id_, name=name)
        for number, (department, id_, name) in enumerate(made)
    )


def notices(board: BoardSite, version: int) -> tuple[NoticeText, ...]:
    """Return the notices of the board, newest first, whether it answers or not."""
    if board.number in EMPTY or (version == 4 and board.number % 3 == 0):
        return ()
    count = 7 if board.number % 5 == 0 else 4
    numbers = [number for number in range(1, count + 1) if version < 2 or (board.number, number) not in REMOVED]
    numbers += [number for of, number in ADDED if of == board.number and version >= 2]
    return tuple(_notice(board, number, version) for number in sorted(numbers, reverse=True))


def board_list() -> bytes:
    """Return the board list as JSON: campus, colleges, departments, boards."""
    campuses: dict[str, dict[str, dict[int, list[BoardSite]]]] = {}
    for board in boards():
        colleges = campuses.setdefault(board.campus, {})
        colleges.setdefault(board.college, {}).setdefault(board.department, []).append(board)
    return msgspec.json.encode(
        [
            {
                "campus": campus,
                "colleges": [
                    {"name": name, "departments": _departments(inside)} for name, inside in colleges.items() if name
                ],
                "departments": _departments(colleges.get("", {})),
            }
            for campus, colleges in campuses.items()
        ]
    )


def features() -> list[Feature]:
    made: list[Feature] = []
    for index, host in enumerate(HOSTS):
        table = HostFeatures(host)
        rules = f"User-agent: *\nDisallow: {CLOSED}\n".encode()
        table.put("/robots.txt", f"`{CLOSED}` forbidden", HttpReply(body=rules, media_type=TEXT))
        table.add("/d*", "boards of departments: /dNN/BOARD/list and /view", _answer, start=f"/d{index:02}/notice/list")
        for board in (board for board in boards() if board.number in FORBIDDEN and board.host == host):
            table.add(f"{board.path}/*", "a board that robots.txt forbids", _answer, start=f"{board.path}/list")
        made += table.features
    return made


# --- the board list ---


def _departments(inside: dict[int, list[BoardSite]]) -> list[dict[str, object]]:
    return [
        {
            "id": f"d{number:02}",
            "name": f"제{number}학과",
            "url": f"http://{found[0].host}/",
            "boards": [_entry(board) for board in found],
        }
        for number, found in inside.items()
    ]


def _entry(board: BoardSite) -> dict[str, str]:
    entry = {"id": board.id, "name": board.name, "url": board.url}
    if board.style != "own":
        return entry
    return entry | {
        "row_selector": "ul.rows > li.row",
        "title_selector": ".t a",
        "date_selector": ".d",
        "author_selector": ".w",
        "body_selector": "div.doc",
        "next_selector": "p.more a",
        "pinned_selector": "li.fixed",
        "attr_name": "href",
    }


# --- notices ---


def _notice(board: BoardSite, number: int, version: int) -> NoticeText:
    is_changed = version >= 2 and (board.number, number) in CHANGED
    day = FIRST_DAY.date() + timedelta(days=board.number % 90 + number)
    word = _WORDS[(board.number + number) % len(_WORDS)]
    text = f"{board.source}의 {number}번째 글입니다. {word}에 대하여 알립니다."
    return NoticeText(
        number=number,
        title=f"{word} 안내 {board.number}-{number}" + (" (수정)" if is_changed else ""),
        author=f"제{board.department}학과 사무실",
        date=day,
        text=text + (" 내용이 바뀌었습니다." if is_changed else ""),
        pinned=number == 1 and board.number % 3 == 0,
    )


@cache
def _by_path() -> dict[str, BoardSite]:
    return {f"{board.host}{board.path}": board for board in boards()}


def _answer(request: ReceivedRequest) -> Answer:
    place, _, page = request.path.rpartition("/")
    board = _by_path().get(f"{request.host}{place}")
    if board is None or page not in ("list", "view"):
        return HttpReply(status=404)
    if board.is_broken(request.version):
        return HttpReply(status=500, body=b"<h1>Internal Server Error</h1>")
    query = {key: values[0] for key, values in parse_qs(request.query).items()}
    reply = _list(board, query, request.version) if page == "list" else _view(board, query, request.version)
    return _slowly(reply) if board.number in SLOW else reply


def _slowly(reply: HttpReply) -> ScriptedReply:
    return ScriptedReply(status=reply.status, steps=(Wait(4), format_head(reply, close=True) + reply.body))


def _list(board: BoardSite, query: dict[str, str], version: int) -> HttpReply:
    page = int(query["page"]) if query.get("page", "").isdecimal() else 1
    shown = notices(board, version)
    part = shown[(page - 1) * PER_PAGE : page * PER_PAGE]
    more = f"list{board.query or '?'}&page={page + 1}" if len(shown) > page * PER_PAGE else ""
    rows = [*(one for one in shown if one.pinned and page == 1), *part]
    body = _LISTINGS[board.style](board, rows, more, version)
    return _reply(board, body, version)


def _view(board: BoardSite, query: dict[str, str], version: int) -> HttpReply:
    found = [one for one in notices(board, version) if query.get("articleNo") == str(one.number)]
    if not found:
        return HttpReply(status=404)
    notice = found[0]
    kind = {"gnuboard": "id=bo_v_con", "k2web": "class=view-con", "own": "class=doc"}[board.style]
    files = {"gnuboard": "id=bo_v_file", "k2web": "class=view-file", "own": "class=files"}[board.style]
    link = f"download.php?articleNo={notice.number}&amp;sid={version:04}"
    attached = f'<div {files}><a href="{link}">서식.hwp</a></div>' if notice.number == 2 else ""
    views = f"<p>조회수 {1000 * version + notice.number}</p>" if board.style == "own" else ""
    return _reply(board, f"<div {kind}><p>{escape(notice.text)}</p>{views}</div>{attached}", version)


def _reply(board: BoardSite, inside: str, version: int) -> HttpReply:
    label = "<meta charset=euc-kr>" if board.department % 8 == 1 else ""  # the others declare it in the header
    body = f"<!doctype html><html lang=ko><head>{label}<title>{board.name}</title></head><body>{inside}</body></html>"
    kind = "text/html" if label else f"text/html; charset={board.charset}"
    content = body.encode(board.charset, "xmlcharrefreplace")
    if board.style == "own":  # no validators, as most pages have none
        return HttpReply(body=content, media_type=kind)
    return reply_with_etag(content, kind, modified=FIRST_DAY + timedelta(days=version))


# --- listings, as three systems write them ---


def _gnuboard(board: BoardSite, rows: list[NoticeText], more: str, version: int) -> str:  # noqa: ARG001
    lines = "".join(
        f'<tr class="{"bo_notice" if one.pinned else ""}"><td>{one.number}</td><td class="td_subject">'
        f'<div class="bo_tit"><a href="view?articleNo={one.number}&amp;page=1">{escape(one.title)} '
        f'<span class="cnt_cmt">{board.number % 7}</span></a></div></td>'
        f'<td class="td_name">{one.author}</td><td class="td_datetime">{one.date:%y-%m-%d}</td></tr>'
        for one in rows
    )
    lines = lines or '<tr><td colspan="4">게시물이 없습니다.</td></tr>'
    head = "<tr><th>번호</th><th>제목</th><th>글쓴이</th><th>날짜</th></tr>"
    link = f'<a class="pg_page pg_next" href="{escape(more)}">다음</a>' if more else ""
    return f'<div id="bo_list"><table><thead>{head}</thead><tbody>{lines}</tbody></table>{link}</div>'


def _k2web(board: BoardSite, rows: list[NoticeText], more: str, version: int) -> str:
    lines = "".join(
        f'<tr class="{"notice" if one.pinned else ""}"><td class="td-num">{one.number}</td><td class="td-subject">'
        f'<a href="view;jsessionid={version:08}?articleNo={one.number}">{escape(one.title)}</a></td>'
        f'<td class="td-write">{one.author}</td><td class="td-date">{one.date:%Y.%m.%d}</td>'
        f'<td class="td-access">{100 * version + one.number}</td></tr>'
        for one in rows
    )
    lines = lines or '<tr><td colspan="5">등록된 글이 없습니다.</td></tr>'
    link = f'<div class="paging"><a class="next" href="{escape(more)}">다음</a></div>' if more else ""
    return f'<h2>{board.name}</h2><table class="board-table"><tbody>{lines}</tbody></table>{link}'


def _own_system(board: BoardSite, rows: list[NoticeText], more: str, version: int) -> str:  # noqa: ARG001
    lines = "".join(
        f'<li class="row {"fixed" if one.pinned else ""}"><span class="v">{version}</span><b class="t">'
        f'<a href="view?articleNo={one.number}&amp;sid={version:06}">{escape(one.title)}</a></b>'
        f'<i class="w">{one.author}</i><i class="d">{one.date.year}년 {one.date.month}월 {one.date.day}일</i></li>'
        for one in rows
    )
    lines = lines or '<li class="row">등록된 글이 없습니다.</li>'
    link = f'<p class="more"><a href="{escape(more)}">더 보기</a></p>' if more else ""
    return f'<ul class="rows">{lines}</ul>{link}'


_LISTINGS = {"gnuboard": _gnuboard, "k2web": _k2web, "own": _own_system}
