"""A copy of a crawl's frontier in a folder beside it, also while it runs.

    frontier/backup/
      hold               while it is fresh, a shard that has made its copy takes no letters
      shard-NN/          the shard's copy, made by its owner between two steps
      mail-NN.letters    what lay in its box (`crawl/frontier/framed_file.py`)
      …                  what else a kind of frontier has to be copied
      crawl.json  flags.json  seeds.txt

Links between shards are the difficulty: one that was sent before its sender made its copy, and is taken after its
receiver made his, would be in neither. So whoever has made his copy leaves his letters in the box until all have, and
the boxes were copied. Nothing else waits, and letters keep.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.frontier.framed_file import write_frames
from webmill.crawl.frontier_admin.held import FOLDER, FRESH, HOLD
from webmill.crawl.frontier_admin.place import Place
from webmill.crawl.scheduler.commands import BackUpFrontier, ShardCommand
from webmill.crawl.scheduler.inbox import publish_command
from webmill.crawl.status_file import node_slots, read_status
from webmill.errors import Conflict, Unavailable, WebmillError
from webmill.infra import atomic
from webmill.infra.files import RESERVED, os_errors
from webmill.infra.lock import exclusive

LOOK = 0.2
SILENCE = 300.0  # for a shard to begin with its copy
SMALL = ("crawl.json", "flags.json", "seeds.txt")
_letter = msgspec.msgpack.Decoder(list[msgspec.Raw] | ShardCommand)


@contextmanager
def copied(place: Place) -> Iterator[Path]:
    """The folder, until the block ends."""
    place.shards()  # or there is no crawl
    folder = place.folder / FOLDER
    with exclusive(place.folder, "backup", doing="copying the frontier"):
        remove(folder)  # of one that was killed
        atomic.make_folder(folder)
        try:
            copy_shards(place, folder)
            copy_rest(place, folder)
            yield folder
        finally:
            remove(folder)


def copy_shards(place: Place, folder: Path) -> None:
    with place.alone_if_possible(doing="copying the frontier") as is_alone:
        if is_alone:
            copy_alone(place, folder)
            return
    try:
        copy_running(place, folder)
    except Ended:
        remove(folder)
        atomic.make_folder(folder)
        with place.alone(doing="copying the frontier"):
            copy_alone(place, folder)


class Ended(Conflict):
    """The crawl did, before all shards had made their copies."""


def copy_alone(place: Place, folder: Path) -> None:
    for shard in range(place.shards()):
        with place.frontier(shard) as frontier:
            frontier.back_up(part(folder, shard))
        copy_letters(place, folder, shard)


def copy_running(place: Place, folder: Path) -> None:
    holding = Holding(folder / HOLD)
    before = command_errors(place)  # what fails from now on may be ours
    for shard in range(place.shards()):
        with place.box(shard) as box:
            publish_command(box, BackUpFrontier(str(part(folder, shard))))
    wait_for_copies(place, folder, holding, before=before)
    for shard in range(place.shards()):
        copy_letters(place, folder, shard, on_each=holding.go_on)
    holding.end()


class Holding:
    """The sign that letters are held, given anew all the time. Late once, and the copy is worth nothing."""

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        """Shards see the sign's age by the wall clock, which somebody may set."""
        self._path, self._clocks = path, (clock, wall)
        self._last = clock(), wall()
        path.touch()

    def go_on(self) -> None:
        now = self._clocks[0](), self._clocks[1]()
        if max(abs(now[0] - self._last[0]), abs(now[1] - self._last[1])) > FRESH / 2:
            raise Unavailable("copying was held up for so long that the crawl went on without it: run it again")
        self._path.touch()
        self._last = now

    def end(self) -> None:
        self._path.unlink()


def wait_for_copies(place: Place, folder: Path, holding: Holding, *, before: str) -> None:
    deadline = time.monotonic() + SILENCE
    while missing := [shard for shard in range(place.shards()) if not part(folder, shard).exists()]:
        holding.go_on()
        if any(draft_of(part(folder, shard)).exists() for shard in missing):  # it is large
            deadline = time.monotonic() + SILENCE
        if not is_running(place):
            raise Ended("the crawl ended meanwhile")
        if (now := command_errors(place)) not in (before, ""):
            raise Unavailable(f"a shard could not make its copy: {now}")
        if time.monotonic() > deadline:
            raise Unavailable(f"no copy of shard {missing[0]} after {SILENCE:.0f} s: does it run on this machine?")
        time.sleep(LOOK)


def is_running(place: Place) -> bool:
    with place.alone_if_possible(doing="looking", patience=0.0) as is_alone:
        return not is_alone


def command_errors(place: Place) -> str:
    """Return why commands failed last, in this machine's processes."""
    found = []
    for slot in node_slots(place.folder):
        try:
            found.append(read_status(place.folder, slot=slot).total.command_error)
        except WebmillError:  # there is none yet
            pass
    return "; ".join(filter(None, found))


def draft_of(copy: Path) -> Path:
    """While it is made."""
    return copy.parent / f"{RESERVED}draft-{copy.name}"


def part(folder: Path, shard: int) -> Path:
    return folder / f"shard-{shard:02d}"


def letters_file(folder: Path, shard: int) -> Path:
    return folder / f"mail-{shard:02d}.letters"


def copy_letters(place: Place, folder: Path, shard: int, *, on_each: Callable[[], None] = lambda: None) -> None:
    """But for orders to make a copy: they are this crawl's alone, and ours may still lie there."""

    def letters() -> Iterator[bytes]:
        for letter in place.tools.letters(place.options.folder.inbox(shard)):
            on_each()
            if not isinstance(_letter.decode(letter), BackUpFrontier):
                yield letter
        on_each()

    write_frames(letters_file(folder, shard), letters())


def copy_rest(place: Place, folder: Path) -> None:
    place.tools.save(place.options, place.shards(), folder)
    for name in SMALL:
        if (place.folder / name).exists():
            atomic.write_bytes(folder / name, (place.folder / name).read_bytes())
    forget_redis(folder / "flags.json")


def forget_redis(flags: Path) -> None:
    """Its URL may have a password, and a restored crawl has another one."""
    if flags.exists():
        kept = msgspec.json.decode(flags.read_bytes(), type=dict[str, Any])
        kept.pop("frontier", None)
        atomic.write_bytes(flags, msgspec.json.format(msgspec.json.encode(kept)))


def remove(folder: Path) -> None:
    with os_errors(str(folder)):
        if folder.exists():
            shutil.rmtree(folder)
