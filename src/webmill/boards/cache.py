"""The cache of all readers of a machine: validators, parsed pages and robots.txt files.

Losing it costs only requests. So writes are not synced, and a value that a newer version cannot read is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from webmill.boards.listing import NoticeBody, NoticeListing
from webmill.crawl.frontier.base import RobotsEntry
from webmill.infra.sqlite import Database, Schema

KEEP_SECONDS = 30 * 86400.0  # seconds after its last use

SCHEMA = Schema(
    tag=int.from_bytes(b"wmBo"),
    steps=(
        """
        CREATE TABLE page (key TEXT PRIMARY KEY, used REAL NOT NULL, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
        CREATE INDEX page_used ON page (used);
        CREATE TABLE robots (origin TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
        """,
    ),
)


class RefusedPage(Struct, frozen=True, tag="refused"):
    """A page that will be refused however often it is requested."""

    message: str


class CachedPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cached page. `checked`: when it was last requested; `read`: when it came. Of a body: `row` and `date`."""

    value: NoticeListing | NoticeBody | RefusedPage
    checked: float
    read: float = 0.0
    etag: str = ""
    modified: str = ""
    row: str = ""
    date: str = ""


class PageCache:
    def __init__(self, path: Path | None) -> None:
        self._database = Database(path, schema=SCHEMA)
        self._decoder = msgspec.msgpack.Decoder(CachedPage)

    def find(self, key: str) -> CachedPage | None:
        rows = self._database.read("SELECT value FROM page WHERE key = ?", (key,))
        try:
            return self._decoder.decode(rows[0][0]) if rows else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def put(self, key: str, cached: CachedPage) -> None:
        with self._database.write_relaxed() as run:
            run("INSERT OR REPLACE INTO page VALUES (?, ?, ?)", (key, cached.checked, msgspec.msgpack.encode(cached)))

    def delete_unused(self, now: float) -> None:
        with self._database.write_relaxed() as run:
            run("DELETE FROM page WHERE used < ?", (now - KEEP_SECONDS,))

    def robots(self, origin: str) -> RobotsEntry | None:
        rows = self._database.read("SELECT value FROM robots WHERE origin = ?", (origin,))
        try:
            return msgspec.msgpack.decode(rows[0][0], type=RobotsEntry) if rows else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def excluded(self) -> Iterator[str]:
        """Yield no domain: a board in the list is meant to be read."""
        return iter(())

    def keep_robots(self, entry: RobotsEntry) -> None:
        with self._database.write_relaxed() as run:
            run("INSERT OR REPLACE INTO robots VALUES (?, ?)", (entry.origin, msgspec.msgpack.encode(entry)))

    def close(self) -> None:
        self._database.close()
