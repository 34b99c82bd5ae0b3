"""A published item, with its blob, as a document that can be searched, of notices and of web pages alike; and from a
hit to the page as it was archived.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import msgspec
from msgspec.structs import replace

from webmill.columns import DocumentColumn
from webmill.errors import BadInput
from webmill.extract.cleaning import HTML
from webmill.extract.kinds import kind_of_media_type
from webmill.formats.timestamps import to_datetime
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.newest import newest_captures
from webmill.infra.storage.base import Readable
from webmill.model import capture_columns, columns
from webmill.pipeline.publish.items import SOURCE
from webmill.publish.blobs import read_blob
from webmill.publish.types import PublishedItem
from webmill.search.base import IndexedDocument, SearchAnswer, revision_of
from webmill.search.likeness import sketch_of

USED = tuple(each for each in columns() if (each.searchable or each.facet or each.shown) and each.name != "date")
_OLD_NAMES = {"warc": "warc_filename", "offset": "warc_offset", "length": "warc_length"}  # as items once had them


def to_indexed(storage: Readable, item: PublishedItem, *, version: str) -> IndexedDocument:
    """Return the document to index. Raise `BadInput` if its blob is damaged or missing."""
    try:
        content = msgspec.json.decode(read_blob(storage, item.hash), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(str(error), reason="bad_blob", source=item.hash) from error
    said = {**item.facets, **item.metadata, **{name: value for name, value in content.items() if value}}
    if isinstance(url := item.metadata.get("url"), str) and url:
        said["url"] = url
    known = {column.name: value for column in USED if (value := column_value(column, said)) is not None}
    return IndexedDocument(
        **known | capture_place(item) | {"id": item.id, "facets": {**item.facets, **type_facet(item)}},
        hash=item.hash,
        version=version,
        label=item_label(item),
        date=document_date(item.metadata, content),
        sketch=sketch_of(known.get("text") or ""),
    )


def type_facet(item: PublishedItem) -> dict[str, str]:
    """Return the kind of a page: html, pdf, feed, text… Notices are of none."""
    if item.source != SOURCE:
        return {}
    mime = item.metadata.get("mime", HTML[0])
    return {"type": kind_of_media_type(str(mime))}


def column_value(column: DocumentColumn, said: Mapping[str, Any]) -> Any:
    """Return what is said of a column; None when that is nothing of its type."""
    value = said.get(column.name)
    if column.is_time:
        return parse_moment(value)
    try:
        return msgspec.convert(value, column.type)
    except msgspec.ValidationError:
        return None


def document_date(said: Mapping[str, Any], content: Mapping[str, Any]) -> datetime | None:
    """Return the date that a page states; if it states none, when its content was first seen."""
    return parse_moment(said.get("date")) or parse_moment(content.get("date")) or parse_moment(said.get("captured"))


def parse_moment(text: object) -> datetime | None:
    """Return the moment of a date in ISO 8601, or of 14 digits."""
    if not isinstance(text, str):
        return None
    try:
        moment = to_datetime(text) if text.isdigit() else datetime.fromisoformat(text)
    except (BadInput, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def capture_place(item: PublishedItem) -> dict[str, Any]:
    """Return where its capture lies, as `publish documents` tells it; nothing when it is not told."""
    return capture_columns({_OLD_NAMES.get(name, name): value for name, value in item.metadata.items()})


def item_mark(item: PublishedItem) -> str:
    """Return the same mark as of its document, without reading the blob."""
    return revision_of(item.hash, item_label(item))


def item_label(item: PublishedItem) -> str:
    said = (item.source, sorted(item.facets.items()), sorted(item.metadata.items()))
    return f"{crc32(msgspec.json.encode(said)):08x}"  # whose numbers may be of any size


# --- and back ---


def with_captures(answer: SearchAnswer, index: CaptureIndex) -> SearchAnswer:
    """Return an answer whose hits lead to the archived page: to the place that was published with them, or else to
    their newest capture in the index. The id of a page is its urlkey; a notice is no page, and has no capture.
    """
    found = newest_captures(index, [hit.id for hit in answer.hits if not hit.capture])
    return replace(answer, hits=[replace(hit, capture=hit.capture or found.get(hit.id)) for hit in answer.hits])
