"""The processes of a crawl and their parent: who may fetch how much, whether all is done, what a person sees.

Every process has a shard: the domains whose hash falls to it, with files and a frontier of its own. The parent fetches
nothing. It hands out the pages of `--max-pages` in small grants, so that the sum is exact whoever dies, starts again
what died, and ends the crawl when two rounds of asking find all shards idle with nothing on the way between them.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Literal

from webmill.crawl.options import Options
from webmill.crawl.progress import COUNTS, Snapshot, added
from webmill.crawl.scheduler.shard_process import main
from webmill.errors import Misconfigured
from webmill.infra import interrupts

log = logging.getLogger(__name__)

TICK = 0.1
GRANT = 256  # pages handed out at once, at most
UNLIMITED = 1 << 60
LIVES = 5  # deaths of one shard in a row, without a page between them
PATIENCE = 60.0  # for a process to end by itself

End = Literal["finished", "waiting", "pages", "seconds", "bytes", "stopped"]


class Member:
    """One shard and the process that runs it now."""

    def __init__(self, options: Options, shard: int, shards: int) -> None:
        self.shard, self._options, self._shards = shard, options, shards
        self.seen = Snapshot(shard=shard)
        self.before = Snapshot(shard=shard)  # what processes that died had counted
        self.promised: int | None = None  # pages in all; None until it has told how many it has
        self.revoked: int | None = None  # how often it had given pages back when it was asked to; None: it is not
        self.failure = ""
        self.may_come_again = False  # what failed may pass
        self.deaths = 0
        self.starts = 0
        self.pipe: Connection | None = None
        self.process: SpawnProcess | None = None

    def start(self) -> None:
        self.before = added([self.before, self.seen])
        self.seen = Snapshot(shard=self.shard, pages=self.seen.pages, waiting=self.seen.waiting)
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.promised = self.revoked = None
        self.failure, self.starts = "", self.starts + 1
        self.process = context.Process(
            target=main, args=(self._options, self.shard, self._shards, theirs), name=f"webmill-crawl-{self.shard:02d}"
        )
        with interrupts.held_back():
            self.process.start()
        theirs.close()

    def tell(self, *words: object) -> None:
        try:
            if self.pipe:
                self.pipe.send(words)
        except (BrokenPipeError, OSError):
            pass  # it is gone; the death is noticed where it is read from

    def listen(self) -> bool:
        """Takes what it has said. False: it hung up."""
        try:
            while self.pipe and self.pipe.poll():
                word, value = self.pipe.recv()
                if word in ("failed", "lost"):
                    self.failure, self.may_come_again = value, word == "lost"
                else:
                    self._note(value)
        except (EOFError, OSError):
            return False
        return True

    def _note(self, seen: Snapshot) -> None:
        if self.promised is None:
            self.promised = seen.pages
        elif self.revoked is not None and seen.revoked > self.revoked:
            self.promised, self.revoked = seen.granted, None
        if seen.pages > self.seen.pages:
            self.deaths = 0
        self.seen = seen

    def bury(self) -> None:
        if self.process:
            self.process.join(PATIENCE)
            if self.process.is_alive():
                self.process.kill()
                self.process.join()
            self.process.close()
        if self.pipe:
            self.pipe.close()
        self.process = self.pipe = None

    @property
    def free(self) -> int:
        return (self.promised or 0) - self.seen.pages - self.seen.in_hand


class Crew:
    """`watch` is called about ten times a second with the sum of all shards."""

    def __init__(self, options: Options, shards: int, *, watch: Callable[[Snapshot], None]) -> None:
        self._options, self._watch = options, watch
        self._members = [Member(options, shard, shards) for shard in range(shards)]
        self._stopping = False
        self._probe = 0
        self._quiet: tuple[object, ...] | None = None

    def stop(self) -> None:
        self._stopping = True

    def abandon(self) -> None:
        """At once: the processes are killed, which costs nothing that was acknowledged."""
        self._stopping = True
        for member in self._members:
            if member.process:
                member.process.kill()

    def run(self) -> End:
        with self._hired():
            started = time.monotonic()
            while True:
                self._listen()
                total = self.total()
                self._watch(total)
                end = self._end(total, time.monotonic() - started)
                if end:
                    return end
                self._grant()

    def total(self) -> Snapshot:
        """Counts of the dead are added; how things stand is told by the living."""
        living = added(member.seen for member in self._members)
        past = added(self._past())
        for name in ("fetched", "robots", "requisites", "bytes", "links", "revisits", "seconds"):
            setattr(living, name, getattr(living, name) + getattr(past, name))
        for name in COUNTS:
            setattr(living, name, dict(Counter(getattr(living, name)) + Counter(getattr(past, name))))
        return living

    def _past(self) -> list[Snapshot]:
        return [member.before for member in self._members]

    @contextmanager
    def _hired(self) -> Iterator[None]:
        try:
            for member in self._members:
                member.start()
            yield
        finally:
            self._see_all_off()

    def _see_all_off(self) -> None:
        for member in self._members:
            member.tell("stop")
        for member in self._members:
            self._see_off(member)

    def _see_off(self, member: Member) -> None:
        deadline = time.monotonic() + PATIENCE
        while member.process and member.process.is_alive() and time.monotonic() < deadline:
            if not member.listen():
                break
            member.process.join(TICK)
            if self._stopping:
                total = self.total()
                total.is_stopping = True
                self._watch(total)
        member.listen()
        if member.process:
            member.bury()

    def _listen(self) -> None:
        wait([member.pipe for member in self._members if member.pipe], timeout=TICK)
        for member in list(self._members):
            if not member.listen():
                member.bury()
                self._replace(member)

    def _replace(self, member: Member) -> None:
        """Its process has ended."""
        member.deaths += 1
        if member.failure:
            raise Misconfigured(member.failure)
        if member.deaths > LIVES:
            raise Misconfigured(f"shard {member.shard} died {LIVES} times in a row: see the log for why")
        if not self._stopping:
            log.error("a process died", extra={"shard": member.shard, "deaths": member.deaths})
            member.start()

    # --- budgets ---

    def _grant(self) -> None:
        limit = self._options.limits.pages
        if any(member.promised is None for member in self._members):
            return
        pool = UNLIMITED if limit is None else limit - sum(member.promised or 0 for member in self._members)
        size = UNLIMITED if limit is None else max(1, min(GRANT, pool // (2 * len(self._members))))
        hungry = [member for member in self._members if member.seen.is_hungry]  # the others have no use for pages
        for member in hungry:
            if pool > 0 and member.free < size / 2 and member.revoked is None:
                granted = min(size, pool)
                pool -= granted
                member.promised = (member.promised or 0) + granted
                member.tell("grant", member.promised)
        if limit is not None and pool <= 0 and any(member.free <= 0 for member in hungry):
            for member in self._members:
                if member.free > 0 and not member.seen.is_hungry and member.revoked is None:
                    member.revoked = member.seen.revoked
                    member.tell("revoke")

    # --- the end ---

    def _end(self, total: Snapshot, seconds: float) -> End | None:
        limits = self._options.limits
        if self._stopping:
            return "stopped"
        if limits.seconds is not None and seconds >= limits.seconds:
            return "seconds"
        if limits.bytes is not None and total.bytes >= limits.bytes:
            return "bytes"
        if any(member.promised is None for member in self._members):
            return None
        if limits.pages is not None and total.pages >= limits.pages:
            is_whole = not self._options.rules.requisites or self._is_quiet(are_idle=total.is_spent)
            return "pages" if is_whole else None
        if not self._is_quiet(are_idle=total.is_idle):
            return None
        return "finished" if total.wake is None else "waiting"

    def _is_quiet(self, *, are_idle: bool) -> bool:
        """Idle, and nothing done since the round before: then no letter can be on its way."""
        seen = [member.seen for member in self._members]
        if not are_idle:
            self._quiet = None
            return False
        if any(one.probe < self._probe for one in seen):
            return False
        work = tuple((member.starts, member.seen.work) for member in self._members)
        is_quiet = self._quiet == work
        self._quiet = work
        self._probe += 1
        for member in self._members:
            member.tell("probe", self._probe)
        return is_quiet
