"""Copies of the shards of a crawl that runs, each made by its owner between two steps, and of what lies in inboxes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from webmill.crawl.frontier.framed_file import write_frames
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.scheduler.commands import BackUpFrontier, ShardCommand
from webmill.crawl.scheduler.inbox import HOLD_SECONDS, publish_command
from webmill.crawl.status_file import node_slots, read_status
from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.infra import waiting
from webmill.infra.files import RESERVED

POLL_INTERVAL = 0.2
MAX_SILENCE = 300.0  # for a shard to begin with its copy
_message = msgspec.msgpack.Decoder(list[msgspec.Raw] | ShardCommand)


class CrawlEnded(Conflict):
    """The crawl ended before all shards had made their copies."""


class HoldSignal:
    """The sign that messages are held, renewed all the time. If it is late once, the copy is worth nothing."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        """Shards see the sign's age by the wall clock, which somebody may set."""
        self._path, self._clocks = path, (clock, wall)
        self._last = clock(), wall()
        path.touch()

    def renew(self) -> None:
        now = self._clocks[0](), self._clocks[1]()
        if max(abs(now[0] - self._last[0]), abs(now[1] - self._last[1])) > HOLD_SECONDS / 2:
            raise Unavailable("copying was held up for so long that the crawl went on without it: run it again")
        self._path.touch()
        self._last = now

    def end(self) -> None:
        self._path.unlink()


def order_copies(crawl: CrawlFrontier, folder: Path, shards: Iterable[int]) -> str:
    """Tell the shards to make their copies, and return which commands had failed before."""
    before = command_errors(crawl)  # what fails from now on may be ours
    for shard in shards:
        with crawl.inbox(shard) as inbox:
            publish_command(inbox, BackUpFrontier(str(shard_copy(folder, shard))))
    return before


def wait_for_copies(
    crawl: CrawlFrontier,
    folder: Path,
    signal: HoldSignal,
    shards: Iterable[int],
    *,
    before: str,
    is_running: Callable[[], bool],
) -> None:
    deadline = time.monotonic() + MAX_SILENCE
    while missing := [shard for shard in shards if not shard_copy(folder, shard).exists()]:
        signal.renew()
        if any(copy_draft(shard_copy(folder, shard)).exists() for shard in missing):  # it is large
            deadline = time.monotonic() + MAX_SILENCE
        if not is_running():
            raise CrawlEnded("the crawl ended meanwhile: make this again")
        if (now := command_errors(crawl)) not in (before, ""):
            raise Unavailable(f"a shard could not make its copy: {now}")
        if time.monotonic() > deadline:
            raise Unavailable(f"no copy of shard {missing[0]} after {MAX_SILENCE:.0f} s: does it run on this machine?")
        waiting.sleep(POLL_INTERVAL)


def command_errors(crawl: CrawlFrontier) -> str:
    """Return why commands failed last, in this machine's processes."""
    found = []
    for slot in node_slots(crawl.folder):
        try:
            found.append(read_status(crawl.folder, slot=slot).total.command_error)
        except WebmillError:  # there is none yet
            pass
    return "; ".join(filter(None, found))


def copy_draft(copy: Path) -> Path:
    """Return where a copy is while it is made."""
    return copy.parent / f"{RESERVED}draft-{copy.name}"


def shard_copy(folder: Path, shard: int) -> Path:
    return folder / f"shard-{shard:02d}"


def messages_file(folder: Path, shard: int) -> Path:
    return folder / f"mail-{shard:02d}.letters"


def copy_messages(
    crawl: CrawlFrontier, folder: Path, shard: int, *, on_each: Callable[[], None] = lambda: None
) -> None:
    """Copy the messages of a shard, but commands to make a copy: they are this crawl's alone, and ours may be there."""

    def messages() -> Iterator[bytes]:
        for message in crawl.backend.read_messages(crawl.paths.inbox(shard)):
            on_each()
            if not isinstance(_message.decode(message), BackUpFrontier):
                yield message
        on_each()

    write_frames(messages_file(folder, shard), messages())
