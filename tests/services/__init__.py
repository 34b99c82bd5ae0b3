"""Real servers for tests, and the one place that lists them."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.services.base import CannotStart, Running

# Each module has ENV (names a server that is running already) and start(folder) (starts a private one).
MODULES = {
    "opensearch": "opensearch",  # the first: it starts while the others do
    "redis": "redis",
    "rabbitmq": "rabbitmq",
    "postgres": "postgres",
    "s3": "seaweedfs",
    "aws": "moto_server",
    "meilisearch": "meilisearch",
}

__all__ = ["MODULES", "CannotStart", "Running", "started", "url_of"]


@contextmanager
def started(name: str, **options: Any) -> Iterator[Running]:
    """A private server for as long as the block lasts; `options` are those of its `start`."""
    folder = Path(tempfile.mkdtemp(prefix=f"webmill-{name}-"))
    server: Running | None = None
    try:
        server = importlib.import_module(f"tests.services.{MODULES[name]}").start(folder, **options)
        yield server
    finally:
        if server:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def url_of(name: str) -> Iterator[str]:
    """The URL of the server that the environment names, else of a private one."""
    given = os.environ.get(setting_of(name))
    if given:
        yield given
        return
    with started(name) as server:
        yield server.url


def setting_of(name: str) -> str:
    setting: str = importlib.import_module(f"tests.services.{MODULES[name]}").ENV
    return setting
