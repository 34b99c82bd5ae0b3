"""The JSON that programs get. Field names are stable (docs/reference/serve-api.md): new ones may come, none goes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from webmill.model import CaptureRef
from webmill.pipeline.remote_types import DifferenceReply, VersionReply
from webmill.publish.types import PublishedItem, Scalar, Version
from webmill.search.base import FacetCount
from webmill.search.hits import hit_type, make_hit_reply
from webmill.serve.api.differences import Differences
from webmill.serve.api.documents import DocumentEntry, Listing
from webmill.serve.api.search import FoundHits
from webmill.serve.captures.address import raw_address, web_address
from webmill.serve.http.responses import NO_STORE
from webmill.serve.http.tagged_response import tagged_response


class CaptureReply(CaptureRef, frozen=True, kw_only=True):
    """The location of a capture, and its URLs on this server."""

    replay: str
    raw: str


DocumentHit = hit_type("DocumentHit", CaptureReply)


class SearchReply(msgspec.Struct, frozen=True, kw_only=True):
    """`suggestion`: nothing matched, and these are the hits of this query. `behind`: the live version, if the index is
    older."""

    query: str
    total: int
    offset: int
    limit: int
    suggestion: str
    hits: list[DocumentHit]  # type: ignore[valid-type]  # which fields it has is known when it is made
    facets: dict[str, list[FacetCount]]
    behind: str
    next_cursor: str | None = None


class SuggestReply(msgspec.Struct, frozen=True, kw_only=True):
    """Titles of documents that have the words of what was typed."""

    titles: list[str]


class ItemReply(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    hash: str
    source: str
    facets: dict[str, str]
    metadata: dict[str, Scalar]
    stale_since: datetime | None  # its source failed, and it was last seen then


class DocumentsReply(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    total: int
    offset: int
    items: list[ItemReply]
    next_cursor: str | None = None


class ChangeReply(msgspec.Struct, frozen=True):
    version: str
    change: str
    hash: str | None


class DocumentReply(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    item: ItemReply
    content: dict[str, Any] | None
    changes: list[ChangeReply]


class VersionsReply(msgspec.Struct, frozen=True):
    versions: list[VersionReply]


class DiffReply(msgspec.Struct, frozen=True, kw_only=True, rename={"old": "from", "new": "to"}):
    old: str
    new: str
    counts: dict[str, int] | None
    differences: list[DifferenceReply]
    after: str | None
    next_cursor: str | None = None


def json_response(request: Request, value: msgspec.Struct) -> Response:
    """Return the JSON, with an ETag to what was read; 304 if the client has it."""
    body = msgspec.json.encode(value)
    if request.method == "POST":
        return Response(body, media_type="application/json", headers=NO_STORE)
    return tagged_response(request, body, media_type="application/json")


def search_reply(found: FoundHits, *, next_cursor: str | None) -> SearchReply:
    return SearchReply(
        query=found.params.q,
        total=found.answer.total,
        offset=found.params.offset,
        limit=found.params.limit,
        suggestion=found.answer.suggestion,
        hits=[
            make_hit_reply(hit, capture=_capture(found.capture_of(hit)), kind=DocumentHit) for hit in found.answer.hits
        ],
        facets=found.answer.facets,
        behind=found.behind,
        next_cursor=next_cursor,
    )


def _capture(capture: CaptureRef | None) -> CaptureReply | None:
    return capture_reply(capture) if capture else None


def capture_reply(capture: CaptureRef) -> CaptureReply:
    return CaptureReply(
        **msgspec.structs.asdict(capture),
        replay=web_address(capture.timestamp, capture.url),
        raw=raw_address(capture.timestamp, capture.url),
    )


def documents_reply(listing: Listing, *, next_cursor: str | None) -> DocumentsReply:
    return DocumentsReply(
        version=listing.version.version,
        total=listing.total,
        offset=listing.number,
        items=[_item(item) for item in listing.items],
        next_cursor=next_cursor,
    )


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


def diff_reply(found: Differences, *, next_cursor: str | None) -> DiffReply:
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
        old=found.old.version,
        new=found.new.version,
        counts=found.counts,
        differences=differences,
        after=found.after,
        next_cursor=next_cursor,
    )
