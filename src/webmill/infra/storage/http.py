"""Reading over HTTP and HTTPS: Common Crawl, other people's archives, a collection behind a web server.

Which answers are believed, and what a status means: `http_answers.py`. Proxies, cookies and credentials of the
environment are not used.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import BinaryIO, Self
from urllib.parse import quote

import urllib3
from msgspec import Struct
from urllib3.exceptions import HTTPError

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import (
    CHUNK,
    RawStream,
    Stat,
    StorageOptions,
    buffer_stream,
    check_key,
    check_range,
    check_read,
)
from webmill.infra.storage.http_answers import (
    ReadRequest,
    describe_failure,
    error_for_status,
    etag_of,
    is_http,
    parse_date,
    parse_number,
    resolve_redirect,
)
from webmill.infra.storage.http_deadline import deadline, open_pool
from webmill.infra.storage.retrying import RetryingReads
from webmill.infra.user_agent import user_agent
from webmill.masking import hide_secrets

_REDIRECTS = {301, 302, 303, 307, 308}


class HttpReadLimits(Struct, frozen=True, kw_only=True):
    """Limits of one read, in seconds. Only time spent waiting for the server counts, not the caller's."""

    connect: float = 10.0
    silence: float = 30.0  # without a byte
    total: float = 120.0  # for one answer …
    slowest: int = 16 << 10  # … plus the time that its bytes take at this rate (bytes per second)
    redirects: int = 5


def open_http(url: str, options: StorageOptions) -> RetryingReads:
    storage = HttpStorage(url, user_agent=user_agent(options.contact), limits=HttpReadLimits(total=options.timeout))
    return RetryingReads(storage, policy=BackoffPolicy())


class HttpStorage:
    """`Readable` below a base URL. Threads may share it: connections are kept and reused."""

    def __init__(
        self,
        base_url: str,
        *,
        user_agent: str,
        limits: HttpReadLimits | None = None,
        proxy: str | None = None,
        connections: int = 8,
        on_redirect: Callable[[], None] | None = None,  # called before a redirect is followed: one request more
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not is_http(base_url):
            raise Misconfigured(f"not an http or https address: {hide_secrets(base_url)}")
        self.base_url = base_url.rstrip("/") + "/"
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._limits = limits or HttpReadLimits()
        self._on_redirect = on_redirect or (lambda: None)
        self._clock = clock
        self._pool = open_pool(proxy=proxy, connections=connections)

    def close(self) -> None:
        self._pool.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stat(self, key: str) -> Stat:
        with closing(self._ask("HEAD", check_key(key), {})) as answer:
            if answer.status != 200:
                raise error_for_status(answer, key=key)
            size = parse_number(answer.headers.get("Content-Length"))
            if size is None:
                raise Misconfigured(f"{key}: the server does not send a Content-Length")
            answer.release_conn()
            return Stat(
                key=key, size=size, etag=etag_of(answer), modified=parse_date(answer.headers.get("Last-Modified"))
            )

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        check_read(key, length or 0)
        with self._open(key, start=start, length=length, etag=etag) as body:
            check_read(key, body.left or 0)
            return b"".join(_check_each_part(body.parts(), key=key))

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        return buffer_stream(self._open(key, start=start, length=length, etag=etag))

    def _open(self, key: str, *, start: int, length: int | None, etag: str | None) -> _Body:
        check_range(start, length)
        wanted = ReadRequest(key=check_key(key), start=start, length=length, etag=etag)
        answer = self._ask("HEAD" if length == 0 else "GET", key, wanted.headers())
        try:
            left = wanted.check(answer)
        except BaseException:
            answer.close()  # the connection too: its body is not read
            raise
        return _Body(answer, key=key, left=left, limits=self._limits, clock=self._clock)

    def _ask(self, method: str, key: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        url = self.base_url + quote(key, safe="/~")
        for _ in range(self._limits.redirects + 1):
            answer = self._request(method, url, headers)
            if answer.status not in _REDIRECTS:
                return answer
            answer.close()
            url = resolve_redirect(url, answer.headers.get("Location", ""))
            self._on_redirect()
        raise Misconfigured(f"{key}: more than {self._limits.redirects} redirects; give the address they lead to")

    def _request(self, method: str, url: str, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        try:
            with deadline(self._limits.total):
                return self._pool.request(
                    method,
                    url,
                    headers={**self._headers, **headers},
                    timeout=urllib3.Timeout(connect=self._limits.connect, read=self._limits.silence),
                    preload_content=False,
                    decode_content=False,
                    redirect=False,
                    retries=False,
                )
        except HTTPError as error:
            raise Unavailable(f"{url}: the server does not answer: {describe_failure(error)}") from error


class _Body(RawStream):
    def __init__(
        self,
        answer: urllib3.BaseHTTPResponse,
        *,
        key: str,
        left: int | None,
        limits: HttpReadLimits,
        clock: Callable[[], float],
    ) -> None:
        self.left = left  # None: until the chunks end
        self._answer, self._key, self._clock = answer, key, clock
        self._limits = limits
        self._patience = limits.total  # seconds of waiting

    def _next(self, most: int) -> bytes:
        if self.left == 0:
            return b""
        data = self._read(most if self.left is None else min(most, self.left))
        if self.left is not None:
            if not data:
                raise Unavailable(f"{self._key}: the body ended {self.left} bytes early")
            self.left -= len(data)
        return data

    def _read(self, most: int) -> bytes:
        began = self._clock()
        try:
            with deadline(self._patience):  # the length of a chunk may drip
                data = self._answer.read1(most)  # one read of the socket: the deadline is checked after each
        except HTTPError as error:
            raise Unavailable(f"{self._key}: the answer broke off: {describe_failure(error)}") from error
        self._patience += len(data) / self._limits.slowest - (self._clock() - began)
        if self._patience < 0:
            raise Unavailable(f"{self._key}: slower than {self._limits.slowest} bytes a second")
        return data

    def parts(self) -> Iterator[bytes]:
        return iter(lambda: self._next(CHUNK), b"")

    def close(self) -> None:
        """A body that was not read to its end costs its connection."""
        if not self.closed:
            self._answer.close()
        super().close()


def _check_each_part(parts: Iterable[bytes], *, key: str) -> Iterator[bytes]:
    """Yield the parts of a body of unknown size; BadInput when they are more than `read` may return."""
    size = 0
    for part in parts:
        size += len(part)
        check_read(key, size)
        yield part
