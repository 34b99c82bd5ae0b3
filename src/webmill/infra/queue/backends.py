"""Which queue an address names: sqlite:FILE · memory: · amqp(s)://… · sqs://NAME.fifo?region=…

To add one: a function that takes the address and `QueueOptions`, and its line in `QUEUES`; or, from another package,
an entry point of the group `webmill.queue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TypeAlias

from webmill.infra.address import scheme_of
from webmill.infra.queue.base import Queue, QueueOptions, ReadableQueue
from webmill.infra.registry import Registry
from webmill.infra.retry import BackoffPolicy, retrying

OpenQueue: TypeAlias = Callable[[str, QueueOptions], Queue]
ViewQueue: TypeAlias = Callable[[str, QueueOptions], AbstractContextManager[ReadableQueue]]

QUEUES = Registry[OpenQueue](
    "queue",
    {
        "sqlite": "webmill.infra.queue.sqlite:open_sqlite",
        "memory": "webmill.infra.queue.memory:open_memory",
        "amqp": "webmill.infra.queue.rabbitmq:open_rabbitmq",
        "amqps": "webmill.infra.queue.rabbitmq:open_rabbitmq",
        "sqs": "webmill.infra.queue.sqs:open_sqs",
    },
    group="webmill.queue",
    forms="sqlite:FILE, amqp(s)://…, sqs://NAME.fifo or memory:",
)
# Queues that opening would create or change; others are opened to be viewed.
VIEWS = Registry[ViewQueue]("queue", {"sqlite": "webmill.infra.queue.sqlite_reader:view_sqlite"})
ONCE = BackoffPolicy(attempts=1)


def open_queue(url: str, options: QueueOptions) -> Queue:
    return QUEUES.find(scheme_of(url)[0])(url, options)


@contextmanager
def use_queue(url: str, options: QueueOptions, *, policy: BackoffPolicy = ONCE) -> Iterator[Queue]:
    """Open a queue, with the retries of `policy`, and close it."""
    with closing(retrying(lambda: open_queue(url, options), policy=policy)) as queue:
        yield queue


def view_queue(
    url: str, options: QueueOptions, *, policy: BackoffPolicy = ONCE
) -> AbstractContextManager[ReadableQueue]:
    """Open a queue read-only, without creating it. `NotFound`: there is none, as far as can be known so."""
    view = VIEWS.get(scheme_of(url)[0])
    return view(url, options) if view else use_queue(url, options, policy=policy)


def require_queue(url: str, options: QueueOptions) -> None:
    """Raise `NotFound` as `view_queue` does: for callers who must not create a queue by opening it."""
    view = VIEWS.get(scheme_of(url)[0])
    if view:
        with view(url, options):
            pass


@contextmanager
def existing_queue(url: str, options: QueueOptions) -> Iterator[Queue]:
    """Open a queue that exists, to change something in it. `NotFound` as of `require_queue`."""
    require_queue(url, options)
    with use_queue(url, options) as queue:
        yield queue
