"""Batches as files in a storage, one each, under names that are derived from the batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from webmill.errors import Conflict
from webmill.infra.sinks.base import Delivered, SinkRow
from webmill.infra.storage.base import Absent, Matches, Storage

Encoder = Callable[[Sequence[SinkRow]], bytes]
Check = Callable[[SinkRow], None]


class FileSink:
    """`encode` returns the same bytes for the same rows. `counts` says whether a file is recorded as delivered."""

    def __init__(
        self,
        storage: Storage,
        encode: Encoder,
        *,
        ending: str,
        counts: Callable[[str], bool],
        check: Check | None = None,
    ) -> None:
        self._storage = storage
        self._encode = encode
        self._ending = ending
        self._counts = counts
        self._check = check

    def check(self, row: SinkRow) -> None:
        """Raise BadInput (wrong_type) when the format has no place for the row."""
        if self._check:
            self._check(row)

    def deliver(self, name: str, rows: Sequence[SinkRow]) -> Delivered:
        key, data = f"{name}.{self._ending}", self._encode(rows)
        self._store(key, data)
        return Delivered(key, len(rows), len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")

    def close(self) -> None:
        pass

    def _store(self, key: str, data: bytes) -> None:
        """Write unless the same bytes are there already. Conflict: other bytes are, and are recorded as delivered."""
        try:
            self._storage.write(key, data, condition=Absent())
        except Conflict:
            there = self._storage.stat(key)
            if there.size == len(data) and self._storage.read(key) == data:
                return
            if self._counts(key):
                message = f"{key} exists with other content: does your function return other rows each time?"
                raise Conflict(message) from None
            self._storage.write(key, data, condition=Matches(there.etag))
