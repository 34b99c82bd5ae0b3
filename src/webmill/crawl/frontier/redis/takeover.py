"""A frontier in Redis whose files are gone for good, with the node that had them: it goes on in a new folder.

What Redis has is there: visits, URLs that were given back or are in hand, holds, and the journal, which has the lines
since the last checkpoint. What waited in files is there as far as a backup has it. The rest is lost: it is not known
any more, so that it can be found again.

    1. whoever owned the frontier is shut out; the new folder is filled, with a plan of what changes in Redis
    2. Redis is told of the folder, and the plan carried out
    3. whoever opens the frontier then makes the exact set anew; the filter says "maybe" to what is lost, which is right

A kill in 1 changes nothing, one in 2 is made good by the next call: a plan can be carried out twice. An owner who was
not dead after all and opens the frontier before 2 has it, and the one who takes over is told `Conflict`.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

import msgspec

from webmill.crawl.frontier import backup
from webmill.crawl.frontier.change import FrontierChange
from webmill.crawl.frontier.file_frontier import QUEUES_FOLDER, FrontierLimits
from webmill.crawl.frontier.framed_file import read_frames, write_frames
from webmill.crawl.frontier.journal import NO_POSITION
from webmill.crawl.frontier.queue_backup import QUEUES_FILE, restore_queues
from webmill.crawl.frontier.redis.backup import BACKEND
from webmill.crawl.frontier.redis.changes import change_number
from webmill.crawl.frontier.redis.files import RedisJournal
from webmill.crawl.frontier.redis.owner import (
    FACTS,
    REBUILD,
    RESTORING,
    TAKING_OVER,
    key_prefix,
    read_facts,
    read_meta,
    take_ownership,
    write_facts,
)
from webmill.crawl.frontier.redis.server import TIMEOUT, RedisServer
from webmill.crawl.frontier.redis.state import VERSION, RedisState
from webmill.crawl.frontier.state import DomainState
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles
from webmill.errors import Conflict, Misconfigured, NotFound

log = logging.getLogger(__name__)

PLAN = "lanes.plan"
PART = 1 << 20
AT_ONCE = 1000

MovedQueues = tuple[str, dict[int, tuple[int, int]]]  # a domain's name, and where its queues begin and end now
_moved = msgspec.msgpack.Decoder(MovedQueues)


class TakeoverResult(msgspec.Struct, frozen=True):
    """Of the URLs that waited: how many wait still, how many are lost. Those that were in hand come back, too."""

    kept: int
    lost: int


def take_over(
    url: str,
    folder: Path,
    *,
    prefix: str,
    source: Path | None = None,
    limits: FrontierLimits | None = None,
    timeout: float = TIMEOUT,
) -> TakeoverResult:
    """Give the frontier under `prefix` a new folder, with what its last backup (`source`) has of its files, or with
    nothing. `RedisFrontier` can open it then. Its former owner must be dead: what it does from now on is refused."""
    at = key_prefix(prefix)
    with closing(RedisServer(url, timeout=timeout)) as server:
        meta = require_whole(server, at)
        if (folder / PLAN).is_file() and folder_id(folder) != meta["folder"]:
            shutil.rmtree(folder)  # it was filled, and Redis was not told
        is_filled = (folder / PLAN).is_file()
        if not is_filled:
            backup.require_unused(folder)
            if source:
                require_matching(source, meta)
        state = take_ownership(server, at)  # from here on nobody else changes it
        if read_meta(server, at)["folder"] != meta["folder"]:
            raise Conflict(f"another has just taken over the frontier {prefix}: it goes on there")
        if not is_filled:
            with backup.create_folder(folder) as draft:
                prepare(draft, state=state, server=server, source=source, limits=limits)
        taken = apply_plan(folder, state=state, meta=meta)
    log.warning("frontier_taken_over", extra={"prefix": prefix, "kept": taken.kept, "lost": taken.lost})
    return taken


def require_whole(server: RedisServer, prefix: str) -> dict[str, str]:
    meta = read_meta(server, prefix)
    if not meta or RESTORING in meta:
        raise NotFound(f"there is no whole frontier {prefix} in Redis at {server.place}")
    if int(meta.get("version", VERSION)) > VERSION:
        raise Misconfigured(f"the frontier {prefix} is of a newer webmill: use that one")
    return meta


def require_matching(source: Path, meta: dict[str, str]) -> None:
    """Refuse a backup whose positions in files are not those that Redis speaks of."""
    manifest = backup.read_manifest(source, backend=BACKEND, version=VERSION)
    if manifest.facts["folder"] != meta["folder"]:
        raise Misconfigured(f"{source} is no backup of this frontier, or of one before it was taken over: name another")
    if int(manifest.facts["change"]) > change_number(meta.get("change", "0")):
        raise Conflict(f"Redis has gone back to before {source}: restore that backup instead")


# The new folder


def prepare(
    draft: Path, *, state: RedisState, server: RedisServer, source: Path | None, limits: FrontierLimits | None
) -> None:
    size = (limits or FrontierLimits()).file
    if source:
        restore_queues(source / QUEUES_FILE, draft / "old", size=size)
    with ExitStack() as stack:
        old, new = UrlQueueFiles(draft / "old", size=size), UrlQueueFiles(draft / QUEUES_FOLDER, size=size)
        stack.callback(old.close)
        stack.callback(new.close)
        mover = QueueMover(old, new, RedisJournal(server, state))
        write_frames(draft / PLAN, (msgspec.msgpack.encode(moved) for moved in mover.move_all(state)))
        new.flush()
    shutil.rmtree(draft / "old")
    lost = state.counts().get("waiting", 0) - mover.kept
    facts = {"id": secrets.token_hex(16), "joined": "1", "kept": str(mover.kept), "lost": str(lost), REBUILD: "1"}
    write_facts(draft, **facts)


class QueueMover:
    """Brings what is left of queues into new files. What is left of one is put together at its end, so that no position
    is used twice: those of URLs that were given back are behind, and tell them apart."""

    def __init__(self, old: UrlQueueFiles, new: UrlQueueFiles, journal: RedisJournal) -> None:
        self._old, self._new, self.kept = old, new, 0
        self._journal: dict[tuple[str, int], tuple[int, bytearray]] = {}  # where it begins, lines
        for domain, priority, at, lines in journal.entries():
            if at != NO_POSITION:
                self._journal.setdefault((domain.name, priority), (at, bytearray()))[1].extend(lines)

    def move_all(self, state: RedisState) -> Iterator[MovedQueues]:
        """Move all queues; yield the domains that have lost something."""
        for domain in state.all_domains():
            self.kept += domain.retries
            moved = {priority: self.move(domain, priority, *span) for priority, span in domain.queues.items()}
            if moved != domain.queues:
                yield domain.name, moved

    def move(self, domain: DomainState, priority: int, read: int, end: int) -> tuple[int, int]:
        """Move one queue; return where it begins and ends now."""
        queue = UrlQueue(domain.hash, priority)
        start, lines = self._journal.get((domain.name, priority), (end, bytearray()))
        newest = bytes(lines[max(0, read - start) :])
        stop = min(self._old.reach(queue, read), max(read, start)) if read < end else read
        begin = end - len(newest) - (stop - read)
        for at in range(read, stop, PART):
            part = self._old.bytes_of(queue, at, min(stop, at + PART))
            self._new.write(queue, begin + at - read, part)
        self._new.write(queue, end - len(newest), newest)
        self.kept += self._count(queue, begin, end)
        return begin, end

    def _count(self, queue: UrlQueue, at: int, end: int) -> int:
        """Count the lines of a queue. Each is read: damage must not be found later."""
        count = 0
        while lines := self._new.read(queue, at, end, count=AT_ONCE):
            count, at = count + len(lines), lines[-1].end
        return count


# The plan


def folder_id(folder: Path) -> str:
    return read_facts(folder)["id"]


def apply_plan(folder: Path, *, state: RedisState, meta: dict[str, str]) -> TakeoverResult:
    facts, key = read_facts(folder), state.key("meta")
    if meta["folder"] != facts["id"] or TAKING_OVER in meta:  # else all was done, and only the plan is left
        with state.write():
            state.put("HSET", key, "folder", facts["id"], TAKING_OVER, "1")
        moved = map(_moved.decode, read_frames(folder / PLAN))
        while page := dict(islice(moved, AT_ONCE)):
            with state.write():
                change = FrontierChange(state, now=0.0)
                change.move_queues(page)
                change.save()
        with state.write():
            state.put("HSET", state.key("tally"), "waiting", facts["kept"])
            state.put("DEL", state.key("journal"))
            state.put("HDEL", key, TAKING_OVER)
    (folder / PLAN).unlink()
    return TakeoverResult(kept=int(facts["kept"]), lost=int(facts["lost"]))


def is_home(folder: Path, meta: dict[str, str]) -> bool:
    """Tell whether the files of the frontier are in this folder. `meta`: what Redis knows of it."""
    if TAKING_OVER in meta or (folder / PLAN).is_file() or not (folder / FACTS).is_file():
        return False
    return read_facts(folder).get("id") == meta["folder"]
