"""What one process of a crawl runs: open the shard's parts, listen to the parent, crawl until told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from webmill.crawl.fetch import HttpFetcher
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.options import AGENT, Options
from webmill.crawl.politeness.robots import Policy
from webmill.crawl.politeness.robots_cache import RobotsKeeper
from webmill.crawl.politeness.robots_fetcher import RobotsAsking
from webmill.crawl.progress import Snapshot
from webmill.crawl.scheduler.archived_payloads import Payloads
from webmill.crawl.scheduler.inbox import Mail
from webmill.crawl.scheduler.shard import Shard
from webmill.crawl.scheduler.shard_store import Desk
from webmill.crawl.scope import NO_TEXT, Scope, ScopeRules
from webmill.crawl.traps import TrapRules
from webmill.crawl.visit.page_reader import Reader
from webmill.crawl.visit.requester import Asker, open_fetcher
from webmill.crawl.visit.url_visit import Visitor
from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.infra import atomic, interrupts
from webmill.infra.clock import Anchor
from webmill.infra.log import configure

log = logging.getLogger(__name__)

PATIENCE = 60.0  # for the files of a shard


def main(options: Options, shard: int, shards: int, parent: Connection) -> None:
    interrupts.ignore()  # the parent tells us
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    configure(verbosity=options.verbosity, form=options.log_format)
    collect_seldom()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy brings it, and it starts a thread for each core
    try:
        run_loop(crawl(options, shard, shards, parent))
    except (Conflict, Unavailable) as error:
        parent.send(("lost", str(error)))
    except WebmillError as error:
        parent.send(("failed", str(error)))
    finally:
        parent.close()


def collect_seldom() -> None:
    """A crawl leaves no garbage in cycles, nor do failures; to look for it as often as Python does costs 5 %."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run_loop(work: Coroutine[object, object, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


async def crawl(options: Options, shard: int, shards: int, parent: Connection) -> None:
    loop = asyncio.get_running_loop()
    with ExitStack() as parts:
        desk = open_desk(options, shard, shards, parts)
        fetcher = open_fetcher(options.manners, options.limits, options.reach, connections=options.settings.concurrency)
        try:
            crawler = Shard(desk, options, tell=lambda seen: tell(parent, crawler, seen))
            crawler.visitor = visitor_for(fetcher, desk, options, crawler)
            loop.add_reader(parent.fileno(), partial(listen, parent, crawler))
            await crawler.run()
        finally:
            loop.remove_reader(parent.fileno())
            await fetcher.close()


def visitor_for(fetcher: HttpFetcher, desk: Desk, options: Options, crawler: Shard) -> Visitor:
    requisites = options.rules.requisites
    asker = Asker(fetcher, options.manners, crawler, clock=desk.clock, requisites=requisites)
    policy = Policy(agent=AGENT, max_delay=options.manners.max_crawl_delay, first_retry=options.limits.retry_wait)
    robots = RobotsAsking(asker, RobotsKeeper(desk.frontier, policy, clock=desk.clock), policy, clock=desk.clock)
    reader = Reader(scope_of(options), options.rules, options.manners, requisites=options.limits.requisites)
    return Visitor(asker, robots, reader, options, clock=desk.clock)


def open_desk(options: Options, shard: int, shards: int, parts: ExitStack) -> Desk:
    folder = options.shard_folder(shard)
    atomic.make_folder(folder)
    frontier = open_frontier(options, folder)
    parts.callback(frontier.close)
    gates = options.backends.gates(options.gates)
    parts.callback(gates.close)
    note = frontier.notes().get("clock")
    clock = gates.clock(msgspec.json.decode(note, type=Anchor) if note else None)
    frontier.exclude(options.settings.exclude_domains)
    mail = Mail([options.box(number) for number in range(shards)], shard, open_box=options.backends.box)
    parts.callback(mail.close)
    payloads = Payloads(folder / "payloads.sqlite")
    parts.callback(payloads.close)
    quota = options.backends.quota(folder / "quota.sqlite", options.limits.pages_per_domain)
    parts.callback(quota.close)
    stem = f"{options.node}-{shard:02d}" if options.node else f"{shard:02d}"
    writer = options.archive.open_writer(stem=stem, now=lambda: datetime.fromtimestamp(clock(), UTC))
    parts.callback(writer.close)
    return Desk(
        frontier=frontier,
        gates=gates,
        writer=writer,
        payloads=payloads,
        quota=quota,
        mail=mail,
        clock=clock,
        manners=options.manners,
        shard=shard,
        shards=shards,
        revisits=options.refresh.on,
        requisites=options.rules.requisites,
    )


def open_frontier(options: Options, folder: Path) -> Frontier:
    """A process whose parent was killed may still have it, until it notices."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return options.backends.frontier(folder)
        except Conflict:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def scope_of(options: Options) -> Scope:
    rules = ScopeRules(
        kind=options.rules.scope,
        include=options.rules.include,
        exclude=options.rules.exclude,
        max_depth=options.rules.depth,
        extensions=NO_TEXT if options.rules.extensions else frozenset(),
        traps=TrapRules() if options.rules.traps else None,
    )
    with options.seeds.open() as seeds:
        return Scope(rules, seeds=(line.strip() for line in seeds), year=datetime.now(UTC).year)


def listen(parent: Connection, crawler: Shard) -> None:
    """A parent that is gone hangs up: then we stop, as if it had told us to."""
    try:
        while parent.poll():
            word, *values = parent.recv()
            match word:
                case "grant":
                    crawler.grant(*values)
                case "revoke":
                    crawler.revoke()
                case "probe":
                    crawler.probe = values[0]
                case "stop":
                    crawler.stop()
    except (EOFError, OSError):
        log.warning("the parent is gone", extra={"pid": os.getpid()})
        asyncio.get_running_loop().remove_reader(parent.fileno())
        crawler.stop(grace=0.0)  # who comes after us waits for our files


def tell(parent: Connection, crawler: Shard, seen: Snapshot) -> None:
    try:
        parent.send(("seen", seen))
    except OSError:  # it is gone
        crawler.stop(grace=0.0)
