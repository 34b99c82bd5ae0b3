"""How boards are read: flags of `publish run` and `publish work`, and the process that does it."""

from __future__ import annotations

import logging
import pickle
import select
import threading
import time
from contextlib import closing
from functools import partial

import click
import msgspec

from webmill.boards.reader import BoardReader
from webmill.boards.types import BoardLimits, ReaderOptions, board_manners
from webmill.boards.workers import Labour, Workers
from webmill.cli.counts import AT_LEAST_ONE
from webmill.cli.durations import DURATION, FIXED_ADDRESS
from webmill.cli.options import together
from webmill.cli.publish.places import opened_queue
from webmill.collection import Publishing
from webmill.errors import Misconfigured
from webmill.infra.child import PICKLED, Child, Death, Raised, packed
from webmill.infra.child import Job as ChildJob
from webmill.infra.child import Limits as ChildLimits
from webmill.infra.storage.backends import open_versions
from webmill.pipeline.crawl.options import Reach
from webmill.settings import QueueSettings

log = logging.getLogger(__name__)

LIVES = 20  # deaths in a row, each within a minute
QUICK = 60.0

reading_options = together(
    click.option("--contact", help="Your e-mail or page: every server is told whom to ask."),
    click.option("--pages", type=AT_LEAST_ONE, default=1, show_default=True, help="Of each listing, at most."),
    click.option("--delay", type=DURATION, default="1s", show_default=True, help="Between two requests to a host."),
    click.option("--body-age", type=DURATION, default="1d", show_default=True, help="Ask for a body again after this."),
    click.option("--zone", default="Asia/Seoul", show_default=True, help="Time zone of dates without one."),
    click.option("--robots/--no-robots", default=True, help="Obey robots.txt. Only switch it off on your own site."),
    click.option("--allow-private", is_flag=True, help="Connect to private and loopback addresses and any port."),
    click.option("--resolve", multiple=True, type=FIXED_ADDRESS, metavar="HOST=ADDRESS:PORT", help="Instead of DNS."),
)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `reading_options`."""

    contact: str | None
    pages: int
    delay: float
    body_age: float
    zone: str
    robots: bool
    allow_private: bool
    resolve: tuple[tuple[str, tuple[str, int]], ...]

    def options(self, place: Publishing, *, user_agent: str) -> ReaderOptions:
        manners = board_manners(user_agent, delay=self.delay)
        return ReaderOptions(
            manners=msgspec.structs.replace(manners, obey_robots=self.robots),
            gates=place.gates,
            cache=place.cache,
            limits=BoardLimits(pages=self.pages, body_age=self.body_age),
            reach=Reach(allow_private=self.allow_private, resolve=dict(self.resolve)),
            zone=self.zone,
        )


def contact_of(flag: str | None, setting: str) -> str:
    contact = flag or setting
    if not contact:
        raise Misconfigured(
            "servers must be told whom to ask: give --contact me@example.org, or set [http] contact in webmill.toml"
        )
    return contact


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to work jobs."""

    storage: str
    queue: QueueSettings
    reading: ReaderOptions
    threads: int

    @property
    def labour(self) -> Labour:
        beat = max(0.1, min(15.0, self.queue.lease / 4))
        return Labour(threads=self.threads, attempts=self.queue.attempts, beat=beat)


def work_for_ever(order: Order) -> None:
    """The main function of a child; it ends with its parent."""
    logging.disable(logging.ERROR)  # what goes wrong is told by fragments and dead letters
    storage = open_versions(order.storage)
    with opened_queue(order.queue) as queue, closing(BoardReader(order.reading)) as reader:
        Workers(storage, queue, reader, order.labour).run(stop=threading.Event())


class Hands:
    """Workers in a process of their own: a job that kills it does not kill the run, and it is started again."""

    def __init__(self, order: Order) -> None:
        self._job = ChildJob(pickle.dumps(partial(work_for_ever, order)), ChildLimits())
        self._deaths = 0
        self._start()

    def check(self) -> None:
        while self._has_spoken():
            answer = self._child.receive()
            if isinstance(answer, Raised):
                raise Misconfigured(f"the workers cannot work: {answer.message}")
            if isinstance(answer, Death):
                self._replace(answer.reason)

    def close(self) -> None:
        self._child.kill()

    def _start(self) -> None:
        self._child = Child(self._job, PICKLED)
        self._child.send(packed())
        self._started = time.monotonic()

    def _has_spoken(self) -> bool:
        poll = select.poll()
        poll.register(self._child.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def _replace(self, reason: str) -> None:
        self._deaths = self._deaths + 1 if time.monotonic() - self._started < QUICK else 1
        if self._deaths > LIVES:
            raise Misconfigured(f"the workers died {self._deaths} times in a row: {reason}")
        log.warning("the workers died and are started again", extra={"why": reason})
        self._start()
