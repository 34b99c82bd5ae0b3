"""Shards whose files are gone with the node that had them: they go on here, with what Redis and a backup know."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from webmill.crawl.frontier.redis.owner import key_prefix, read_meta
from webmill.crawl.frontier.redis.server import RedisServer
from webmill.crawl.frontier.redis.takeover import PLAN, is_home, take_over
from webmill.crawl.frontier_admin.backup import fetch_file, read_parts
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.infra.files import os_errors
from webmill.infra.storage.base import Storage

log = logging.getLogger(__name__)

OpenBackup = Callable[[], Storage]


def rebuild_lost_shard(url: str, folder: Path, *, prefix: str, open_backup: OpenBackup | None) -> None:
    """Rebuild the shard's files, unless they are in this folder. What was in it of an earlier time is put aside."""
    with closing(RedisServer(url)) as server:
        meta = read_meta(server, key_prefix(prefix))
    if not meta or is_home(folder, meta):
        return
    if not (folder / PLAN).is_file():
        put_aside(folder)
    try:
        with fetched(folder, open_backup) as source:
            take_over(url, folder, prefix=prefix, source=source)
    except (BadInput, NotFound, Misconfigured) as error:
        message = f"cannot rebuild {folder}: {error}"
        hint = "; name another --backup, or leave it out to go on with what Redis knows" if open_backup else ""
        raise Misconfigured(message + hint) from error


def put_aside(folder: Path) -> None:
    """Rename a folder from before another node took the shard over: it is not needed, and not ours to delete."""
    with os_errors(str(folder)):
        if folder.is_dir() and any(folder.iterdir()):
            aside = Path(tempfile.mkdtemp(prefix=f"former-{folder.name}-", dir=folder.parent))
            folder.rename(aside)
            log.warning("former files of a shard were put aside", extra={"folder": str(aside)})


@contextmanager
def fetched(folder: Path, open_backup: OpenBackup | None) -> Iterator[Path | None]:
    """Download the shard's part of a backup, and yield its folder; None when there is no backup."""
    if open_backup is None:
        yield None
        return
    storage = open_backup()
    into = Path(tempfile.mkdtemp(prefix=f"fetched-{folder.name}-", dir=folder.parent))
    try:
        for prefix, manifest in read_parts(storage):
            for name, stored in manifest.files.items():
                if name.startswith(f"{folder.name}/"):
                    fetch_file(storage, prefix + name, stored, into / name)
        yield into / folder.name
    finally:
        shutil.rmtree(into, ignore_errors=True)
