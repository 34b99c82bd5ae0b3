"""A bounded cache of published files, checked once and kept in each coding that was requested."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import Message

from webmill.serve.http.codings import CODINGS, IDENTITY, SMALLEST
from webmill.serve.http.responses import Header

OVERHEAD = 2048  # bytes of an entry besides its content, roughly


class EncodedFile:
    """A file in one content coding, ready to send."""

    __slots__ = ("body", "end", "etag", "start")

    def __init__(self, body: bytes, etag: bytes, headers: list[Header]) -> None:
        self.body, self.etag = body, etag
        headers = [*headers, (b"etag", etag), (b"content-length", str(len(body)).encode())]
        self.start: Message = {"type": "http.response.start", "status": 200, "headers": headers}
        self.end: Message = {"type": "http.response.body", "body": body}


class CachedFile:
    """A published file with its encodings. `stamp` is its etag in the storage."""

    def __init__(self, key: str, data: bytes, *, stamp: str, headers: list[Header], fresh_until: float) -> None:
        self.key, self.stamp, self.headers, self.fresh_until = key, stamp, headers, fresh_until
        self._hash = hashlib.sha256(data).hexdigest()
        self.plain = EncodedFile(data, self._tag(IDENTITY), headers)
        self.variants = {IDENTITY: self.plain}
        if len(data) < SMALLEST:
            self.variants |= dict.fromkeys(CODINGS, self.plain)

    def encode(self, coding: str) -> EncodedFile:
        """Return the file in this coding, or as it is if that is not smaller. Slow: call it in a thread."""
        body = CODINGS[coding](self.plain.body)
        if len(body) >= len(self.plain.body):
            return self.plain
        return EncodedFile(body, self._tag(coding), [*self.headers, (b"content-encoding", coding.encode())])

    @property
    def size(self) -> int:
        return OVERHEAD + sum(len(one.body) for one in set(self.variants.values()))

    def _tag(self, coding: str) -> bytes:
        """Return a strong etag, different for each coding and the same on every machine."""
        return f'"{self._hash}{"-" * bool(coding)}{coding}"'.encode()


class FileCache:
    """The most recently requested files, up to `bound` bytes. Not thread-safe."""

    def __init__(self, bound: int, *, watch: Callable[[int], None]) -> None:
        self._bound, self._watch = bound, watch
        self._kept: OrderedDict[str, tuple[CachedFile, int]] = OrderedDict()
        self._size = 0

    def get(self, path: str) -> CachedFile | None:
        found = self._kept.get(path)
        if found is None:
            return None
        self._kept.move_to_end(path)
        return found[0]

    def put(self, path: str, kept: CachedFile) -> None:
        """Add a file, or update its size after another coding was added."""
        self.drop(path)
        size = kept.size
        self._kept[path] = kept, size
        self._size += size
        while self._size > self._bound:
            self._size -= self._kept.popitem(last=False)[1][1]
        self._watch(self._size)

    def drop(self, path: str) -> None:
        found = self._kept.pop(path, None)
        self._size -= found[1] if found else 0
