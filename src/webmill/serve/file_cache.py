"""Published files in memory: loaded and checked once, in the codings that were asked for, within a bound of bytes."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import Message

from webmill.serve.codings import CODINGS, IDENTITY, SMALLEST
from webmill.serve.responses import Header

OVERHEAD = 2048  # bytes of an entry beside its content, about


class EncodedFile:
    """One content in one coding, as it goes out."""

    __slots__ = ("body", "end", "etag", "start")

    def __init__(self, body: bytes, etag: bytes, headers: list[Header]) -> None:
        self.body, self.etag = body, etag
        headers = [*headers, (b"etag", etag), (b"content-length", str(len(body)).encode())]
        self.start: Message = {"type": "http.response.start", "status": 200, "headers": headers}
        self.end: Message = {"type": "http.response.body", "body": body}


class CachedFile:
    """A published file. `stamp` is its etag in the storage."""

    def __init__(self, key: str, data: bytes, *, stamp: str, headers: list[Header], fresh_until: float) -> None:
        self.key, self.stamp, self.headers, self.fresh_until = key, stamp, headers, fresh_until
        self._hash = hashlib.sha256(data).hexdigest()
        self.plain = EncodedFile(data, self._tag(IDENTITY), headers)
        self.variants = {IDENTITY: self.plain}
        if len(data) < SMALLEST:
            self.variants |= dict.fromkeys(CODINGS, self.plain)

    def encode(self, coding: str) -> EncodedFile:
        """Takes its time: for a thread. What does not become smaller stays as it is."""
        body = CODINGS[coding](self.plain.body)
        if len(body) >= len(self.plain.body):
            return self.plain
        return EncodedFile(body, self._tag(coding), [*self.headers, (b"content-encoding", coding.encode())])

    @property
    def size(self) -> int:
        return OVERHEAD + sum(len(one.body) for one in set(self.variants.values()))

    def _tag(self, coding: str) -> bytes:
        """Strong: another for each coding, the same on every machine."""
        return f'"{self._hash}{"-" * bool(coding)}{coding}"'.encode()


class FileCache:
    """Those asked for last, up to `bound` bytes. For one thread."""

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
        """Also when it has grown by a coding."""
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
