"""The queue of batches of `webmill cc`: from a flag or the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

import click
import msgspec

from webmill.cli.context import note_once
from webmill.commoncrawl.batch import QUEUE
from webmill.errors import Misconfigured, NotFound
from webmill.infra.address import scheme_of
from webmill.infra.queue import backends
from webmill.infra.queue.base import BrokerQueueType, Queue, QueueOptions
from webmill.infra.queue.leases import BROKER
from webmill.masking import hide_secrets
from webmill.settings import Settings

F = TypeVar("F", bound=Callable[..., object])
CONNECTION_VARIABLE = "RABBITMQ_CONNECTION_STRING"  # of commoncrawl-pipeline
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


def queue_type_option(command: F) -> F:
    help_ = (
        "Type of a new RabbitMQ queue; classic is not durable, for workers of commoncrawl-pipeline  [default: quorum]"
    )
    return click.option("--queue-type", type=click.Choice(["quorum", "classic"]), help=help_)(command)


def use_queue(settings: Settings, url: str | None, kind: BrokerQueueType | None = None) -> Settings:
    """Return the settings with the queue of the flags, if they are given."""
    replace = msgspec.structs.replace
    given = settings.queue
    note_unused_connection(url or given.url, os.environ)
    return replace(settings, queue=replace(given, url=url or given.url, type=kind or given.type))


def note_unused_connection(url: str, environment: Mapping[str, str]) -> None:
    """Note that the variable of commoncrawl-pipeline is set, but not used."""
    if environment.get(CONNECTION_VARIABLE) not in (None, "", url):
        note_once(
            f'{CONNECTION_VARIABLE} is not used: give --queue "${CONNECTION_VARIABLE}", or use cc-batcher and cc-worker'
        )


def open_batch_queue(settings: Settings) -> AbstractContextManager[Queue]:
    if scheme_of(settings.queue.url)[0] == "memory":
        raise Misconfigured(IN_MEMORY)
    return backends.use_queue(settings.queue.url, batch_queue_options(settings), policy=BROKER)


def batch_queue_options(settings: Settings) -> QueueOptions:
    given = settings.queue
    return QueueOptions(name=QUEUE, attempts=given.attempts, lease=given.lease, type=given.type)


def require_batch_queue(settings: Settings) -> None:
    """Raise `NotFound` if the queue does not exist: opening a missing file would create an empty queue."""
    try:
        backends.require_queue(settings.queue.url, batch_queue_options(settings))
    except NotFound as error:
        raise NotFound(f"{error}: give the queue that `webmill cc batch` fills with --queue") from error
