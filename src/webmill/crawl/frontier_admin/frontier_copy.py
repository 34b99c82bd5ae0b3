"""A copy of a crawl's frontier in a folder beside it, also while it runs.

    frontier/backup/
      hold               while it is fresh, a shard that has made its copy reads no messages
      shard-NN/          the shard's copy, made by its owner between two steps
      mail-NN.letters    what lay in its inbox (`crawl/frontier/framed_file.py`)
      …                  what else a kind of frontier has to be copied
      crawl.json  flags.json  seeds.txt

Links between shards are the difficulty: one that was sent before its sender made its copy, and is read after its
receiver made his, would be in neither. So a shard that has made its copy leaves its messages in the inbox until all
have, and the inboxes were copied. Nothing else waits, and messages keep.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from webmill.crawl.frontier.framed_file import write_frames
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.scheduler.commands import BackUpFrontier, ShardCommand
from webmill.crawl.scheduler.inbox import COPY_FOLDER, HOLD_FILE, HOLD_SECONDS, publish_command
from webmill.crawl.status_file import node_slots, read_status
from webmill.crawl.stored_settings import read_json
from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.infra import atomic, waiting
from webmill.infra.checksums import seal_json
from webmill.infra.files import RESERVED, os_errors
from webmill.infra.lock import exclusive

POLL_INTERVAL = 0.2
MAX_SILENCE = 300.0  # for a shard to begin with its copy
SMALL_FILES = ("crawl.json", "flags.json", "seeds.txt")
_message = msgspec.msgpack.Decoder(list[msgspec.Raw] | ShardCommand)


@contextmanager
def copy_frontier(crawl: CrawlFrontier) -> Iterator[Path]:
    """Copy the frontier; the folder is there until the block ends."""
    crawl.shards()  # or there is no crawl
    folder = crawl.folder / COPY_FOLDER
    with exclusive(crawl.folder, "backup", doing="copying the frontier"):
        remove_folder(folder)  # of one that was killed
        atomic.make_folder(folder)
        try:
            copy_shards(crawl, folder)
            copy_rest(crawl, folder)
            yield folder
        finally:
            remove_folder(folder)


def copy_shards(crawl: CrawlFrontier, folder: Path) -> None:
    with crawl.try_exclusively(doing="copying the frontier") as is_alone:
        if is_alone:
            copy_stopped(crawl, folder)
            return
    if len(crawl.shards_here()) < crawl.shards():
        raise Conflict(
            "files of some shards are on other nodes: stop the crawl on all of them, then back up each node's part"
        )
    try:
        copy_running(crawl, folder)
    except CrawlEnded:
        remove_folder(folder)
        atomic.make_folder(folder)
        with crawl.exclusively(doing="copying the frontier"):
            copy_stopped(crawl, folder)


class CrawlEnded(Conflict):
    """The crawl ended before all shards had made their copies."""


def copy_stopped(crawl: CrawlFrontier, folder: Path) -> None:
    """Copy the shards whose files are here, and the messages of all."""
    for shard in crawl.shards_here():
        with crawl.frontier(shard) as frontier:
            frontier.back_up(shard_copy(folder, shard))
    for shard in range(crawl.shards()):
        copy_messages(crawl, folder, shard)


def copy_running(crawl: CrawlFrontier, folder: Path) -> None:
    signal = HoldSignal(folder / HOLD_FILE)
    before = command_errors(crawl)  # what fails from now on may be ours
    for shard in range(crawl.shards()):
        with crawl.inbox(shard) as inbox:
            publish_command(inbox, BackUpFrontier(str(shard_copy(folder, shard))))
    wait_for_copies(crawl, folder, signal, before=before)
    for shard in range(crawl.shards()):
        copy_messages(crawl, folder, shard, on_each=signal.renew)
    signal.end()


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


def wait_for_copies(crawl: CrawlFrontier, folder: Path, signal: HoldSignal, *, before: str) -> None:
    deadline = time.monotonic() + MAX_SILENCE
    while missing := [shard for shard in range(crawl.shards()) if not shard_copy(folder, shard).exists()]:
        signal.renew()
        if any(copy_draft(shard_copy(folder, shard)).exists() for shard in missing):  # it is large
            deadline = time.monotonic() + MAX_SILENCE
        if not is_running(crawl):
            raise CrawlEnded("the crawl ended meanwhile")
        if (now := command_errors(crawl)) not in (before, ""):
            raise Unavailable(f"a shard could not make its copy: {now}")
        if time.monotonic() > deadline:
            raise Unavailable(f"no copy of shard {missing[0]} after {MAX_SILENCE:.0f} s: does it run on this machine?")
        waiting.sleep(POLL_INTERVAL)


def is_running(crawl: CrawlFrontier) -> bool:
    with crawl.try_exclusively(doing="checking whether a crawl runs", patience=0.0) as is_alone:
        return not is_alone


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


def copy_rest(crawl: CrawlFrontier, folder: Path) -> None:
    crawl.backend.save_shared(crawl.paths, crawl.shards(), folder)
    for name in SMALL_FILES:
        if (crawl.folder / name).exists():
            atomic.write_bytes(folder / name, (crawl.folder / name).read_bytes())
    drop_redis_url(folder / "flags.json")


def drop_redis_url(flags: Path) -> None:
    """Drop the URL of Redis from saved flags: it may have a password, and a restored crawl has another one."""
    if flags.exists():
        kept = read_json(flags)
        kept.pop("frontier", None)
        atomic.write_bytes(flags, seal_json(msgspec.json.format(msgspec.json.encode(kept))))


def remove_folder(folder: Path) -> None:
    with os_errors(str(folder)):
        if folder.exists():
            shutil.rmtree(folder)
