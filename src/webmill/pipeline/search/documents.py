"""A published item, with its blob, as a document that can be searched. Of notices and of web pages alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import msgspec

from webmill.errors import BadInput
from webmill.formats.timestamps import earliest, to_datetime
from webmill.infra.storage.base import Readable
from webmill.model import checked_filename, checked_position
from webmill.publish.blobs import read_blob
from webmill.publish.nouns import Item
from webmill.search.base import Document, Place

_BEFORE = {"captured": "date", "warc": "warc_filename", "offset": "warc_offset", "length": "warc_length"}


def document_of(storage: Readable, item: Item, *, version: str) -> Document:
    """`BadInput` when its blob is damaged, or gone."""
    try:
        content = msgspec.json.decode(read_blob(storage, item.hash), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(str(error), reason="bad_blob", source=item.hash) from error
    return Document(
        id=item.id,
        hash=item.hash,
        version=version,
        label=label_of(item),
        title=_text(content, "title") or _text(item.metadata, "title"),
        text=_text(content, "text"),
        url=_text(item.metadata, "url") or _text(content, "url"),
        language=_text(content, "language") or item.facets.get("language", ""),
        date=date_of(item.metadata, content),
        facets=dict(item.facets),
        capture=capture_of(item),
    )


def date_of(said: Any, content: Any) -> int:
    """What is written on it; of a page that says nothing, when its content was first seen."""
    written = _seconds(_text(said, "date") or _text(content, "date"))
    return written or _first_seen(_text(said, "captured"))


def capture_of(item: Item) -> Place | None:
    """As `publish documents` tells it, or did before it spoke of documents' own columns."""
    said = {_BEFORE.get(name, name): value for name, value in item.metadata.items()}
    try:
        file = checked_filename(said.get("warc_filename"))
        offset = checked_position(said.get("warc_offset"), name="offset")
        length = checked_position(said.get("warc_length"), name="length")
        captured = earliest(_text(said, "date")) if _text(said, "date") else ""
    except BadInput:
        return None
    return Place(_text(said, "url"), captured, file, offset, length)


def mark_of(item: Item) -> str:
    """As its document's, without reading the blob."""
    return Document(id=item.id, hash=item.hash, version="", label=label_of(item)).mark


def label_of(item: Item) -> str:
    said = (item.source, sorted(item.facets.items()), sorted(item.metadata.items()))
    return f"{crc32(msgspec.json.encode(said)):08x}"  # whose numbers may be of any size


def _text(values: Any, name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _first_seen(captured: str) -> int:
    try:
        return int(to_datetime(captured).timestamp())
    except BadInput:
        return 0


def _seconds(date: str) -> int:
    try:
        moment = datetime.fromisoformat(date)
    except ValueError:
        return 0
    return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))
