"""The JSON that programs get. Field names are stable (docs/reference/serve-api.md): new ones may come, none goes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from starlette.responses import Response

from webmill.model import CaptureRef
from webmill.publish.types import PublishedItem, Scalar, Version
from webmill.search.base import FacetCount
from webmill.search.hits import make_hit_reply
from webmill.serve.api.differences import Differences
from webmill.serve.api.documents import DocumentEntry, Listing
from webmill.serve.api.search import FoundHits
from webmill.serve.captures.address import raw_address, web_address
from webmill.serve.http.responses import NO_STORE


class CaptureReply(CaptureRef, frozen=True, kw_only=True):
    """The location of a capture, and its URLs on this server."""

    replay: str
    raw: str


class SearchReply(msgspec.Struct, frozen=True, kw_only=True):
    query: str
    total: int
    offset: int
    limit: int
    suggestion: str
    hits: list[msgspec.Struct]  # `HitReply`: all shown columns of a document
    facets: dict[str, list[FacetCount]]
    behind: str


class SuggestReply(msgspec.Struct, frozen=True, kw_only=True):
    """Titles of documents that have the words of what was typed."""

    titles: list[str]


class ItemReply(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    hash: str
    source: str
    facets: dict[str, str]
    metadata: dict[str, Scalar]
    stale_since: datetime | None


class DocumentsReply(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    total: int
    offset: int
    items: list[ItemReply]


class ChangeReply(msgspec.Struct, frozen=True):
    version: str
    change: str
    hash: str | None


class DocumentReply(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    item: ItemReply
    content: dict[str, object] | None
    changes: list[ChangeReply]


class VersionReply(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    sequence: int
    published_at: datetime
    until: datetime | None
    live: bool
    count: int


class VersionsReply(msgspec.Struct, frozen=True):
    versions: list[VersionReply]


class DifferenceReply(msgspec.Struct, frozen=True, kw_only=True):
    change: str
    id: str
    old: str | None
    new: str | None


class DiffReply(msgspec.Struct, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}):
    old: str
    new: str
    counts: dict[str, int] | None
    differences: list[DifferenceReply]
    after: str | None


def json_response(value: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json", headers=NO_STORE)


def search_reply(found: FoundHits) -> SearchReply:
    return SearchReply(
        query=found.params.q,
        total=found.answer.total,
        offset=found.params.offset,
        limit=found.params.limit,
        suggestion=found.answer.suggestion,
        hits=[make_hit_reply(hit, capture=_capture(found.capture_of(hit))) for hit in found.answer.hits],
        facets=found.answer.facets,
        behind=found.behind,
    )


def _capture(capture: CaptureRef | None) -> CaptureReply | None:
    return capture_reply(capture) if capture else None


def capture_reply(capture: CaptureRef) -> CaptureReply:
    return CaptureReply(
        **msgspec.structs.asdict(capture),
        replay=web_address(capture.timestamp, capture.url),
        raw=raw_address(capture.timestamp, capture.url),
    )


def documents_reply(listing: Listing) -> DocumentsReply:
    items = [_item(item) for item in listing.items]
    return DocumentsReply(version=listing.version.version, total=listing.total, offset=listing.number, items=items)


def _item(item: PublishedItem) -> ItemReply:
    return ItemReply(
        id=item.id,
        hash=item.hash,
        source=item.source,
        facets=item.facets,
        metadata=item.metadata,
        stale_since=item.stale_since,
    )


def document_reply(entry: DocumentEntry) -> DocumentReply:
    changes = [ChangeReply(change.version.version, change.what, change.hash or None) for change in entry.changes]
    return DocumentReply(version=entry.version.version, item=_item(entry.item), content=entry.content, changes=changes)


def versions_reply(versions: Sequence[Version]) -> VersionsReply:
    return VersionsReply([_version(version) for version in versions])


def _version(version: Version) -> VersionReply:
    return VersionReply(
        version=version.version,
        sequence=version.sequence,
        published_at=version.published_at,
        until=version.until,
        live=version.until is None,
        count=version.count,
    )


def diff_reply(found: Differences) -> DiffReply:
    differences = [
        DifferenceReply(
            change=pair.change,
            id=pair.item.id,
            old=pair.old.hash if pair.old else None,
            new=pair.new.hash if pair.new else None,
        )
        for pair in found.pairs
    ]
    return DiffReply(
        old=found.old.version, new=found.new.version, counts=found.counts, differences=differences, after=found.after
    )
