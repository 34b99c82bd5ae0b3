"""Parses a listing page into rows, and the page of a notice into its text. Pages are hostile: call it in a sandbox.

Selectors are the board's own or those of its content management system.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from webmill.boards.board_list import Board, Selectors
from webmill.boards.cms_patterns import candidate_patterns, merge_selectors
from webmill.boards.links import clean_link_or_empty, notice_number
from webmill.errors import BadInput
from webmill.formats.dates import parse_day
from webmill.formats.html.charset import decode_page
from webmill.formats.html.page import read_html
from webmill.formats.url.normalise import host_of, join

MAX_ROWS = 1000  # of one page
MAX_TITLE, MAX_WORDS = 1000, 200  # characters
MAX_BODY = 1_000_000  # characters
MAX_ATTACHMENTS = 100
PINNED_WORDS = frozenset({"공지", "[공지]", "공지사항", "필독", "중요", "notice", "[notice]", "pinned", "top"})

DECORATION_NAMES = (
    "new new_icon icon_new icon-new ico_new ico-new badge cnt_cmt comment_count reply_count replyNum blind sr-only"
    " sound_only"
)
DECORATIONS = frozenset(DECORATION_NAMES.split())  # classes
_VIEWS = re.compile(r"\s*(?:조회수?|views?|hits?)\s*[:：]?\s*[0-9,]+\s*(?:회|views?)?\s*", re.IGNORECASE)
_CONTROLS = {code: " " for code in (*range(32), *range(127, 160)) if code not in (9, 10)}

Node: TypeAlias = Any  # selectolax has no types


class NoticeRow(Struct, frozen=True, omit_defaults=True):
    """A row of a listing, without what changes by itself (views, session ids in links)."""

    id: str  # unique in its board: the number in its link, or else a hash of the link
    url: str
    title: str
    date: str = ""  # YYYY-MM-DD; empty when it cannot be read
    date_text: str = ""  # as written, when it cannot be read
    author: str = ""
    category: str = ""
    is_pinned: bool = False
    is_approximate: bool = False  # the date was "3 hours ago", a time of today, or had no year


class NoticeListing(Struct, frozen=True, tag="listing"):
    """`problems` counts rows by what is wrong with them: no_link, no_title, bad_link, bad_date, twice, too_many."""

    rows: tuple[NoticeRow, ...]
    next_url: str = ""
    cms: str = ""  # which pattern was used
    matched: int = 0  # how many elements the item selector found
    problems: dict[str, int] = {}


class Attachment(Struct, frozen=True):
    name: str
    url: str


class NoticeBody(Struct, frozen=True, tag="body"):
    """`found` is False when the body selector found nothing: then the text is empty."""

    text: str
    found: bool = True
    is_cut: bool = False
    attachments: tuple[Attachment, ...] = ()


def selector_error(css: str) -> str:
    """Return what is wrong with a selector; empty if it is fine. For `read_board_list`."""
    try:
        for one in css.split("\n"):
            _matches(parse_page(""), one)
    except BadInput as error:
        return error.message
    return ""


def read_listing(html: bytes, *, url: str, content_type: str, board: Board, now: datetime) -> NoticeListing:
    """Parse a listing. `now` is in the board's time zone: "today" and "3 hours ago" are counted from it.

    BadInput (bad_selector).
    """
    text = decode_page(html, content_type=content_type).text
    tree = parse_page(text)
    for pattern in candidate_patterns(board, url, text):
        selectors = merge_selectors(board, pattern)
        if items := _find_all(tree, selectors.item):
            break
    problems: Counter[str] = Counter()
    rows: dict[str, NoticeRow] = {}
    for item in items[:MAX_ROWS]:
        row = _row(item, url, selectors, now)
        if isinstance(row, NoticeRow):
            _add_row(rows, row, problems)
        else:
            problems[row] += 1
    problems["too_many"] = max(0, len(items) - MAX_ROWS)
    return NoticeListing(
        rows=tuple(rows.values()),
        next_url=_next(tree, url, selectors),
        cms=pattern.name,
        matched=len(items),
        problems={reason: count for reason, count in problems.items() if count},
    )


def read_body(html: bytes, *, url: str, content_type: str, board: Board) -> NoticeBody:
    """Parse the page of a notice. BadInput (bad_selector)."""
    text = decode_page(html, content_type=content_type).text
    selectors, tree = merge_selectors(board, candidate_patterns(board, url, text)[0]), parse_page(text)
    found = _first(tree, selectors.body)
    words = read_html(found.html or "").text if found is not None else ""
    lines = _without_controls(words[:MAX_BODY]).split("\n")
    return NoticeBody(
        text="\n".join(line for line in lines if not _VIEWS.fullmatch(line)).strip(),
        found=found is not None,
        is_cut=len(words) > MAX_BODY,
        attachments=tuple(_attachments(tree, url, selectors)),
    )


# --- rows ---


def _row(item: Node, url: str, selectors: Selectors, now: datetime) -> NoticeRow | str:
    """Return the row, or why it is none. A row of column names, or one that says "no notices", has no link."""
    heading = _first(item, selectors.title)
    anchor = _anchor(item, heading, selectors)
    if anchor is None:
        return "no_link"
    link = clean_link_or_empty(url, anchor.attributes.get(selectors.link_attribute or "href") or "")
    if not link:
        return "bad_link"
    title = _title(anchor if heading is None or _is_cell(heading) else heading) or text_of(heading, MAX_TITLE)
    if not title:
        return "no_title"
    row = NoticeRow(
        id=notice_number(link),
        url=link,
        title=title,
        author=text_of(_first(item, selectors.author), MAX_WORDS),
        category=text_of(_first(item, selectors.category), MAX_WORDS),
        is_pinned=_is_pinned(item, selectors.pinned),
    )
    return _dated(row, item, selectors.date, now)


def _is_cell(node: Node) -> bool:
    """Whether the node holds the title and maybe more: a number of comments, a "new" badge."""
    return node.tag != "a" and node.css_first("a") is not None


def _title(node: Node) -> str:
    """Return the title without badges, which come and go; unless there is nothing else."""
    return one_line(" ".join(_plain_texts(node)), MAX_TITLE) or text_of(node, MAX_TITLE)


def _plain_texts(node: Node) -> Iterator[str]:
    stack = [*node.iter(include_text=True)][::-1]
    while stack:
        one = stack.pop()
        if one.tag == "-text":
            yield one.text()
        elif DECORATIONS.isdisjoint((one.attributes.get("class") or "").split()):
            stack += [*one.iter(include_text=True)][::-1]


def _anchor(item: Node, heading: Node | None, selectors: Selectors) -> Node | None:
    attribute = f"[{selectors.link_attribute or 'href'}]"
    if selectors.link:
        return _first(item, selectors.link)
    if heading is not None and heading.attributes.get(selectors.link_attribute or "href"):
        return heading
    inside = _first(heading, f"a{attribute}") if heading is not None else None
    return inside if inside is not None else _first(item, f"a{attribute}")


def _dated(row: NoticeRow, item: Node, css: str, now: datetime) -> NoticeRow:
    """Return the row with the first date found: the selectors of patterns match several cells."""
    texts = [text for node in _find_all(item, css) for text in _date_texts(node)]
    for text in texts:
        if day := parse_day(text, now=now):
            return replace(row, date=day.text, is_approximate=day.is_approximate)
    return replace(row, date_text=texts[0] if texts else "")


def _date_texts(node: Node) -> Iterator[str]:
    yield from (text for text in (_without_controls(node.attributes.get("datetime") or "")[:MAX_WORDS],) if text)
    if text := text_of(node, MAX_WORDS):
        yield text


def _add_row(rows: dict[str, NoticeRow], row: NoticeRow, problems: Counter[str]) -> None:
    """Add a row. A pinned notice is often listed twice: at the top, and where it belongs."""
    there = rows.get(row.id)
    if there is not None and there.url == row.url:
        problems["twice"] += 1
        rows[row.id] = replace(there, is_pinned=there.is_pinned or row.is_pinned)
        return
    if there is not None:  # the number is not the notice's
        row = replace(row, id=f"{row.id}~{sha256(row.url.encode('utf-8', 'replace')).hexdigest()[:8]}")
    if not row.date:
        problems["bad_date"] += 1
    rows[row.id] = row


def _is_pinned(item: Node, css: str) -> bool:
    if css and _find_all(item, css):
        return True
    cell = item.css_first("td")
    return cell is not None and text_of(cell, MAX_WORDS).lower() in PINNED_WORDS


def _next(tree: Node, url: str, selectors: Selectors) -> str:
    """Return the next page: on the same host, and not this page again."""
    anchor = _first(tree, selectors.next)
    if anchor is not None and not anchor.attributes.get("href"):
        anchor = _first(anchor, "a[href]")
    if anchor is None:
        return ""
    link = _try_join(url, anchor.attributes.get("href") or "")
    return link if link and link != url and host_of(link) == host_of(url) else ""


def _try_join(base: str, href: str) -> str:
    try:
        return join(base, href.strip())
    except BadInput:
        return ""


def _attachments(tree: Node, url: str, selectors: Selectors) -> Iterator[Attachment]:
    seen: set[str] = set()
    for anchor in _find_all(tree, selectors.attachment)[: 10 * MAX_ATTACHMENTS]:
        link = clean_link_or_empty(url, anchor.attributes.get("href") or "")
        if link and link not in seen and len(seen) < MAX_ATTACHMENTS:
            seen.add(link)
            yield Attachment(text_of(anchor, MAX_WORDS) or link.rpartition("/")[2][:MAX_WORDS], link)


# --- selectolax ---


def parse_page(text: str) -> Node:
    return LexborHTMLParser(text)


def _find_all(node: Node, css: str) -> list[Node]:
    """Return the matches of the first line that has any: a comma would find what comes first on the page."""
    for one in css.split("\n"):
        if found := _matches(node, one):
            return found
    return []


def _matches(node: Node, css: str) -> list[Node]:
    if not css.strip():
        return []
    try:
        found = node.css(css)  # an element comes once for each selector of the list that it matches
    except (SelectolaxError, ValueError, TypeError) as error:
        raise BadInput(f"not a CSS selector: {css[:200]!r}", reason="bad_selector") from error
    return list({one.mem_id: one for one in found}.values())


def _first(node: Node, css: str) -> Node | None:
    return next(iter(_find_all(node, css)), None)


def text_of(node: Node | None, most: int) -> str:
    """Return the text as it reads, on one line."""
    if node is None:
        return ""
    return one_line(node.text(deep=True, separator=" "), most)


def one_line(text: str, most: int) -> str:
    return " ".join(_without_controls(text).split())[:most].strip()


def _without_controls(text: str) -> str:
    """Return the text without lone surrogates and control characters."""
    return text.encode("utf-8", "replace").decode().translate(_CONTROLS)
