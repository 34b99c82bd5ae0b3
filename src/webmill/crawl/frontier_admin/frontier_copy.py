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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.frontier_admin.part_copy import Notice, copy_part
from webmill.crawl.frontier_admin.shard_copies import (
    CrawlEnded,
    HoldSignal,
    copy_messages,
    order_copies,
    shard_copy,
    wait_for_copies,
)
from webmill.crawl.scheduler.inbox import COPY_FOLDER, HOLD_FILE
from webmill.crawl.stored_settings import read_json
from webmill.infra import atomic
from webmill.infra.checksums import seal_json
from webmill.infra.files import os_errors
from webmill.infra.lock import exclusive

SMALL_FILES = ("crawl.json", "flags.json", "seeds.txt")


class FrontierCopy(NamedTuple):
    folder: Path
    copying: str = ""  # what this part is of that nodes copy together while they run


@contextmanager
def copy_frontier(crawl: CrawlFrontier, *, notice: Notice = lambda _: None) -> Iterator[FrontierCopy]:
    """Copy the frontier; the folder is there until the block ends."""
    crawl.shards()  # or there is no crawl
    folder = crawl.folder / COPY_FOLDER
    with exclusive(crawl.folder, "backup", doing="copying the frontier"):
        remove_folder(folder)  # of one that was killed
        atomic.make_folder(folder)
        try:
            copying = copy_shards(crawl, folder, notice=notice)
            copy_rest(crawl, folder)
            yield FrontierCopy(folder, copying)
        finally:
            remove_folder(folder)


def copy_shards(crawl: CrawlFrontier, folder: Path, *, notice: Notice) -> str:
    with crawl.try_exclusively(doing="copying the frontier") as is_alone:
        if is_alone:
            copy_stopped(crawl, folder)
            return ""
    here = crawl.shards_here()
    if len(here) < crawl.shards():
        return copy_part(crawl, folder, here, notice=notice)
    try:
        copy_running(crawl, folder)
    except CrawlEnded:
        remove_folder(folder)
        atomic.make_folder(folder)
        with crawl.exclusively(doing="copying the frontier"):
            copy_stopped(crawl, folder)
    return ""


def copy_stopped(crawl: CrawlFrontier, folder: Path) -> None:
    """Copy the shards whose files are here, and the messages of all."""
    for shard in crawl.shards_here():
        with crawl.frontier(shard) as frontier:
            frontier.back_up(shard_copy(folder, shard))
    for shard in range(crawl.shards()):
        copy_messages(crawl, folder, shard)


def copy_running(crawl: CrawlFrontier, folder: Path) -> None:
    signal, shards = HoldSignal(folder / HOLD_FILE), range(crawl.shards())
    before = order_copies(crawl, folder, shards)
    wait_for_copies(crawl, folder, signal, shards, before=before, is_running=lambda: is_running(crawl))
    for shard in shards:
        copy_messages(crawl, folder, shard, on_each=signal.renew)
    signal.end()


def is_running(crawl: CrawlFrontier) -> bool:
    with crawl.try_exclusively(doing="checking whether a crawl runs", patience=0.0) as is_alone:
        return not is_alone


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
