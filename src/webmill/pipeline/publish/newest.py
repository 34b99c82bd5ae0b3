"""Which rows of the documents are published: of each URL the newest capture, and whose text is its.

    heads ─▶ sorted by urlkey and time ─▶ the newest of each URL ─┬─▶ has text: that row
                                                                  └─▶ repeats another: the row with its digest

A crawler that gets the same bytes again archives a revisit record, which has a digest and no text. Most of them repeat
the capture of the same URL before them: that one stays. Others have the bytes of another URL, or those of the same URL
from before it changed and changed back: they are given the text of a row with their digest, under their own address.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import groupby
from pathlib import Path

import msgspec

from webmill.formats.timestamps import to_datetime
from webmill.formats.url.surt import surt
from webmill.model import CAPTURE_COLUMNS, CaptureRef, Document
from webmill.pipeline.publish.page_state import (
    REMOVAL,
    REPEAT,
    TEXT,
    PageCapture,
    PageChoice,
    PageState,
    choose_capture,
    state_of,
)
from webmill.publish.rows import Row, SortedRows

_ROW = struct.Struct(">QQ12sB")  # time, number of the row, digest, kind
_ORDINAL = struct.Struct(">Q")
_pages = msgspec.msgpack.Encoder()
NO_DIGEST = bytes(12)
BEFORE_TIME = 1 << 40  # seconds: years before the first year
# What rows are chosen by. Their text is read only where nothing else tells that they have some.
HEADS = ("url", "urlkey", "date", "text_chars", "outcome", "status", "type", "mime", "digest", *CAPTURE_COLUMNS)


def reason_to_skip(document: Document) -> str | None:
    """Return why there is nothing to publish of it."""
    if not document.url:
        return "no_url"
    if repeats_another(document) or is_removal(document):
        return None
    if document.status is not None and not 200 <= document.status < 300:
        return "not_ok"
    return None if document.text or document.text_chars else "no_text"


def repeats_another(document: Document) -> bool:
    """Return whether this is a revisit, whose text is that of a row with the same digest."""
    if document.type != "revisit" and document.mime != "warc/revisit":
        return False
    status = document.status
    is_good = status is None or 200 <= status < 300 or status == 304
    return is_good and not (document.text or document.text_chars) and bool(document.digest)


def is_removal(document: Document) -> bool:
    """Return whether this says that the page is not there any more: it is not published unless it comes back."""
    return document.outcome == "removed"


def urlkey_of(document: Document) -> str:
    return document.urlkey or surt(document.url)


def time_order(document: Document) -> int:
    """Return a number by which captures are in the order of their seconds; 0 when nobody knows when it was."""
    return BEFORE_TIME + int(document.date.timestamp()) if document.date else 0


def kind_of(document: Document) -> int:
    return REPEAT if repeats_another(document) else REMOVAL if is_removal(document) else TEXT


def to_capture(document: Document, place: int) -> PageCapture:
    kind = kind_of(document)
    head = pack_head(document) if kind == REPEAT else b""
    return PageCapture(time_order(document), place, pack_digest(document), kind, head)


def pack_capture(capture: PageCapture) -> bytes:
    """Return a line that sorts as captures do."""
    return _ROW.pack(capture.order, capture.place, capture.digest, capture.kind) + capture.head


def unpack_capture(line: bytes) -> PageCapture:
    order, place, digest, kind = _ROW.unpack_from(line)
    return PageCapture(order, place, digest, kind, line[_ROW.size :])


def unpack_ordinal(packed: bytes) -> int:
    ordinal: int = _ORDINAL.unpack(packed)[0]
    return ordinal


class RowNumbers:
    """A set of row numbers: a bit each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, number: int) -> None:
        if number >> 3 >= len(self._bytes):
            self._bytes.extend(bytes((number >> 3) + 1 - len(self._bytes) + (1 << 16)))
        self._bytes[number >> 3] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        return number >> 3 < len(self._bytes) and bool(self._bytes[number >> 3] >> (number & 7) & 1)


class NewestCaptures:
    """Takes the heads of all rows, then knows which are published. `counts` is of all others: why not."""

    def __init__(self, folder: Path) -> None:
        self._rows = SortedRows(folder, "captures")
        self._repeats = SortedRows(folder, "repeats")  # by digest: pages whose text another row has
        self._texts = SortedRows(folder, "texts")  # by digest; only when it is asked for
        self._has_texts = False
        self._echoes = SortedRows(folder, "echoes")  # by the row that has their text
        self._rows_with_text = RowNumbers()
        self.counts = {"older": 0}

    def add(self, document: Document, ordinal: int) -> None:
        line = pack_capture(to_capture(document, ordinal))
        self._rows.add(urlkey_of(document).encode(errors="replace"), line)

    def choose(self) -> None:
        """Choose the newest rows. Of two captures of one second the later one in the files is newer."""
        has_repeats = False
        for _, page in self.pages():
            if page.wants_digest:
                has_repeats = True
                self._repeats.add(page.last.digest, _pages.encode(page))
            else:
                self._take(choose_capture(page, None))
        if has_repeats:
            for (_, line), original in join_sorted(self._repeats, self.texts()):
                page = msgspec.msgpack.decode(line, type=PageState)
                self._take(choose_capture(page, unpack_ordinal(original) if original else None))

    def __contains__(self, ordinal: int) -> bool:
        return ordinal in self._rows_with_text

    def pages(self) -> Iterator[tuple[bytes, PageState]]:
        """Yield all pages by their urlkey, in its order."""
        for urlkey, captures in groupby(self._rows, key=lambda row: row[0]):
            yield urlkey, state_of(unpack_capture(line) for _, line in captures)

    def texts(self) -> Iterable[Row]:
        """Return the digest and the packed number of each row that has text, in their order."""
        if not self._has_texts:
            for _, line in self._rows:
                capture = unpack_capture(line)
                if capture.kind == TEXT and capture.digest != NO_DIGEST:
                    self._texts.add(capture.digest, _ORDINAL.pack(capture.place))
            self._has_texts = True
        return self._texts

    def echoes(self) -> Iterator[tuple[int, CaptureRef]]:
        """Yield the captures that are given the text of another row, in the order of those rows."""
        return ((unpack_ordinal(key), read_head(line)) for key, line in self._echoes)

    def _take(self, choice: PageChoice) -> None:
        if choice.place is not None and choice.head:
            self._echoes.add(_ORDINAL.pack(choice.place), choice.head)
        elif choice.place is not None:
            self._rows_with_text.add(choice.place)
        for reason, count in choice.counts.items():
            if count:
                self.counts[reason] = self.counts.get(reason, 0) + count


def join_sorted(wanted: Iterable[Row], there: Iterable[Row]) -> Iterator[tuple[Row, bytes | None]]:
    """Yield each wanted row with the first one that has the same key. Both inputs are sorted."""
    others = iter(there)
    other = next(others, None)
    for row in wanted:
        while other and other[0] < row[0]:
            other = next(others, None)
        yield row, other[1] if other and other[0] == row[0] else None


_heads = msgspec.json.Decoder(CaptureRef)
read_head = _heads.decode


def pack_digest(document: Document) -> bytes:
    """Return a short hash of the digest, with or without the name of SHA-1, which CDX files leave out."""
    named = (document.digest or "").removeprefix("sha1:")
    return blake2b(named.encode(errors="replace"), digest_size=12).digest() if named else NO_DIGEST


def pack_head(document: Document) -> bytes:
    ref = document.capture
    urlkey, url, filename = map(printable, (urlkey_of(document), ref.url, ref.filename))
    return msgspec.json.encode(msgspec.structs.replace(ref, url=url, urlkey=urlkey, filename=filename, digest=""))


def printable(text: str) -> str:
    return text.encode(errors="replace").decode()


def with_capture(document: Document, ref: CaptureRef) -> Document:
    """Return the content of a document as that of another capture."""
    return msgspec.structs.replace(
        document,
        url=ref.url,
        urlkey=ref.urlkey,
        date=to_datetime(ref.timestamp) if ref.timestamp else None,
        warc_filename=ref.filename,
        warc_offset=ref.offset,
        warc_length=ref.length,
    )
