"""The documents of a version: listings, and one document with its metadata and history."""

from __future__ import annotations

from typing import Any

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.publish.blobs import read_blob
from webmill.publish.facets import FacetValue
from webmill.publish.keys import blob_key
from webmill.publish.shards import find_item
from webmill.publish.types import PublishedItem, Version
from webmill.serve.api.items import ItemLookup, id_ranges
from webmill.serve.api.published import PublishedVersions

PAGE = 50
LONGEST_ID = 4_000
MOST_VERSIONS = 20  # searched for changes of an item
LARGEST = 4 << 20  # bytes of content that a page shows


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Items of a version. `total` counts all matches; `number` is the position of the first one listed, from 0."""

    version: Version
    items: list[PublishedItem]
    total: int
    number: int
    facets: dict[str, list[FacetValue]]


class ItemChange(msgspec.Struct, frozen=True):
    """How a version changed an item."""

    version: Version
    what: str  # added, changed, relabelled, removed
    hash: str = ""


class DocumentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A document. `content` is its decoded blob (title, text, language…); None if too large to show."""

    version: Version
    item: PublishedItem
    content: dict[str, Any] | None
    changes: list[ItemChange]  # the newest first
    is_cut: bool  # older versions were not searched

    @property
    def title(self) -> str:
        return text_of(self.content or {}, "title") or text_of(self.item.metadata, "title")

    @property
    def text(self) -> str:
        return text_of(self.content or {}, "text")

    @property
    def url(self) -> str:
        return text_of(self.item.metadata, "url") or text_of(self.content or {}, "url")

    @property
    def language(self) -> str:
        return text_of(self.content or {}, "language") or self.item.facets.get("language", "")


def list_items(
    published: PublishedVersions,
    *,
    version: str = "",
    prefix: str = "",
    facet: str = "",
    start: int = 0,
    count: int = PAGE,
) -> Listing:
    """Return the items that match a prefix and a facet NAME=VALUE. `NotFound`: no such version or facet."""
    chosen = published.find(version)
    facets = published.facets(chosen)
    items = ItemLookup(published.storage, published.index(chosen, _key_of(facets, facet)))
    first, last = _part(items, prefix)
    start = min(start, max(0, last - first))
    shown = items.read(first + start, min(count, last - first - start))
    return Listing(version=chosen, items=shown, total=last - first, number=start, facets=facets)


def _part(items: ItemLookup, prefix: str) -> tuple[int, int]:
    """Return the bounds of the first interpretation of `prefix` that matches something."""
    part = 0, 0
    for span in id_ranges(prefix):
        part = items.bounds(span)
        if part[0] < part[1]:
            break
    return part


def _key_of(facets: dict[str, list[FacetValue]], facet: str) -> str:
    if not facet:
        return ""
    name, _, value = facet.partition("=")
    for known in facets.get(name, ()):
        if known.value == value:
            return known.key
    raise NotFound(f"this version has no documents with {facet[:200]}")


def find_entry(published: PublishedVersions, id_: str, *, version: str = "", largest: int = LARGEST) -> DocumentEntry:
    """Return a document of a version, or raise `NotFound`. Content over `largest` bytes is left out."""
    if len(id_) > LONGEST_ID:
        raise BadInput(f"the id has {len(id_):,} characters; at most {LONGEST_ID:,} are allowed", reason="bad_id")
    chosen = published.find(version)
    item = find_item(published.storage, published.index(chosen), id_)
    if not item:
        raise NotFound(f"version {chosen.version} has no document {id_[:200]}")
    versions = published.versions()
    return DocumentEntry(
        version=chosen,
        item=item,
        content=content_of(published, item, largest=largest),
        changes=changes_of(published, id_, versions),
        is_cut=len(versions) > MOST_VERSIONS,
    )


def content_of(published: PublishedVersions, item: PublishedItem, *, largest: int = LARGEST) -> dict[str, Any] | None:
    """Return the content of an item; None if larger than `largest`. `NotFound`, `BadInput`: blob missing or damaged."""
    if _size(published, item.hash) > largest:
        return None
    try:
        return msgspec.json.decode(read_blob(published.storage, item.hash), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the content cannot be decoded: {error}", reason="bad_blob", source=item.hash) from error


def _size(published: PublishedVersions, hash_: str) -> int:
    try:
        return published.storage.stat(blob_key(hash_)).size
    except NotFound:
        return 0  # gc may have moved it aside, where it can still be read


def changes_of(published: PublishedVersions, id_: str, versions: list[Version]) -> list[ItemChange]:
    """Return the changes of an item in the newest versions. One shard per version is read."""
    newest = versions[-MOST_VERSIONS - 1 :]
    changes: list[ItemChange] = []
    was: PublishedItem | None = None
    for number, version in enumerate(newest):
        now = find_item(published.storage, published.index(version), id_)
        is_known = number > 0 or len(versions) <= MOST_VERSIONS  # otherwise the version before is unknown
        if is_known and (what := _kind_of_change(was, now)):
            changes.append(ItemChange(version, what, now.hash if now else ""))
        was = now
    return changes[::-1]


def _kind_of_change(was: PublishedItem | None, now: PublishedItem | None) -> str:
    if not was or not now:
        return "added" if now else "removed" if was else ""
    if was.hash != now.hash:
        return "changed"
    same = (was.source, was.facets, was.metadata) == (now.source, now.facets, now.metadata)
    return "" if same else "relabelled"


def text_of(values: Any, name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
