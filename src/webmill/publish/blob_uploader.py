"""Several uploads of blobs at once: a disk syncs many files in the time of a few, and a bucket is far away."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from webmill.publish.keys import sha256


class BlobUploader:
    """`put` returns the hash at once; what was put is stored after `flush`, which raises what went wrong.

    With one writer, everything is stored when `put` returns.
    """

    def __init__(self, store: Callable[[bytes], str], *, writers: int) -> None:
        self._store = store
        self._max_pending = 4 * writers
        self._pool = ThreadPoolExecutor(writers, thread_name_prefix="webmill-blobs") if writers > 1 else None
        self._pending: deque[Future[str]] = deque()

    def put(self, data: bytes) -> str:
        if not self._pool:
            return self._store(data)
        while len(self._pending) >= self._max_pending:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(self._store, data))
        return sha256(data)

    def flush(self) -> None:
        while self._pending:
            self._pending.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)
