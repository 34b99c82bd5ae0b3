"""The Redis behind a frontier: its errors as ours, our scripts, and what it keeps when it dies."""

from __future__ import annotations

import enum
import importlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

import msgspec

from webmill.errors import Misconfigured, Unavailable
from webmill.infra.redis_hash import import_redis
from webmill.masking import ESCAPE, hide_secrets

log = logging.getLogger(__name__)

TIMEOUT = 30.0
SETTINGS = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save", "maxmemory-policy")
FULL_ERRORS = ("OOM", "MISCONF")  # no memory, or no disk to write to
TRANSIENT_ERRORS = ("LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNKILLABLE")
REPAIR = "CONFIG SET appendonly yes, CONFIG SET appendfsync always, CONFIG SET no-appendfsync-on-rewrite no"

Command = Sequence[bytes | str]


class RedisDurability(enum.StrEnum):
    """What is left of acknowledged steps when Redis or its machine dies."""

    DURABLE = "durable"
    SECOND = "up to one second may be lost"
    NONE = "none"


class WriteRefused(Unavailable):
    """A change was refused before its first write: it is surely not made."""


class RedisServer:
    def __init__(self, url: str, *, timeout: float = TIMEOUT) -> None:
        self.place = hide_secrets(url)
        self._redis = import_redis()
        try:
            self.client = self._redis.Redis.from_url(
                url, socket_timeout=timeout, socket_connect_timeout=timeout, protocol=2, retry=self._retry()
            )
        except ValueError:  # which may say a part of a password
            raise Misconfigured(f"not the address of a Redis: {self.place}: {ESCAPE}") from None
        self._scripts = {
            name: self.client.register_script(read_script(name)) for name in ("apply", "domains", "maybe", "words")
        }

    def _retry(self) -> Any:
        """Return how to retry: at once, for all that changes something is safe to send twice."""
        backoff = importlib.import_module("redis.backoff")
        return importlib.import_module("redis.retry").Retry(backoff.ExponentialBackoff(base=0.05, cap=0.5), 3)

    def close(self) -> None:
        self.client.close()

    def ask(self, *command: bytes | str | float) -> Any:
        with self.errors():
            return self.client.execute_command(*command)

    def ask_all(self, commands: Iterable[Sequence[bytes | str | float]]) -> list[Any]:
        """Send many commands in one round trip; return their answers."""
        with self.errors(), self.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            answers: list[Any] = pipe.execute()
        return answers

    def run(self, script: str, *, keys: Sequence[str] = (), args: Sequence[bytes | str | int] = ()) -> Any:
        with self.errors():
            return self._scripts[script](keys=keys, args=args)

    @contextmanager
    def errors(self) -> Iterator[None]:
        redis = self._redis
        try:
            yield
        except redis.AuthenticationError as error:
            raise Misconfigured(f"Redis at {self.place} refused: {error}") from error
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise Unavailable(f"no Redis at {self.place}: {error}") from error
        except redis.RedisError as error:
            # redis-py cuts the code off the words of some of them and leaves it in the name of the class
            if str(error).startswith(FULL_ERRORS) or isinstance(error, redis.OutOfMemoryError):
                raise WriteRefused(f"Redis at {self.place} cannot write now: {error}") from error
            if str(error).startswith(TRANSIENT_ERRORS) or isinstance(error, redis.ReadOnlyError):
                raise Unavailable(f"Redis at {self.place} cannot write now: {error}") from error
            raise Misconfigured(f"Redis at {self.place} refused: {error}") from error

    def promise(self) -> RedisDurability:
        """Read from its settings; refused with one that forgets keys."""
        settings = self._settings()
        policy = settings["maxmemory-policy"]
        if policy != "noeviction":
            message = f"Redis at {self.place} may forget keys (maxmemory-policy {policy}): "
            raise Misconfigured(message + "CONFIG SET maxmemory-policy noeviction")
        if settings["appendonly"] != "yes" or settings["appendfsync"] == "no":
            return RedisDurability.NONE
        if settings["appendfsync"] == "always" and settings["no-appendfsync-on-rewrite"] == "no":
            return RedisDurability.DURABLE
        return RedisDurability.SECOND

    def _settings(self) -> dict[str, str]:
        """Return its settings. Where CONFIG is forbidden INFO tells less: not how often the log is synced."""
        try:
            answers = self.ask_all(("CONFIG", "GET", name) for name in SETTINGS)
        except Misconfigured as error:
            log.warning("redis_settings_unknown", extra={"why": str(error)})
        else:
            return {as_text(key): as_text(value) for answer in answers for key, value in as_pairs(answer)}
        with self.errors():
            info = self.client.info()
        unknown = {"appendfsync": "unknown", "no-appendfsync-on-rewrite": "unknown", "save": "unknown"}
        log_ = "yes" if int(info.get("aof_enabled", 0)) else "no"
        return {"appendonly": log_, "maxmemory-policy": str(info.get("maxmemory_policy", "unknown")), **unknown}

    def has_bloom(self) -> bool:
        try:
            self.ask("BF.EXISTS", "webmill:none", "none")
        except Misconfigured:
            return False
        return True


def read_script(name: str) -> str:
    return resources.files("webmill.crawl.frontier.redis").joinpath("lua", f"{name}.lua").read_text()


def as_pairs(answer: Any) -> Iterable[tuple[Any, Any]]:
    """Return the pairs of an answer: redis-py makes a dict of some, and leaves others a list."""
    return answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)


def as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def check_durability(server: RedisServer, *, strict: bool) -> RedisDurability:
    promise = server.promise()
    if strict and promise is not RedisDurability.DURABLE:
        raise Misconfigured(f"Redis at {server.place} is not durable ({promise}): {REPAIR}")
    level = logging.INFO if promise is RedisDurability.DURABLE else logging.WARNING
    log.log(level, "frontier_promise", extra={"redis": server.place, "promise": str(promise)})
    return promise


def encode_commands(commands: Iterable[Command]) -> bytes:
    """Encode commands as MessagePack version 1, the only one that Redis reads: text and bytes are one kind."""
    return _encode(
        [[encode_raw(value) if isinstance(value, bytes) else value for value in command] for command in commands]
    )


def encode_raw(value: bytes) -> msgspec.Raw:
    size = len(value)
    return msgspec.Raw((b"\xda" + size.to_bytes(2) if size < 65536 else b"\xdb" + size.to_bytes(4)) + value)


_encode = msgspec.msgpack.Encoder().encode
