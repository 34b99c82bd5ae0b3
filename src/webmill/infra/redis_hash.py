"""Fill a hash in Redis, many fields to a round trip. Needs the extra `redis`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from webmill.errors import Misconfigured, Unavailable


def fill_hash(
    url: str, key: str, pairs: Iterable[tuple[bytes, bytes]], *, batch: int = 500, clear: bool = False
) -> int:
    """How many fields were written. Doing it twice changes nothing; `clear` begins with an empty hash."""
    redis = import_redis()
    source = iter(pairs)
    written = 0
    try:
        with redis.Redis.from_url(url, socket_timeout=30) as client:
            client.ping()
            if clear:
                client.delete(key)
            while fields := dict(islice(source, batch)):
                client.hset(key, mapping=fields)
                written += len(fields)
    except redis.ConnectionError as error:
        raise Unavailable(f"no Redis at {without_password(url)}: {error}") from error
    except redis.RedisError as error:
        raise Misconfigured(f"Redis at {without_password(url)} refused: {error}") from error
    return written


def import_redis() -> Any:  # the optional library has no part in our types
    try:
        import redis
    except ImportError:
        raise Misconfigured("this needs Redis support: pip install 'webmill[redis]'") from None
    return redis


def without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    return scheme + mark + rest.rpartition("@")[2]
