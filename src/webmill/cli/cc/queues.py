"""Where the batches of `webmill cc` are: a flag, or the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from webmill.commoncrawl.batch import QUEUE
from webmill.config import Settings
from webmill.errors import Misconfigured, NotFound
from webmill.infra.queue.base import Queue
from webmill.infra.retry import retrying
from webmill.pipeline.hands import BROKER
from webmill.wiring import open_queue, scheme_of

F = TypeVar("F", bound=Callable[..., object])
IN_MEMORY = "a queue in memory ends with this command: use sqlite:FILE or amqp://…"


def _checked(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    scheme = scheme_of(url)[0] if url else "sqlite"
    if scheme == "memory":
        raise click.BadParameter(IN_MEMORY)
    if scheme not in ("sqlite", "amqp", "amqps", "sqs"):
        raise click.BadParameter(f"{url!r}: use sqlite:FILE or amqp://…")
    return url


def queue_option(command: F) -> F:
    help_ = "sqlite:FILE or amqp://…  [default: as the settings say; of `run`: one in the output]"
    return click.option("--queue", metavar="URL", callback=_checked, help=help_)(command)


def with_queue(settings: Settings, url: str | None) -> Settings:
    """The flag wins."""
    replace = msgspec.structs.replace
    return replace(settings, queue=replace(settings.queue, url=url or settings.queue.url))


@contextmanager
def opened_queue(settings: Settings) -> Iterator[Queue]:
    if scheme_of(settings.queue.url)[0] == "memory":
        raise Misconfigured(IN_MEMORY)
    with closing(retrying(lambda: open_queue(settings.queue, name=QUEUE, folder=Path()), policy=BROKER)) as queue:
        yield queue


def require_queue(settings: Settings) -> None:
    """For who can only look: opening a file that is not there would make one, with nothing in it. NotFound."""
    scheme, file = scheme_of(settings.queue.url)
    if scheme == "sqlite" and not Path(file).exists():
        raise NotFound(f"no queue {file}: name with --queue the one that `webmill cc batch` fills")
