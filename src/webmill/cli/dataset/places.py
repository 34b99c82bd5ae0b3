"""Which folder a dataset's name means, and how its workers reach storages and queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from webmill.infra.queue.backends import open_queue
from webmill.infra.queue.base import Queue, QueueOptions
from webmill.infra.sinks.backends import open_stream
from webmill.infra.storage.backends import locate, open_readable, open_storage
from webmill.pipeline.dataset.folder import FILE_NAME
from webmill.pipeline.dataset.task import Doors
from webmill.settings import HttpSettings

F = TypeVar("F", bound=Callable[..., Any])
ROOT = Path("datasets")


def in_option(command: F) -> F:
    kind = click.Path(file_okay=False, path_type=Path)
    return click.option("--in", "root", type=kind, default=ROOT, show_default=True, help="The folder of datasets.")(
        command
    )


def folder_of(name: str, root: Path) -> Path:
    """A name below the root; or the path of the folder itself."""
    path = Path(name)
    return path.resolve() if (path / FILE_NAME).is_file() else (root / name).resolve()


def doors(http: HttpSettings) -> Doors:
    return Doors(
        storage=open_storage,
        readable=partial(open_readable, contact=http.contact, timeout=http.timeout),
        locate=partial(locate, contact=http.contact, timeout=http.timeout),
        queue=open_named_queue,
        stream=open_stream,
    )


def open_named_queue(url: str, name: str) -> Queue:
    """The path of an SQLite queue is absolute by now."""
    return open_queue(url, QueueOptions(name=name))
