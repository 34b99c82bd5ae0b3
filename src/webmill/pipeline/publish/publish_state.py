"""What the live version was made of: which capture of each page, out of which files of documents.

With it a publication reads only files that have come since. It says nothing that the documents do not: without it,
or when it is damaged, about another version, or a file that it knows was changed or removed, all documents are read,
with the same result, and it is made again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TypeVar

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.infra import atomic
from webmill.infra.sqlite import Database, Schema
from webmill.pipeline.documents import PartStat
from webmill.pipeline.publish.newest import NewestCaptures, unpack_ordinal
from webmill.pipeline.publish.page_state import PageCapture, PageState

ROW_BITS = 32  # of a place: the number of a row in its file; above them is the number of the file

SCHEMA = Schema(
    tag=int.from_bytes(b"wmPs"),
    page_size=1024,  # pages change here and there: small ones are less to write
    steps=(
        """
        CREATE TABLE about (one INTEGER PRIMARY KEY CHECK (one = 1), data BLOB NOT NULL) STRICT;
        CREATE TABLE part (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, looks BLOB NOT NULL) STRICT;
        CREATE TABLE page (urlkey BLOB PRIMARY KEY, state BLOB NOT NULL, wanted BLOB) STRICT, WITHOUT ROWID;
        CREATE INDEX page_wanted ON page (wanted) WHERE wanted IS NOT NULL;
        CREATE TABLE text (digest BLOB PRIMARY KEY, place INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        """,
    ),
)

T = TypeVar("T")
_encoder = msgspec.msgpack.Encoder()
_pages = msgspec.msgpack.Decoder(PageState)


class StateSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`version`: the one that was made of these documents; `recipe`: a digest of what else it depends on; `counts`: of
    all rows, by what became of them.
    """

    version: str
    recipe: str
    counts: dict[str, int]


class PublishState:
    """The state, in an SQLite file. `BadInput` from any method: it is damaged."""

    def __init__(self, path: Path) -> None:
        atomic.make_folder(path.parent)
        self._database = Database(path, schema=SCHEMA)

    def close(self) -> None:
        self._database.close()

    def summary(self) -> StateSummary | None:
        rows = self._database.read("SELECT data FROM about")
        return _decode(rows[0][0], StateSummary) if rows else None

    def parts(self) -> dict[str, PartStat]:
        rows = self._database.read("SELECT name, looks FROM part")
        return {name: _decode(looks, PartStat) for name, looks in rows}

    def part_names(self) -> dict[int, str]:
        return dict(self._database.read("SELECT number, name FROM part"))

    def pages(self, urlkeys: Iterable[bytes]) -> dict[bytes, PageState]:
        rows = self._database.many("SELECT urlkey, state FROM page WHERE urlkey = ?", ((key,) for key in urlkeys))
        return {urlkey: _decode_page(state) for urlkey, state in rows}

    def pages_that_want(self, digests: Iterable[bytes]) -> dict[bytes, PageState]:
        """Return the pages that are published with the text of a capture with one of these digests, if there is one."""
        sql = "SELECT urlkey, state FROM page WHERE wanted = ?"
        return {urlkey: _decode_page(state) for urlkey, state in self._database.many(sql, ((one,) for one in digests))}

    def texts(self, digests: Iterable[bytes]) -> dict[bytes, int]:
        """Return the place of the first capture with text, by digest."""
        return dict(self._database.many("SELECT digest, place FROM text WHERE digest = ?", ((one,) for one in digests)))

    def add(
        self,
        before: StateSummary,
        after: StateSummary,
        *,
        parts: Mapping[int, tuple[str, PartStat]],
        pages: Mapping[bytes, PageState],
        texts: Mapping[bytes, int],
    ) -> None:
        """Add what has come since. Do nothing if the state is not what it was: another publisher has replaced it."""
        with self._database.write():
            if self.summary() != before:
                return
            self._put(after, parts=parts, pages=sorted(pages.items()), texts=sorted(texts.items()))

    def replace(
        self,
        summary: StateSummary,
        *,
        parts: Mapping[int, tuple[str, PartStat]],
        pages: Iterable[tuple[bytes, PageState]],
        texts: Iterable[tuple[bytes, int]],
    ) -> None:
        """Make the state anew. Pages and texts come sorted."""
        with self._database.write() as run:
            for table in ("about", "part", "page", "text"):
                run(f"DELETE FROM {table}")  # noqa: S608  names of ours
            self._put(summary, parts=parts, pages=pages, texts=texts)

    def _put(
        self,
        summary: StateSummary,
        *,
        parts: Mapping[int, tuple[str, PartStat]],
        pages: Iterable[tuple[bytes, PageState]],
        texts: Iterable[tuple[bytes, int]],
    ) -> None:
        many = self._database.many
        many("INSERT OR REPLACE INTO about VALUES (1, ?)", [(_encoder.encode(summary),)])
        many(
            "INSERT INTO part VALUES (?, ?, ?)", ((key, name, _encoder.encode(it)) for key, (name, it) in parts.items())
        )
        many("INSERT OR REPLACE INTO page VALUES (?, ?, ?)", (_page_row(urlkey, page) for urlkey, page in pages))
        many("INSERT OR REPLACE INTO text VALUES (?, ?)", texts)


def _page_row(urlkey: bytes, page: PageState) -> tuple[bytes, bytes, bytes | None]:
    return urlkey, _encoder.encode(page), page.last.digest if page.wants_digest else None


def _decode(data: bytes, type_: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(data, type=type_)
    except msgspec.MsgspecError as error:
        raise BadInput(str(error), reason="corrupt", source="the state of publishing") from error


def _decode_page(data: bytes) -> PageState:
    try:
        return _pages.decode(data)
    except msgspec.MsgspecError as error:
        raise BadInput(str(error), reason="corrupt", source="the state of publishing") from error


def remove_state(path: Path) -> None:
    """Remove the file and what SQLite keeps beside it; those first, since they would be taken for another file's."""
    for ending in ("-wal", "-shm", "-journal", ""):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@contextmanager
def open_publish_state(path: Path) -> Iterator[PublishState]:
    """Open the state. One that cannot be used is removed: it is made again by the publication."""
    try:
        state = PublishState(path)
    except (BadInput, Misconfigured):
        remove_state(path)
        state = PublishState(path)
    try:
        yield state
    finally:
        state.close()


# --- from a run that has read everything ---


def record_newest(
    state: PublishState,
    newest: NewestCaptures,
    summary: StateSummary,
    *,
    parts: Mapping[str, PartStat],
    starts: Mapping[str, int],
) -> None:
    """Make the state anew from a publication that has read all documents. `starts`: the first row number by file."""
    places = PlaceTable(starts)
    first_texts = ((digest, next(rows)[1]) for digest, rows in groupby(newest.texts(), key=lambda row: row[0]))
    state.replace(
        summary,
        parts={number: (name, parts[name]) for number, name in enumerate(starts)},
        pages=((urlkey, places.page(page)) for urlkey, page in newest.pages()),
        texts=((digest, places.place(unpack_ordinal(packed))) for digest, packed in first_texts),
    )


class PlaceTable:
    """Turns the number of a row through all files into its place: file and row."""

    def __init__(self, starts: Mapping[str, int]) -> None:
        self._starts = list(starts.values())

    def place(self, ordinal: int) -> int:
        number = bisect_right(self._starts, ordinal) - 1
        return number << ROW_BITS | ordinal - self._starts[number]

    def page(self, page: PageState) -> PageState:
        text = page.text and self._capture(page.text)
        return msgspec.structs.replace(page, last=self._capture(page.last), text=text)

    def _capture(self, capture: PageCapture) -> PageCapture:
        return msgspec.structs.replace(capture, place=self.place(capture.place))
