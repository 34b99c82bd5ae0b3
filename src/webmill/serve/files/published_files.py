"""Published versions over HTTP: the pointer `latest.json`, the files of a version, and blobs.

Without Starlette: a dictionary, a few comparisons and two messages. Every file is checked against its hash when it is
read; one that does not match its name or manifest is not sent. Paths are checked before they become keys.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from webmill.errors import BadInput, Conflict, NotFound, WebmillError
from webmill.forgotten import TakenDown
from webmill.infra.storage.base import Stat, chunks_of
from webmill.publish.keys import LATEST
from webmill.publish.types import Pointer, decode_sealed
from webmill.serve.files.file_cache import CachedFile, EncodedFile, FileCache
from webmill.serve.files.file_response import (
    CHANGED,
    PIECE,
    ServedFile,
    content_range,
    file_threads,
    refuse_range,
    send_empty,
    send_file,
)
from webmill.serve.files.published_paths import NOT_PUBLISHED, PublishedFile, PublishedPaths
from webmill.serve.http.codings import IDENTITY, choose_coding
from webmill.serve.http.conditional_requests import (
    UnsatisfiableRange,
    drop_range_unless_get,
    is_not_modified,
    parse_range,
    precondition_fails,
)
from webmill.serve.http.responses import HEADERS_KEY, READ_ONLY_REFUSAL, Header, data_headers, send_error, send_refusal
from webmill.serve.processes.metrics import CACHED, DAMAGED
from webmill.serve.site import Site

log = logging.getLogger(__name__)

FRESH = 60.0  # seconds until a cached file is checked again; for the pointer:
POINTER_FRESH = 1.0
MOST_VERIFIED = 4096
FIRST_SEGMENTS = {"latest.json", "snapshots", "blobs"}


class LargeFile(Struct, frozen=True):
    """A file too large for the cache: sent from the storage each time."""

    file: PublishedFile
    stat: Stat


class PublishedFiles:
    """The ASGI application of published files, with a cache."""

    def __init__(self, site: Site) -> None:
        self._site, self._storage = site, site.versions
        self._cache = FileCache(site.limits.cache_bytes, watch=partial(site.metrics.set, CACHED))
        self._largest = site.limits.cache_bytes // 8
        self._headers: list[Header] = [
            *data_headers(site).items(),
            (b"content-type", b"application/json"),
            (b"vary", b"Accept-Encoding"),
        ]
        self._threads = file_threads()
        self._loading: dict[str, asyncio.Future[CachedFile | LargeFile]] = {}
        self._paths = PublishedPaths(self._storage)
        self._verified: OrderedDict[tuple[str, str], None] = (
            OrderedDict()
        )  # key and etag of files too large for the cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_headers = drop_range_unless_get(scope.get(HEADERS_KEY) or dict(scope["headers"]), scope["method"])
        is_head = scope["method"] == "HEAD"
        if scope["method"] != "GET" and not is_head:
            await send_refusal(send, request_headers, 405, *READ_ONLY_REFUSAL)
            return
        path: str = scope["path"]
        try:
            self._site.closed.refuse_published(path)
            kept: CachedFile | LargeFile | None = self._cache.get(path)
            if kept is None or kept.fresh_until < time.monotonic():  # type: ignore[union-attr]  # no LargeFile is cached
                kept = await self._load_once(scope, path)
            if isinstance(kept, LargeFile):
                await send_file(scope, receive, send, request_headers, self._served_file(kept))
                return
            coding = (
                IDENTITY if b"range" in request_headers else choose_coding(request_headers.get(b"accept-encoding", b""))
            )
            variant = kept.variants.get(coding) or await self._encode(scope, path, kept, coding)
        except WebmillError as error:
            await self._refuse(send, request_headers, path, error)
            return
        if not CONDITIONS.isdisjoint(request_headers):
            await self._send_conditionally(send, request_headers, variant)
        elif len(variant.body) > PIECE and not is_head:
            await self._send_body(send, variant, 200, variant.start["headers"], 0, len(variant.body))
        else:
            await send(variant.start)
            await send(variant.end)

    async def _send_conditionally(
        self, send: Send, request_headers: Mapping[bytes, bytes], variant: EncodedFile
    ) -> None:
        size = len(variant.body)
        headers: list[Header] = variant.start["headers"]
        if precondition_fails(request_headers, variant.etag, None):
            await send_refusal(send, request_headers, 412, CHANGED)
            return
        if is_not_modified(request_headers, variant.etag):
            await send_empty(send, 304, [header for header in headers if header[0] != b"content-length"])
            return
        try:
            wanted = parse_range(request_headers, size, etag=variant.etag)
        except UnsatisfiableRange:
            await refuse_range(send, request_headers, size)
            return
        if not wanted:
            await self._send_body(send, variant, 200, headers, 0, size)
            return
        start, end = wanted
        of_range = [(b"content-length", str(end - start).encode()), content_range(start, end, size)]
        headers = [*(header for header in headers if header[0] != b"content-length"), *of_range]
        await self._send_body(send, variant, 206, headers, start, end)

    async def _send_body(
        self, send: Send, variant: EncodedFile, status: int, headers: list[Header], start: int, end: int
    ) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for at in range(start, end, PIECE):
            piece = variant.body[at : min(at + PIECE, end)]
            await send({"type": "http.response.body", "body": piece, "more_body": at + PIECE < end})

    def _served_file(self, large: LargeFile) -> ServedFile:
        return ServedFile(
            storage=self._storage,
            stat=large.stat,
            etag=f'"{large.file.sha256}"'.encode(),
            headers=[*self._headers, (b"cache-control", large.file.policy)],
            threads=self._threads,
        )

    async def _encode(self, scope: Scope, path: str, kept: CachedFile, coding: str) -> EncodedFile:
        variant = await self._threads.run_more(scope, partial(kept.encode, coding))
        kept.variants[coding] = variant
        if self._cache.get(path) is kept:
            self._cache.put(path, kept)
        return variant

    async def _load_once(self, scope: Scope, path: str) -> CachedFile | LargeFile:
        """Load a file once for concurrent requests, also when the first client disconnects."""
        loading = self._loading.get(path)
        if loading is None:
            loading = asyncio.ensure_future(self._load(scope, path))
            self._loading[path] = loading
            loading.add_done_callback(lambda _: self._loading.pop(path, None))
        return await asyncio.shield(loading)

    async def _load(self, scope: Scope, path: str) -> CachedFile | LargeFile:
        kept = self._cache.get(path)
        try:
            found = await self._threads.run_more(scope, partial(self._read, path, kept))
        except WebmillError:
            self._cache.drop(path)
            raise
        if isinstance(found, CachedFile):
            found.fresh_until = time.monotonic() + (POINTER_FRESH if found.key == LATEST else FRESH)
            self._cache.put(path, found)
        return found

    # --- in a thread

    def _read(self, path: str, kept: CachedFile | None) -> CachedFile | LargeFile:
        file = self._paths.resolve(path)
        stat = self._storage.stat(file.key)
        if kept and kept.stamp == stat.etag:
            return kept
        if stat.size > self._largest:
            self._verify(file, stat)
            return LargeFile(file, stat)
        try:
            data = self._storage.read(file.key, etag=stat.etag)
        except Conflict:
            return self._read(path, None)  # replaced between the two calls; only the pointer can be
        if file.sha256:
            _check_hash(file, hashlib.sha256(data).hexdigest())
        else:
            decode_sealed(data, Pointer, source=file.key)
        headers = [*self._headers, (b"cache-control", file.policy)]
        return CachedFile(file.key, data, stamp=stat.etag, headers=headers, fresh_until=0.0)

    def _verify(self, file: PublishedFile, stat: Stat) -> None:
        """Check the hash of a large file once per version of it."""
        if (file.key, stat.etag) in self._verified:
            return
        digest = hashlib.sha256()
        with self._storage.open(file.key, etag=stat.etag) as stream:
            for chunk in chunks_of(stream):
                digest.update(chunk)
        _check_hash(file, digest.hexdigest())
        self._verified[file.key, stat.etag] = None
        if len(self._verified) > MOST_VERIFIED:
            self._verified.popitem(last=False)

    async def _refuse(self, send: Send, request_headers: Mapping[bytes, bytes], path: str, error: WebmillError) -> None:
        if isinstance(error, BadInput):
            log.error("published file is damaged", extra={"path": path[:200], "why": str(error)})
            self._site.metrics.count(DAMAGED)
            await send_refusal(
                send,
                request_headers,
                500,
                "the stored file is damaged and was not sent; `webmill publish verify` names the damage",
            )
        elif isinstance(error, NotFound) and not isinstance(error, TakenDown):
            await send_refusal(send, request_headers, 404, NOT_PUBLISHED)
        else:
            await send_error(send, request_headers, error, self._site.root)


CONDITIONS = frozenset(
    (b"range", b"if-none-match", b"if-match", b"if-modified-since", b"if-unmodified-since", b"if-range")
)


def _check_hash(file: PublishedFile, found: str) -> None:
    if found != file.sha256:
        raise BadInput(f"its hash is {found}", reason="corrupt_file", source=file.key)
