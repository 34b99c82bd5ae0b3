"""The queue of batches of `webmill cc`: from a flag or the settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import click
import msgspec

from webmill.commoncrawl.batch import QUEUE
from webmill.errors import Misconfigured, NotFound
from webmill.infra.address import hide_secrets, scheme_of
from webmill.infra.queue import backends
from webmill.infra.queue.base import Queue, QueueOptions
from webmill.infra.queue.leases import BROKER
from webmill.settings import Settings

F = TypeVar("F", bound=Callable[..., object])
IN_MEMORY = "a queue in memory is lost when this command ends: use sqlite:FILE or amqp://…"


def check_queue_url(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    scheme = scheme_of(url)[0] if url else "sqlite"
    if scheme == "memory":
        raise click.BadParameter(IN_MEMORY)
    if scheme not in backends.QUEUES:
        raise click.BadParameter(f"{hide_secrets(url or '')!r}: use {backends.QUEUES.forms()}")
    return url


def queue_option(command: F) -> F:
    help_ = "Queue of batches: sqlite:FILE or amqp://…  [default: from the settings; for `run`, a file in the output]"
    return click.option("--queue", metavar="URL", callback=check_queue_url, help=help_)(command)


def use_queue(settings: Settings, url: str | None) -> Settings:
    """Return the settings with the queue of the flag, if it is given."""
    replace = msgspec.structs.replace
    return replace(settings, queue=replace(settings.queue, url=url or settings.queue.url))


def open_batch_queue(settings: Settings) -> AbstractContextManager[Queue]:
    if scheme_of(settings.queue.url)[0] == "memory":
        raise Misconfigured(IN_MEMORY)
    return backends.use_queue(settings.queue.url, batch_queue_options(settings), policy=BROKER)


def batch_queue_options(settings: Settings) -> QueueOptions:
    return QueueOptions(name=QUEUE, attempts=settings.queue.attempts, lease=settings.queue.lease)


def require_batch_queue(settings: Settings) -> None:
    """Raise `NotFound` if the queue does not exist: opening a missing file would create an empty queue."""
    try:
        backends.require_queue(settings.queue.url, batch_queue_options(settings))
    except NotFound as error:
        raise NotFound(f"{error}: give the queue that `webmill cc batch` fills with --queue") from error
