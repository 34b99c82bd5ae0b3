"""Versions and documents as resources, which a client can list, read and attach.

webmill://COLLECTION/versions/VERSION           JSON: when it was published, how many documents, what changed
webmill://COLLECTION/documents/VERSION/ID       JSON: the answer of `read_document`, its first part
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote, unquote

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.publish.changes import ChangeSummary
from webmill.publish.types import PublishedItem, Version
from webmill.serve.api.cursors import fitting, make_cursor, read_cursor
from webmill.serve.api.documents import list_items, text_of
from webmill.serve.api.untrusted import LONGEST_TITLE, clip
from webmill.serve.mcp.arguments import ReadArguments
from webmill.serve.mcp.documents import read_document
from webmill.serve.mcp.opened import OpenedCollection, OpenedCollections

PAGE = 100
LONGEST_URI = 16_384
VERSION_TEMPLATE = "webmill://{collection}/versions/{version}"
DOCUMENT_TEMPLATE = "webmill://{collection}/documents/{version}/{id}"
_URI = re.compile(r"webmill://([^/?#]+)/(versions|documents)/([^/?#]+)(?:/([^/?#]+))?")


class OfferedResource(msgspec.Struct, frozen=True, kw_only=True):
    uri: str
    name: str
    about: str


class ResourcePage(msgspec.Struct, frozen=True, kw_only=True):
    resources: list[OfferedResource]
    next_cursor: str | None = None


class ResourcesAsked(msgspec.Struct, frozen=True, kw_only=True):
    cursor: str = ""


class ResourcePlace(msgspec.Struct, frozen=True, array_like=True):
    """Behind so many versions, then so many documents of the live one, of the collection of this number."""

    collection: int = 0
    versions: int = 0
    documents: int = 0


class VersionResource(msgspec.Struct, frozen=True, kw_only=True):
    collection: str
    version: str
    published_at: datetime
    live: bool
    documents: int
    changes: ChangeSummary | None


def list_resources(collections: OpenedCollections, cursor: str) -> ResourcePage:
    """Return a part of the list: of each collection its versions, newest first, then its live documents."""
    asked = ResourcesAsked(cursor=cursor)
    place = read_cursor(asked, ResourcePlace) or ResourcePlace()
    every = collections.all()
    if not 0 <= place.collection < len(every) or min(place.versions, place.documents) < 0:
        return ResourcePage(resources=[])
    chosen = every[place.collection]
    versions = chosen.reader.published.versions()[::-1]
    if place.versions < len(versions):
        found = list(fitting(version_resource(chosen, one) for one in versions[place.versions :][:PAGE]))
        following = ResourcePlace(place.collection, place.versions + len(found), 0)
    else:
        found = list(fitting(live_documents(chosen, place.documents))) if versions else []
        following = ResourcePlace(place.collection, place.versions, place.documents + len(found))
        if not found:
            following = ResourcePlace(place.collection + 1)
    is_end = following.collection == len(every)
    return ResourcePage(resources=found, next_cursor=None if is_end else make_cursor(asked, following))


def version_resource(asked: OpenedCollection, version: Version) -> OfferedResource:
    return OfferedResource(
        uri=f"webmill://{quote(asked.name, safe='')}/versions/{version.version}",
        name=f"{asked.name}, version {version.version}",
        about=f"{version.count} documents, published {version.published_at:%Y-%m-%d %H:%M} UTC",
    )


def live_documents(asked: OpenedCollection, start: int) -> Sequence[OfferedResource]:
    listing = list_items(asked.reader.published, start=start, count=PAGE)
    if start >= listing.total:
        return []
    return [document_resource(asked, listing.version.version, item) for item in listing.items]


def document_resource(asked: OpenedCollection, version: str, item: PublishedItem) -> OfferedResource:
    return OfferedResource(
        uri=f"webmill://{quote(asked.name, safe='')}/documents/{version}/{quote(item.id, safe='')}",
        name=clip(item.id, 1000),
        about=f"untrusted title: {clip(text_of(item.metadata, 'title'), LONGEST_TITLE)}",
    )


def read_resource(collections: OpenedCollections, uri: str) -> bytes:
    """Return a resource as JSON. `NotFound`: there is none of this address."""
    if len(uri) > LONGEST_URI:
        raise BadInput(
            f"the address has {len(uri):,} characters; at most {LONGEST_URI:,} are allowed", reason="bad_uri"
        )
    found = _URI.fullmatch(uri)
    if not found or (found[2] == "documents") != bool(found[4]):
        raise NotFound(f"there is no resource {uri[:300]}: ask for {VERSION_TEMPLATE} or {DOCUMENT_TEMPLATE}")
    asked, version = collections.find(unquote(found[1])), found[3]
    if found[4]:
        arguments = ReadArguments(id=unquote(found[4]), version=version, collection=asked.name)
        return msgspec.json.encode(read_document(asked, arguments))
    return msgspec.json.encode(describe_version(asked, version))


def describe_version(asked: OpenedCollection, name: str) -> VersionResource:
    published = asked.reader.published
    version = published.find(name)
    return VersionResource(
        collection=asked.name,
        version=version.version,
        published_at=version.published_at,
        live=version.until is None,
        documents=version.count,
        changes=published.change_summary(version),
    )
