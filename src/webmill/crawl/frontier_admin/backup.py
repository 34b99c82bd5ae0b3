"""Backups of a crawl's frontier in a storage, and crawls made of them.

TARGET/manifest.json     written last: without it there is no backup
TARGET/…                 the files of a copy (`frontier_copy`), each with its size and SHA-256 in the manifest
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from webmill.crawl.frontier.backup import FileChecksum, create_folder, describe_file
from webmill.crawl.frontier.framed_file import read_frames
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.frontier_admin.frontier_copy import (
    SMALL_FILES,
    copy_frontier,
    messages_file,
    remove_folder,
    shard_copy,
)
from webmill.crawl.layout import CrawlLayout, decode_layout
from webmill.crawl.stored_settings import read_json
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.infra import atomic
from webmill.infra.checksums import seal_json
from webmill.infra.files import RESERVED, os_errors
from webmill.infra.storage.base import CHUNK, Storage, chunks_of

MANIFEST = "manifest.json"
FORMAT = 1
_FILE = re.compile(r"(shard-\d{2,3}/(seen/)?)?[a-z0-9][a-z0-9.-]*", re.ASCII)


class CrawlBackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    time: float
    layout: CrawlLayout
    files: dict[str, FileChecksum]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


class BackupProgress(msgspec.Struct, frozen=True):
    done: int  # bytes
    total: int


def back_up(crawl: CrawlFrontier, target: Storage, *, now: float) -> Iterator[BackupProgress]:
    """Back up a crawl. Ends when the backup is there, whole. `Conflict` when the target has one."""
    require_no_backup(target)
    with copy_frontier(crawl) as folder:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): describe_file(path) for path in paths}
        layout = decode_layout((folder / "crawl.json").read_bytes(), source=str(folder / "crawl.json"))
        manifest = CrawlBackupManifest(format=FORMAT, time=now, layout=layout, files=files)
        done = 0
        for name, file in files.items():
            target.write(name, folder / name)
            done += file.size
            yield BackupProgress(done, manifest.size)
    target.write(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


def require_no_backup(target: Storage) -> None:
    try:
        target.stat(MANIFEST)
    except NotFound:
        return
    raise Conflict("there is a backup already: name another target, or remove that one")


def restore(crawl: CrawlFrontier, source: Storage, *, frontier: str | None = None) -> Iterator[BackupProgress]:
    """Make a crawl of a backup. Everything is fetched and checked before anything of it counts.

    `frontier`: where that of the crawl is from now on, if not in its folder.
    """
    manifest = read_manifest(source)
    check_backend(manifest.layout, crawl)
    if crawl.folder.exists():
        raise Conflict(f"{crawl.root} has a frontier already: name another DIR")
    atomic.make_folder(crawl.root)
    fetched = crawl.root / f"{RESERVED}restore"
    remove_folder(fetched)  # of one that was killed
    try:
        done = 0
        for name, file in manifest.files.items():
            fetch_file(source, name, file, fetched / name)
            done += file.size
            yield BackupProgress(done, manifest.size)
        with crawl.backend.restore_guard(), create_folder(crawl.folder) as draft:
            restore_shards(crawl, manifest.layout, fetched, draft)
            rename_crawl(draft, manifest.layout, name=crawl.paths.collection.name, frontier=frontier)
    finally:
        remove_folder(fetched)


def read_manifest(source: Storage) -> CrawlBackupManifest:
    try:
        manifest = msgspec.json.decode(source.read(MANIFEST), type=CrawlBackupManifest)
    except NotFound:
        raise NotFound(f"that is no backup: there is no {MANIFEST} in it") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(str(error), reason="corrupt", source=MANIFEST) from error
    if manifest.format > FORMAT:
        raise Misconfigured("the backup was made by a newer webmill: use that version")
    for name in manifest.files:
        if not _FILE.fullmatch(name):
            raise BadInput(f"not a file of a backup: {name[:200]!r}", reason="corrupt", source=MANIFEST)
    return manifest


def check_backend(layout: CrawlLayout, crawl: CrawlFrontier) -> None:
    if layout.on_nodes and not crawl.backend.is_shared:
        raise Misconfigured("the backup is of a frontier in Redis: give --frontier redis://… to restore it to")
    if crawl.backend.is_shared and not layout.on_nodes:
        raise Misconfigured("the backup is of a frontier on disk: leave --frontier out")


def fetch_file(source: Storage, name: str, expected: FileChecksum, path: Path) -> None:
    atomic.make_folder(path.parent)
    digest, size = hashlib.sha256(), 0
    with source.open(name) as stream, os_errors(str(path)), path.open("wb") as file:
        for chunk in chunks_of(stream, CHUNK, most=expected.size + 1):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
    if FileChecksum(size, digest.hexdigest()) != expected:
        raise BadInput("a file of the backup is not what was written", reason="corrupt", source=name)


def restore_shards(crawl: CrawlFrontier, layout: CrawlLayout, fetched: Path, draft: Path) -> None:
    for shard in range(layout.shards):
        crawl.backend.restore_shard(shard_copy(fetched, shard), draft / crawl.paths.shard(shard).name)
        messages = messages_file(fetched, shard)
        if messages.exists():
            inbox = crawl.backends.open_inbox(draft / crawl.paths.inbox(shard).name)
            for message in read_frames(messages):
                inbox.publish([message])
            inbox.close()
    crawl.backend.load_shared(crawl.paths, layout.shards, saved=fetched, draft=draft)
    for name in SMALL_FILES:
        if (fetched / name).exists():
            shutil.copyfile(fetched / name, draft / name)


def rename_crawl(draft: Path, layout: CrawlLayout, *, name: str, frontier: str | None) -> None:
    """Give the crawl its name, whatever its folder is called, and the crawl of its frontier."""
    flags = draft / "flags.json"
    kept = {**read_json(flags), "name": name} | ({"frontier": frontier} if frontier else {})
    flags.write_bytes(seal_json(msgspec.json.format(msgspec.json.encode(kept))))
    restored = msgspec.structs.replace(layout, name=name, files=())  # not all are in a backup
    (draft / "crawl.json").write_bytes(seal_json(msgspec.json.encode(restored)))
