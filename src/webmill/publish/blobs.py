"""Content under its hash. A blob is written once; a damaged one is repaired when its content is put again.

Canonical JSON: keys sorted, no spaces, UTF-8, no NaN or infinities. Equal content has equal bytes, so an equal hash.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from webmill.errors import BadInput, Conflict, NotFound
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.storage.base import Absent, Readable, Storage
from webmill.publish.keys import blob_key, sha256, trash_key

Json: TypeAlias = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None

_flat_text = msgspec.json.Encoder(order="sorted")
SAMPLE = 0.01  # share of the blobs already stored that is read and hashed


class BlobCounts(msgspec.Struct):
    """How many blobs were written, already there, or repaired."""

    written: int = 0
    written_bytes: int = 0
    present: int = 0
    repaired: int = 0

    def add(self, other: BlobCounts) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def canonical_json(content: Json) -> bytes:
    try:
        if _is_flat_text(content):
            return _flat_text.encode(content)
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise BadInput(f"cannot be written as JSON: {error}", reason="bad_content") from error


def _is_flat_text(content: Json) -> bool:
    """Whether msgspec writes the same bytes, five times as fast. It does not for numbers, and writes NaN as null."""
    return type(content) is dict and all(
        type(key) is str and (value is None or type(value) is str) for key, value in content.items()
    )


class BlobStore:
    """Writes and reads blobs; threads may share it. `sample`: the share of blobs already there whose hash is checked.

    A put that the storage did not answer is retried by `policy`. Unlike other conditional writes it may be, since
    everyone who writes a key writes the same bytes.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        sample: float = SAMPLE,
        rng: random.Random | None = None,
        policy: BackoffPolicy = BackoffPolicy(),  # noqa: B008  frozen
    ) -> None:
        self.tally = BlobCounts()
        self._storage = storage
        self._sample = sample
        self._policy = policy
        self._random = rng or random.Random()  # noqa: S311  a sample, no secret
        self._lock = threading.Lock()
        self._last_known: tuple[str, bytes] | None = None  # key and data of the last blob that was there already

    def put(self, content: Json) -> str:
        """Store the content durably and return its hash."""
        return self.put_bytes(canonical_json(content))

    def put_bytes(self, data: bytes) -> str:
        hash_ = sha256(data)
        self._count(retrying(lambda: self._store(blob_key(hash_), data), policy=self._policy), size=len(data))
        return hash_

    def find(self, content: Json) -> str | None:
        """Return the hash of the content if it is stored and whole, checked as `put` does; else None: put it."""
        data = canonical_json(content)
        hash_ = sha256(data)
        key = blob_key(hash_)
        if not retrying(lambda: self._is_whole(key, data, size=self._size(key)), policy=self._policy):
            return None
        self._count("present", size=len(data))
        return hash_

    def get(self, hash_: str) -> bytes:
        """Return the bytes, with their hash checked. `NotFound`, or `BadInput` (`corrupt_blob`)."""
        return read_blob(self._storage, hash_)

    def sync_known(self) -> None:
        """Make blobs durable that were there already: their publisher may have died, or the power may go, before it
        synced the folder. A write that finds the name taken syncs it (see `write`).
        """
        if self._last_known:
            try:
                self._storage.write(*self._last_known, condition=Absent())
            except Conflict:
                pass

    def exists(self, hash_: str) -> bool:
        """Whether the blob is stored. One that is in the trash is put back."""
        try:
            self._storage.stat(blob_key(hash_))
        except NotFound:
            return restore(self._storage, hash_)
        return True

    def _store(self, key: str, data: bytes) -> str:
        size = self._size(key)
        if size is None:
            try:
                self._storage.write(key, data, condition=Absent())
            except Conflict:
                size = self._size(key)  # another publisher was first
            else:
                return "written"
        if self._is_whole(key, data, size=size):
            return "present"
        # Whoever writes this key writes these bytes: no condition is needed.
        self._storage.write(key, data)
        return "repaired"

    def _is_whole(self, key: str, data: bytes, *, size: int | None) -> bool:
        if size != len(data) or self._is_corrupt(key, data):
            return False
        self._last_known = key, data
        return True

    def _size(self, key: str) -> int | None:
        try:
            return self._storage.stat(key).size
        except NotFound:
            return None

    def _is_corrupt(self, key: str, data: bytes) -> bool:
        if self._random.random() >= self._sample:
            return False
        try:
            return self._storage.read(key) != data
        except NotFound:  # gc has removed it meanwhile
            return True

    def _count(self, what: str, *, size: int) -> None:
        with self._lock:
            setattr(self.tally, what, getattr(self.tally, what) + 1)
            if what != "present":
                self.tally.written_bytes += size


def read_blob(storage: Readable, hash_: str) -> bytes:
    """Return a blob, also from the trash: what gc removed wrongly (see there) can be read until it is back."""
    for key in (blob_key(hash_), trash_key(hash_)):
        try:
            return _checked(storage.read(key), hash_, key=key)
        except NotFound:
            continue
    raise NotFound(blob_key(hash_))


def restore(storage: Storage, hash_: str, *, mirrors: Sequence[Readable] = ()) -> bool:
    """Put a blob back from the trash or a mirror. Return whether one of them had it whole."""
    for source, key in [(storage, trash_key(hash_)), *((mirror, blob_key(hash_)) for mirror in mirrors)]:
        try:
            data = _checked(source.read(key), hash_, key=key)
        except (NotFound, BadInput):
            continue
        try:
            storage.write(blob_key(hash_), data, condition=Absent())
        except Conflict:  # a damaged one is there
            storage.write(blob_key(hash_), data)
        return True
    return False


def _checked(data: bytes, hash_: str, *, key: str) -> bytes:
    if sha256(data) != hash_:
        raise BadInput(f"its {len(data)} bytes do not have this hash", reason="corrupt_blob", source=key)
    return data
