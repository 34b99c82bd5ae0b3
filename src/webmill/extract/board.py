"""Boards: a listing page to rows, and the page of a notice to its text. Hostile: call it in a sandbox.

Needs selectolax (`webmill[boards]`).
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from webmill.formats.site_map import Board


class Row(Struct, frozen=True, omit_defaults=True):
    """One notice of a listing. What changes by itself (views, session ids in links) is not in it."""

    id: str  # unique in its board: the number in its link, or else a hash of the link
    url: str
    title: str
    date: str = ""  # YYYY-MM-DD; empty when it cannot be read
    date_text: str = ""  # as written, when it cannot be read
    author: str = ""
    category: str = ""
    is_pinned: bool = False
    is_approximate: bool = False  # the date was "3 hours ago", or a time of today


class Listing(Struct, frozen=True, tag="listing"):
    rows: tuple[Row, ...]
    next_url: str = ""
    cms: str = ""  # which pattern was used
    matched: int = 0  # how many elements the item selector found; rows are those with a link and a title
    problems: dict[str, int] = {}  # reason -> how many rows


class Attachment(Struct, frozen=True):
    name: str
    url: str


class Body(Struct, frozen=True, tag="body"):
    """`found` is False when the body selector found nothing: then the text is empty."""

    text: str
    found: bool = True
    attachments: tuple[Attachment, ...] = ()


def read_listing(html: bytes, *, url: str, content_type: str, board: Board, now: datetime) -> Listing:
    """`now` is aware, in the board's time zone: "today" and "3 hours ago" are counted from it.

    BadInput (bad_selector, no_selectolax).
    """
    raise NotImplementedError


def read_body(html: bytes, *, url: str, content_type: str, board: Board) -> Body:
    raise NotImplementedError
