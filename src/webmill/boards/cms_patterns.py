"""Selectors for the boards of well-known content management systems, for what a board list leaves open.

A system is recognised by the URL of a board or by text that only its pages hold. Other boards are read as a table or a
list whose rows have links.
"""

from __future__ import annotations

from msgspec import Struct

from webmill.boards.board_list import Board, Selectors

# Of the lines of a selector the first that finds something counts.
NEXT = "a[rel~=next]\nlink[rel~=next]\na.next\n.next a\n.pagination .next\na[title='다음 페이지']"
BODY = ".view-content\n.board-view .content\n.board_view .content\n.entry-content\narticle .content\narticle\nmain"
FILES = "a[download], a[href*='download'], a[href*='Download'], a[href*='fileDown'], a[href*='attach']"


class CmsPattern(Struct, frozen=True, kw_only=True):
    """The selectors of a system, and text in the URL or the page that identifies it."""

    name: str
    in_url: tuple[str, ...] = ()
    in_html: tuple[str, ...] = ()
    selectors: Selectors


PATTERNS = (
    CmsPattern(
        name="gnuboard",
        in_url=("bo_table=",),
        in_html=("bo_table", "bo_list"),
        selectors=Selectors(
            item="#bo_list tbody tr, .tbl_head01 tbody tr",
            title=".bo_tit a, .td_subject a",
            date=".td_datetime, .td_date",
            author=".td_name",
            category=".bo_cate_link",
            pinned=".bo_notice",
            next=".pg_next",
            body="#bo_v_con, #bo_v_atc",
            attachment="#bo_v_file a[href]",
        ),
    ),
    CmsPattern(
        name="xpressengine",
        in_url=("mid=", "document_srl="),
        in_html=("xe_content", "rhymix", "bd_lst"),
        selectors=Selectors(
            item="table.bd_lst tbody tr, .board_list tbody tr",
            title="td.title a",
            date="td.time, td.date",
            author="td.author",
            category="td.cate",
            pinned="tr.notice",
            next="a.next",
            body=".xe_content, .rhymix_content",
            attachment=".fileList a[href], .files a[href]",
        ),
    ),
    CmsPattern(
        name="k2web",
        in_url=("/subview.do", "/artclList.do", "/artclView.do"),
        in_html=("artclTable", "k2web", "td-subject"),
        selectors=Selectors(
            item="table.artclTable tbody tr, table.board-table tbody tr",
            title="._artclTdTitle a, td.td-subject a",
            date="._artclTdRdate, td.td-date",
            author="._artclTdWriter, td.td-write",
            pinned=".headline, tr.notice",
            next="a._next, .paging a.next",
            body=".artclView, .view-con",
            attachment=".artclItem a[href], .view-file a[href]",
        ),
    ),
    CmsPattern(
        name="jwxe",  # the boards with `?mode=view&articleNo=`, as at Yonsei
        in_url=("articleNo=", "mode=list", "article.offset="),
        in_html=("c-board-title", "articleNo="),
        selectors=Selectors(
            item="tr:has(a.c-board-title), li:has(a.c-board-title)",
            title="a.c-board-title",
            date="td:nth-last-child(2), .c-board-date",
            author=".c-board-writer",
            pinned="tr.c-board-top-wrap, .c-board-top-wrap, .c-board-notice",
            next="a.c-paging-next, .paging a.next",
            body=".fr-view, .b-content-box, dd.c-board-content",
            attachment=".c-board-file a[href], a.file-down-btn",
        ),
    ),
    CmsPattern(
        name="wordpress",
        in_html=("wp-content",),
        selectors=Selectors(
            item="article, .hentry",
            title=".entry-title a, h2 a",
            date="time, .entry-date",
            author=".author",
            category=".cat-links a",
            pinned=".sticky",
            next="a.next, .nav-previous a",
            body=".entry-content",
        ),
    ),
)
GENERIC = CmsPattern(
    name="generic",
    selectors=Selectors(
        item="table tr:has(a), ul.board li:has(a), ul.list li:has(a), ol.list li:has(a)",
        title="td.title, td.subject\n.title, .subject\na",
        date="time, td.date, .date, .regdate, td:nth-last-child(2), td:last-child",
        author="td.author, td.writer, .author, .writer",
        pinned="tr.notice, li.notice, .pinned",
        next=NEXT,
        body=BODY,
        attachment=FILES,
    ),
)
_BY_NAME = {pattern.name: pattern for pattern in (*PATTERNS, GENERIC)}


def candidate_patterns(board: Board, url: str, html: str) -> list[CmsPattern]:
    """Return the patterns to try, the likeliest first: by name, by URL, by page; the generic one last."""
    if board.cms in _BY_NAME:
        return [_BY_NAME[board.cms]]
    by_url = [pattern for pattern in PATTERNS if any(sign in url for sign in pattern.in_url)]
    by_page = [pattern for pattern in PATTERNS if any(sign in html for sign in pattern.in_html)]
    return [*dict.fromkeys((*by_url, *by_page, GENERIC))]


def merge_selectors(board: Board, pattern: CmsPattern) -> Selectors:
    """Return the selectors, field by field: the board's own, else those of the pattern, else the generic ones."""
    layers = (board.selectors, pattern.selectors, GENERIC.selectors)
    fields = Selectors.__struct_fields__
    return Selectors(**{field: next(filter(None, (getattr(one, field) for one in layers)), "") for field in fields})
