"""What the tests of this room share: a clock set by hand, small publications, and a reader that trusts nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from webmill.errors import WebmillError
from webmill.infra.storage.base import Readable, Storage
from webmill.publish.publication import Publication, PublishOptions, PublishResult
from webmill.publish.types import PublishedItem, PublishProblem

START = datetime(2024, 1, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def nanoseconds(self) -> int:
        return int(self.now.timestamp()) * 10**9

    def pass_by(self, **time: float) -> None:
        self.now += timedelta(**time)


def item(publication: Publication, id_: str, text: str, *, source: str = "board", **facets: str) -> PublishedItem:
    return PublishedItem(id_, source, publication.put({"text": text}), facets=facets, metadata={"title": text[:20]})


def publish(
    storage: Storage,
    texts: Mapping[str, str],
    *,
    failed: Iterable[str] = (),
    options: PublishOptions | None = None,
    clock: Clock | None = None,
) -> PublishResult:
    """Ids are `source/name`."""
    with Publication.begin(storage, options=options or PublishOptions(), now=clock or Clock()) as publication:
        for id_, text in texts.items():
            publication.add(item(publication, id_, text, source=id_.partition("/")[0]))
        for source in failed:
            publication.report(PublishProblem(stage="fetch", source=source, message="timed out", retryable=True))
            publication.keep_source(source)
        return publication.commit()


def closure(storage: Readable) -> dict[str, Any]:
    """Every item of the live version with its content, read by keys and hashes alone: none of the room's own code."""
    pointer = json.loads(storage.read("latest.json"))
    folder = f"snapshots/{pointer['version']}/"
    manifest = checked(storage, folder + "_manifest.json", pointer["manifest_sha256"])
    found: dict[str, Any] = {}
    listed, counted = 0, None
    for entry in manifest["files"]:
        value = checked(storage, folder + entry["key"], entry["sha256"])
        if entry["key"].startswith("aux/changes/"):
            listed += len(value)
        elif entry["key"] == "aux/changes.json":
            counted = sum(value.get(kind, 0) for kind in ("added", "changed", "removed", "moved"))
            assert value["parent"] == manifest["parent"]
        if entry["key"].startswith("index/"):
            items = value.get("items") or [
                item for shard in value.get("shards", ()) for item in checked_blob(storage, shard["hash"])
            ]
            assert len(items) == value["count"]
            contents = {item["id"]: checked_blob(storage, item["hash"])["text"] for item in items}
            if entry["key"] == "index/all.json":
                found = contents
    assert len(found) == pointer["count"] == manifest["count"]
    assert counted == listed, "a version that is live has its changes"
    return found


def missing(storage: Readable, *promised: Mapping[str, str]) -> int:
    """Items that a reader does not find: of the version it comes nearest to; all of the first when it can read none."""
    try:
        found = closure(storage).items()
    except (WebmillError, AssertionError, ValueError):
        return len(promised[0])
    return min(len(version.items() - found) for version in promised)


def checked_blob(storage: Readable, hash_: str) -> Any:
    return checked(storage, f"blobs/sha256/{hash_}.json", hash_)


def checked(storage: Readable, key: str, sha256: str) -> Any:
    data = storage.read(key)
    assert hashlib.sha256(data).hexdigest() == sha256, key
    return json.loads(data)


def aux(storage: Readable, name: str) -> Any:
    version = json.loads(storage.read("latest.json"))["version"]
    return json.loads(storage.read(f"snapshots/{version}/{name}"))
