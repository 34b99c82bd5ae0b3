"""A storage in S3 or a store that speaks its language, shared by machines. Needs the extra `s3`.

Conditions are If-None-Match and If-Match. Stores exist that ignore them and overwrite: `probe_conditional_writes` finds
out, and must be called before anything is built on a condition. A conditional write is sent once: if it were sent
again after a lost answer, it could meet its own success and call that a `Conflict`.
"""

from __future__ import annotations

import io
import os
import re
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import chain
from typing import Any, BinaryIO, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.infra.files import RESERVED
from webmill.infra.request_outcome import AccessRefused, SlowDown
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import (
    CHUNK,
    Absent,
    Condition,
    Data,
    Matches,
    RawStream,
    Stat,
    StorageOptions,
    buffer_stream,
    check_key,
    check_range,
    check_read,
    chunks_of,
    end_of_range,
    open_data,
)
from webmill.infra.storage.retrying import Retrying
from webmill.infra.storage.walk import Entry, is_listed, walk

PART = 8 << 20  # one part of a multipart upload and one request of a download; 10,000 parts make 78 GiB
PARTS_AT_ONCE = 4
CONDITIONAL_LIMIT = 64 << 20  # a conditional write is one request, held in memory
_STATUS = re.compile(r"status code: (\d{3})")
# The client would take HTTP_PROXY and its kin from the environment: it is given a proxy that every host is exempt from.
_NO_PROXY = {"proxy_url": "http://127.0.0.1:9", "proxy_excludes": "*,0.0.0.0/0,::/0"}


class S3Options(Struct, frozen=True, kw_only=True):
    """Without keys the usual places are asked for them: AWS_* variables, web identity, the machine's role."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None  # None: Amazon
    region: str = "us-east-1"
    access_key: str | None = None
    secret_key: str | None = None
    proxy: str | None = None  # proxy variables of the environment are not used

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`s3://[ACCESS:SECRET@]BUCKET[/PREFIX][?endpoint=http://HOST:PORT][&region=NAME][&proxy=URL]`"""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        bucket = parts.netloc.rpartition("@")[2]
        unknown = options.keys() - {"endpoint", "region", "proxy"}
        if parts.scheme != "s3" or not bucket or unknown or parts.fragment:
            raise Misconfigured(f"not an S3 address: use {cls.from_url.__doc__}")
        return cls(
            bucket=bucket,
            prefix=unquote(parts.path).strip("/"),
            access_key=_decoded(parts.username),
            secret_key=_decoded(parts.password),
            **options,
        )

    def __repr__(self) -> str:
        return f"S3Options(bucket={self.bucket!r}, prefix={self.prefix!r}, endpoint={self.endpoint!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """No secret here either: this is what a printed traceback shows."""
        return [("bucket", self.bucket), ("prefix", self.prefix), ("endpoint", self.endpoint)]


def open_s3(url: str, _options: StorageOptions) -> Retrying:
    return Retrying(S3Storage(S3Options.from_url(url)), policy=BackoffPolicy())


def probe(url: str) -> None:
    """Raise `Misconfigured` for a store that ignores conditions."""
    S3Storage(S3Options.from_url(url)).probe_conditional_writes()


class S3Storage:
    """`retries`: how often the client itself tries again. 0 below a limiter, which would not see those requests."""

    def __init__(self, options: S3Options, *, retries: int = 3) -> None:
        self._where = f"s3://{options.bucket}/{options.prefix}"
        if options.prefix:
            check_key(options.prefix)
        self._store = _connect(options, retries=retries)
        self._once = _connect(options, retries=0)

    def stat(self, key: str) -> Stat:
        return self._stat(check_key(key), etag=None)

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        check_key(key)
        check_range(start, length)
        check_read(key, length or 0)
        if length == 0:  # cannot be asked for
            end_of_range(start, length, stat=self._stat(key, etag=etag))
            return b""
        return self._read(key, start=start, length=length, etag=etag)

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        stat = self._stat(check_key(key), etag=etag)
        return buffer_stream(
            _PartStream(self._read, stat=stat, start=start, end=end_of_range(start, length, stat=stat))
        )

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        check_key(key)
        with open_data(data) as source:
            return self._write_if(key, source, condition) if condition else self._write(key, source)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        return walk(self._entries, prefix=prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        try:
            with _errors(self._name(check_key(key))):
                self._store.delete(key)
        except NotFound:
            pass

    def probe_conditional_writes(self) -> None:
        """Try with a key of its own whether this store keeps the promises of `write`; `Misconfigured` if not."""
        key = f"{RESERVED}probe/{secrets.token_hex(8)}"
        try:
            with ThreadPoolExecutor(8) as threads:
                created = sum(threads.map(lambda _: self._try_write(key, Absent()), range(8)))
            first = Matches(self._stat(key, etag=None).etag)
            updated = [self._try_write(key, first), self._try_write(key, first)]
        except WebmillError:
            with suppress(WebmillError), _errors(key):  # what went wrong first is what the operator must know
                self._store.delete(key)
            raise
        with _errors(key):
            self._store.delete(key)
        if created != 1 or updated != [True, False]:
            raise Misconfigured(
                f"{self._where}: this store does not honour If-None-Match and If-Match, so two writers would overwrite "
                "each other unseen; use Amazon S3, SeaweedFS, MinIO, Cloudflare R2 or another store that does"
            )

    def _try_write(self, key: str, condition: Condition) -> bool:
        try:
            self._write_if(key, io.BytesIO(secrets.token_bytes(8)), condition)
        except Conflict:
            return False
        return True

    def _stat(self, key: str, *, etag: str | None) -> Stat:
        with _errors(self._name(key)):
            stat = _stat_of(self._store.head(key))
        if etag and etag != stat.etag:
            raise Conflict(f"{self._name(key)} is another value by now")
        return stat

    def _read(self, key: str, *, start: int, length: int | None, etag: str | None) -> bytes:
        try:
            with _errors(self._name(key)):
                answer = self._store.get(key, options=_get_options(start=start, length=length, etag=etag))
                expected = end_of_range(start, length, stat=_stat_of(answer.meta)) - start
                check_read(key, expected)
                data = bytes(answer.bytes())
            if len(data) != expected:
                raise Unavailable(f"{key}: {len(data)} bytes instead of {expected}")
        except SlowDown:
            raise
        except Unavailable:
            # Status 416 has no error class of its own: a range beyond the end, or from the end to the end.
            if end_of_range(start, length, stat=self._stat(key, etag=etag)) > start:
                raise
            return b""
        return data

    def _write(self, key: str, source: BinaryIO) -> Stat:
        parts = _CountedParts(chunks_of(source, PART))
        first = next(parts, b"")
        second = next(parts, None)
        with _errors(self._name(key), missing=self._where):
            if second is None:
                result = self._store.put(key, first, use_multipart=False)
            else:
                every = chain((first, second), parts)
                result = self._store.put(key, every, chunk_size=PART, max_concurrency=PARTS_AT_ONCE)
        return Stat(key=key, size=parts.size, etag=result["e_tag"] or "")

    def _write_if(self, key: str, source: BinaryIO, condition: Condition) -> Stat:
        data = b"".join(chunks_of(source, CHUNK, most=CONDITIONAL_LIMIT + 1))
        if len(data) > CONDITIONAL_LIMIT:
            raise BadInput(f"more than {CONDITIONAL_LIMIT} bytes with a condition", reason="too_large", source=key)
        mode = {"e_tag": condition.etag} if isinstance(condition, Matches) else "create"
        try:
            with _errors(self._name(key), missing=self._where):
                result = self._once.put(key, data, mode=mode, use_multipart=False)
        except Conflict:
            if isinstance(condition, Absent):
                self._check_there(key)
            raise
        return Stat(key=key, size=len(data), etag=result["e_tag"] or "")

    def _name(self, key: str) -> str:
        """Return the address of a key, for messages: a key alone does not say in which bucket it is missing."""
        return f"{self._where.rstrip('/')}/{key}"

    def _check_there(self, key: str) -> None:
        """Raise Unavailable when nothing is there: Amazon also answers 409 after a race with a delete."""
        try:
            self._stat(key, etag=None)
        except NotFound as error:
            raise Unavailable(f"{key}: the store was busy with this key") from error

    def _entries(self, folder: str) -> Iterator[Entry]:
        with _errors(folder, missing=self._where):
            found = self._store.list_with_delimiter(folder.rstrip("/") or None)
        for path in found["common_prefixes"]:
            if is_listed(path):
                yield f"{path}/".encode(), None
        for meta in found["objects"]:
            if is_listed(meta["path"]) and not self._is_folder_marker(meta):
                yield meta["path"].encode(), _stat_of(meta)

    def _is_folder_marker(self, meta: dict[str, Any]) -> bool:
        """Return whether this is an empty object `a/`, kept for a folder, which the client lists as `a`."""
        if meta["size"]:
            return False
        try:
            self._stat(meta["path"], etag=None)
        except NotFound:
            return True
        return False


class _PartStream(RawStream):
    """One request for each part: no connection waits for a slow reader, and each part is of the same etag."""

    def __init__(self, read: Callable[..., bytes], *, stat: Stat, start: int, end: int) -> None:
        self._read, self._stat, self._at, self._end = read, stat, start, end
        self._part = memoryview(b"")

    def _next(self, most: int) -> bytes:
        if not self._part and self._at < self._end:
            length = min(PART, self._end - self._at)
            self._part = memoryview(self._read(self._stat.key, start=self._at, length=length, etag=self._stat.etag))
            self._at += length
        data, self._part = self._part[:most], self._part[most:]
        return bytes(data)


class _CountedParts:
    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self.size = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        part = next(self._parts)
        self.size += len(part)
        return part


def _decoded(text: str | None) -> str | None:
    return unquote(text) if text else None


def _get_options(*, start: int, length: int | None, etag: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {"if_match": etag} if etag else {}
    if length is not None:
        options["range"] = (start, start + length)
    elif start:
        options["range"] = {"offset": start}
    return options


def _stat_of(meta: dict[str, Any]) -> Stat:
    return Stat(key=meta["path"], size=meta["size"], etag=meta["e_tag"] or "", modified=meta["last_modified"])


def _connect(options: S3Options, *, retries: int) -> Any:
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise Misconfigured("S3 needs an extra: pip install 'webmill[s3]'") from error
    config = {
        "endpoint": options.endpoint,
        "access_key_id": options.access_key,
        "secret_access_key": options.secret_key,
        "prefix": options.prefix or None,
    }
    client: dict[str, Any] = {
        "allow_http": (options.endpoint or "").startswith("http:"),
        "connect_timeout": timedelta(seconds=10),
        "timeout": timedelta(seconds=120),
        **({"proxy_url": options.proxy} if options.proxy else _NO_PROXY),
    }
    connect: Any = S3Store  # its types want literals
    with _errors(f"s3://{options.bucket}"):
        return connect(
            options.bucket,
            region=options.region,
            client_options=client,
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=60)},
            **{name: value for name, value in config.items() if value},
        )


class _ClientThreads:
    """Refuses use in a fork, where every call would hang: the client's threads belong to the first process."""

    owner: int | None = None

    @classmethod
    def check(cls) -> None:
        cls.owner = cls.owner or os.getpid()
        if cls.owner != os.getpid():
            raise Misconfigured("S3 was used before this process was forked; start processes by spawn or forkserver")


@contextmanager
def _errors(what: str, *, missing: str | None = None) -> Iterator[None]:
    """Raise errors of the client as ours. `missing` names the bucket where "not found" can only mean that."""
    from obstore.exceptions import BaseError

    _ClientThreads.check()
    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        raise _as_webmill_error(error, what=what, missing=missing) from error


def _as_webmill_error(error: Exception, *, what: str, missing: str | None) -> WebmillError:
    from obstore import exceptions as theirs

    message = str(error).partition("\n")[0]
    status = _STATUS.search(message)
    number = status[1] if status else ""  # a failed listing has no error class
    if isinstance(error, FileNotFoundError | theirs.NotFoundError) or number == "404":
        return Misconfigured(f"{missing}: no such bucket; create it") if missing else NotFound(f"{what}: not found")
    if isinstance(error, theirs.AlreadyExistsError | theirs.PreconditionError):
        return Conflict(f"{what} is another value by now")
    if isinstance(error, theirs.PermissionDeniedError | theirs.UnauthenticatedError) or number in ("401", "403"):
        refused = AccessRefused if number == "403" else Misconfigured
        return refused(f"{message}; check the keys and what they may do")
    if isinstance(error, theirs.NotSupportedError | theirs.UnknownConfigurationKeyError | ValueError):
        return Misconfigured(f"{what}: {message}; check the settings of the store")
    return SlowDown(message) if number in ("429", "503") else Unavailable(message)
