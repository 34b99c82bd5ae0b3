"""Fill a hash in Redis, many fields to a round trip. Needs the extra `redis`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from webmill.errors import Misconfigured, Unavailable
from webmill.masking import ESCAPE, hide_secrets

TIMEOUT = 30.0
CLUSTER = "+cluster://"


def fill_hash(
    url: str, key: str, pairs: Iterable[tuple[bytes, bytes]], *, batch: int = 500, timeout: float = TIMEOUT
) -> int:
    """Set these fields and leave others; return how many pairs were sent. Doing it twice changes nothing."""
    with connect(url, timeout=timeout) as client:
        return _fill(client, key, pairs, batch=batch)


def replace_hash(
    url: str, key: str, pairs: Iterable[tuple[bytes, bytes]], *, batch: int = 500, timeout: float = TIMEOUT
) -> int:
    """Replace the hash by one with these fields, filled aside and renamed: readers see the old or the new one."""
    aside = f"{key}.new" if "{" in key else f"{{{key}}}.new"  # in a cluster both must have one slot
    with connect(url, timeout=timeout) as client:
        if (kind := client.type(key)) not in (b"none", b"hash", "none", "hash"):
            raise Misconfigured(f"the key {key} is in use for something else ({kind!r}): choose another one")
        client.delete(aside)
        try:
            count = _fill(client, aside, pairs, batch=batch)
            if count:
                client.rename(aside, key)
            else:
                client.delete(key)
        except BaseException:
            client.delete(aside)
            raise
    return count


def _fill(client: Any, key: str, pairs: Iterable[tuple[bytes, bytes]], *, batch: int) -> int:
    source = iter(pairs)
    count = 0
    while some := list(islice(source, batch)):
        client.hset(key, mapping=dict(some))
        count += len(some)
    return count


@contextmanager
def connect(url: str, *, timeout: float) -> Iterator[Any]:
    """Yield a client that has answered a ping. Addresses as in redis-py, and `redis+cluster://…` for a cluster."""
    redis = import_redis()
    place = hide_secrets(url)
    try:
        with _client(redis, url, timeout=timeout) as client:
            client.ping()
            yield client
    except redis.AuthenticationError as error:
        raise Misconfigured(f"Redis at {place} refused: {error}") from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise Unavailable(f"no Redis at {place}: {error}") from error
    except redis.RedisError as error:
        raise Misconfigured(f"Redis at {place} refused: {error}") from error


def _client(redis: Any, url: str, *, timeout: float) -> Any:
    try:
        if CLUSTER in url:
            return redis.RedisCluster.from_url(url.replace(CLUSTER, "://", 1), socket_timeout=timeout)
        return redis.Redis.from_url(url, socket_timeout=timeout)
    except ValueError:  # which may say a part of a password
        raise Misconfigured(f"not the address of a Redis: {hide_secrets(url)}: {ESCAPE}") from None


def import_redis() -> Any:  # the optional library has no part in our types
    try:
        import redis
    except ImportError:
        raise Misconfigured("this needs Redis support: pip install 'webmill[redis]'") from None
    return redis
