"""Batches as files in a storage, one each, under names that are derived from the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from webmill.errors import Conflict
from webmill.infra.sinks.base import Delivered, Row
from webmill.infra.storage.base import Absent, Matches, Storage

Encoder = Callable[[Sequence[Row]], bytes]


class FileSink:
    """`encode` gives the same bytes for the same rows."""

    def __init__(self, storage: Storage, encode: Encoder, *, ending: str) -> None:
        self._storage = storage
        self._encode = encode
        self._ending = ending

    def check(self, row: Row) -> None:
        """A file takes all."""

    def deliver(self, name: str, rows: Sequence[Row]) -> Delivered:
        key, data = f"{name}.{self._ending}", self._encode(rows)
        store(self._storage, key, data)
        return Delivered(key, len(rows), len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")

    def close(self) -> None:
        pass


def store(storage: Storage, key: str, data: bytes) -> None:
    """Nothing is written when the same bytes are there already."""
    try:
        storage.write(key, data, condition=Absent())
    except Conflict:
        there = storage.stat(key)
        if there.size != len(data) or storage.read(key) != data:
            storage.write(key, data, condition=Matches(there.etag))
