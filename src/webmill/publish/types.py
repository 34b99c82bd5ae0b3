"""The types of publishing. Every struct is also the JSON that is stored: a field added later needs a default."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from webmill.errors import BadInput
from webmill.infra.checksums import seal_json, unseal_json

Scalar: TypeAlias = str | int | float | bool | None
Sha256Hex: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
CommitKind: TypeAlias = Literal["publish", "rollback", "retire"]
Layout: TypeAlias = Literal["webmill", "uring"]  # of the index files of a version
T = TypeVar("T")


class PublishedItem(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One entry of an index: what a list shows of it, and the hash of its content.

    `id` is unique in a version. `stale_since`: its source failed, and it was last seen at this time.
    """

    id: str
    source: str
    hash: Sha256Hex
    facets: dict[str, str] = {}
    metadata: dict[str, Scalar] = {}
    stale_since: datetime | None = None


def captured_at(item: PublishedItem) -> datetime | None:
    """Return when the capture was made that the item was made of, if its metadata says it."""
    try:
        return msgspec.convert(item.metadata.get("date"), datetime)
    except msgspec.ValidationError:
        return None


class PublishProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that failed, as `aux/errors.json` lists it."""

    stage: str
    message: str
    source: str | None = None
    url: str | None = None
    item: str | None = None
    retryable: bool = False


class IndexShard(msgspec.Struct, frozen=True, gc=False):
    """A part of a large index: a blob that holds a JSON array of items, in the order of their ids."""

    hash: Sha256Hex
    bytes: int
    count: int
    first: str  # the id of its first item


class ItemIndex(msgspec.Struct, frozen=True, omit_defaults=True):
    """`index/all.json` and its kin: the items themselves when they are few, else shards. In the order of ids."""

    count: int
    items: tuple[PublishedItem, ...] | None = None
    shards: tuple[IndexShard, ...] | None = None


class ManifestEntry(msgspec.Struct, frozen=True):
    """A file of a version; its key is relative to the version's folder."""

    key: str
    bytes: int
    sha256: Sha256Hex


class VersionManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`_manifest.json`: every other file of the version."""

    version: str
    parent: str | None
    created_at: datetime
    count: int
    files: tuple[ManifestEntry, ...]
    schema: int = 1


class Version(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version as the history knows it. Its manifest's hash makes all that it refers to checkable."""

    version: str
    sequence: int  # of the record that published it
    published_at: datetime
    count: int
    manifest_sha256: Sha256Hex
    manifest_bytes: int
    run: str = ""  # who published it: a run does so once
    until: datetime | None = None  # when another one took its place


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record of the history: which version is live from here on. It names the record before it by hash."""

    sequence: int
    kind: CommitKind
    at: datetime
    live: Version
    parent: str | None = None
    kept: tuple[Version, ...] | None = None  # of "retire": all versions that are still there, and no others


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """`latest.json`."""

    version: str
    sequence: int
    updated_at: datetime
    count: int
    manifest_sha256: Sha256Hex
    manifest_bytes: int


_encoder = msgspec.json.Encoder(order="deterministic")


def encode(value: object) -> bytes:
    """Return JSON that is the same for the same value. `BadInput` for text that UTF-8 cannot hold."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError as error:
        raise BadInput("text with a lone surrogate, which UTF-8 cannot hold", reason="bad_item") from error


def encode_sealed(value: object) -> bytes:
    """Return JSON with its own checksum, for files whose hash nobody else has: records of the history, the pointer."""
    return seal_json(encode(value))


def decode_sealed(data: bytes, type_: type[T], *, source: str) -> T:
    """Return what `encode_sealed` wrote, or an earlier webmill without a checksum."""
    repair = "`webmill publish verify DIR --repair` restores it from a copy"
    return decode(unseal_json(data, source=source, repair=repair), type_, source=source)


def decode(data: bytes, type_: type[T], *, source: str) -> T:
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"cannot be read: {error}", reason="bad_json", source=source) from error
