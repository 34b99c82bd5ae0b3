"""Makes notices of the rows of a listing and their bodies. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from webmill.boards.board_list import Board
from webmill.boards.cache import CachedPage
from webmill.boards.listing import NoticeBody, NoticeListing, NoticeRow
from webmill.boards.types import KnownNotice, Notice
from webmill.publish.types import Scalar


def item_id(board: Board, row: NoticeRow) -> str:
    return f"{board.source}/{row.id}"


def make_notice(
    board: Board,
    row: NoticeRow,
    *,
    content: dict[str, object] | None,
    checked: float,
    hash: str = "",  # noqa: A002
) -> Notice:
    metadata: dict[str, Scalar] = {
        "title": row.title,
        "date": row.date,
        "date_text": row.date_text,
        "author": row.author,
        "category": row.category,
        "url": row.url,
        "pinned": row.is_pinned,
    }
    return Notice(
        id=item_id(board, row),
        url=row.url,
        content=content,
        facets=board.facets,
        metadata={key: value for key, value in metadata.items() if value},
        hash=hash,
        row=row_digest(row),
        checked=checked,
    )


def notice_content(row: NoticeRow, body: NoticeBody) -> dict[str, object]:
    """Return the content that is hashed and stored: nothing that changes by itself."""
    return {
        "title": row.title,
        "date": row.date,
        "author": row.author,
        "category": row.category,
        "url": row.url,
        "text": body.text,
        "attachments": [{"name": one.name, "url": one.url} for one in body.attachments],
    }


def row_digest(row: NoticeRow) -> str:
    """Return a digest of everything a listing shows of a notice, without a date that drifts by itself."""
    steady = replace(row, date="", date_text="") if row.is_approximate else row
    steady = replace(steady, is_approximate=False)
    return blake2b(msgspec.msgpack.encode(steady), digest_size=16).hexdigest()


def merge_listings(listings: Iterable[NoticeListing]) -> list[NoticeRow]:
    """Return the rows of all pages, each once: a pinned notice is on every page."""
    rows: dict[str, NoticeRow] = {}
    for listing in listings:
        for row in listing.rows:
            rows.setdefault(row.id, row)
    return list(rows.values())


def best_date(row: NoticeRow, cached: CachedPage | None, known: KnownNotice | None) -> str:
    """Return the date of a notice. "3 hours ago" was most precise when it was first seen."""
    if not row.is_approximate:
        return row.date
    return (cached.date if cached else "") or (known.date if known else "") or row.date


def below_last_page(ids: Iterable[str], known: Mapping[str, KnownNotice], last: NoticeListing) -> Iterator[str]:
    """Yield the known ids that are older than the last page read. Others that are missing were removed."""
    rows = [row for row in last.rows if not row.is_pinned]
    if not rows:
        return
    date = min((row.date for row in rows if row.date), default="")
    number = min((int(row.id) for row in rows if row.id.isdigit()), default=None)
    yield from (id_ for id_ in ids if _is_older(known[id_].date, id_.rpartition("/")[2], date, number))


def _is_older(date: str, id_: str, oldest: str, least: int | None) -> bool:
    if date and oldest and date != oldest:
        return date < oldest
    return id_.isdigit() and least is not None and int(id_) < least
