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
from webmill.infra.redis_hash import import_redis, without_password

log = logging.getLogger(__name__)

TIMEOUT = 30.0
SETTINGS = ("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save", "maxmemory-policy")
FULL = ("OOM", "MISCONF")  # no memory, or no disk to write to
PASSING = ("LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNKILLABLE")
REPAIR = "CONFIG SET appendonly yes, CONFIG SET appendfsync always, CONFIG SET no-appendfsync-on-rewrite no"

Command = Sequence[bytes | str]


class Promise(enum.StrEnum):
    """What is left of acknowledged steps when Redis or its machine dies."""

    DURABLE = "durable"
    SECOND = "up to one second may be lost"
    NONE = "none"


class Refused(Unavailable):
    """A change was refused before its first write: it is surely not made."""


class Server:
    def __init__(self, url: str, *, timeout: float = TIMEOUT) -> None:
        self.place = without_password(url)
        self._redis = import_redis()
        try:
            self.client = self._redis.Redis.from_url(
                url, socket_timeout=timeout, socket_connect_timeout=timeout, protocol=2, retry=self._retry()
            )
        except ValueError as error:
            raise Misconfigured(f"not the address of a Redis: {self.place}: {error}") from None
        self._scripts = {
            name: self.client.register_script(source(name)) for name in ("apply", "domains", "maybe", "words")
        }

    def _retry(self) -> Any:
        """A connection that was cut is made again at once; all that changes something is safe to send twice."""
        backoff = importlib.import_module("redis.backoff")
        return importlib.import_module("redis.retry").Retry(backoff.ExponentialBackoff(base=0.05, cap=0.5), 3)

    def close(self) -> None:
        self.client.close()

    def ask(self, *command: bytes | str | float) -> Any:
        with self.errors():
            return self.client.execute_command(*command)

    def ask_all(self, commands: Iterable[Sequence[bytes | str | float]]) -> list[Any]:
        """Many questions, one round trip."""
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
            if str(error).startswith(FULL) or isinstance(error, redis.OutOfMemoryError):
                raise Refused(f"Redis at {self.place} cannot write now: {error}") from error
            if str(error).startswith(PASSING) or isinstance(error, redis.ReadOnlyError):
                raise Unavailable(f"Redis at {self.place} cannot write now: {error}") from error
            raise Misconfigured(f"Redis at {self.place} refused: {error}") from error

    def promise(self) -> Promise:
        """Read from its settings; refused with one that forgets keys."""
        settings = self._settings()
        policy = settings["maxmemory-policy"]
        if policy != "noeviction":
            message = f"Redis at {self.place} may forget keys (maxmemory-policy {policy}): "
            raise Misconfigured(message + "CONFIG SET maxmemory-policy noeviction")
        if settings["appendonly"] != "yes" or settings["appendfsync"] == "no":
            return Promise.NONE
        if settings["appendfsync"] == "always" and settings["no-appendfsync-on-rewrite"] == "no":
            return Promise.DURABLE
        return Promise.SECOND

    def _settings(self) -> dict[str, str]:
        """Where CONFIG is forbidden INFO tells less: that there is a log, not how often it is synced."""
        try:
            answers = self.ask_all(("CONFIG", "GET", name) for name in SETTINGS)
        except Misconfigured as error:
            log.warning("redis_settings_unknown", extra={"why": str(error)})
        else:
            return {text(key): text(value) for answer in answers for key, value in pairs(answer)}
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


def source(name: str) -> str:
    return resources.files("webmill.crawl.frontier.redis").joinpath("lua", f"{name}.lua").read_text()


def pairs(answer: Any) -> Iterable[tuple[Any, Any]]:
    """redis-py makes a dict of some answers, and leaves others a list."""
    return answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2], strict=True)


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def promised(server: Server, *, strict: bool) -> Promise:
    promise = server.promise()
    if strict and promise is not Promise.DURABLE:
        raise Misconfigured(f"Redis at {server.place} is not durable ({promise}): {REPAIR}")
    level = logging.INFO if promise is Promise.DURABLE else logging.WARNING
    log.log(level, "frontier_promise", extra={"redis": server.place, "promise": str(promise)})
    return promise


def pack(commands: Iterable[Command]) -> bytes:
    """As MessagePack of its first version, the only one that Redis reads: text and bytes are one kind."""
    return _encode([[raw(value) if isinstance(value, bytes) else value for value in command] for command in commands])


def raw(value: bytes) -> msgspec.Raw:
    size = len(value)
    return msgspec.Raw((b"\xda" + size.to_bytes(2) if size < 65536 else b"\xdb" + size.to_bytes(4)) + value)


_encode = msgspec.msgpack.Encoder().encode
