"""Backups of a crawl's frontier in a storage, and crawls made of them.

TARGET/manifest.json     written last: without it there is no backup
TARGET/…                 the files of a copy (`frontier_copy`), each with its size and SHA-256 in the manifest
TARGET/part-PLACE/…      the same of one node, where nodes have a folder each: the shards whose files it has

Parts belong together if no shard has changed since its own part was made: each says the number of changes of all. Those
of a crawl that ran belong together if they were made together (`part_copy`).
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from webmill.crawl.frontier.backup import FileChecksum, create_folder, describe_file
from webmill.crawl.frontier.framed_file import read_frames
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.frontier_admin.frontier_copy import (
    SMALL_FILES,
    copy_frontier,
    remove_folder,
)
from webmill.crawl.frontier_admin.part_copy import Notice
from webmill.crawl.frontier_admin.shard_copies import messages_file, shard_copy
from webmill.crawl.layout import CrawlLayout, decode_layout
from webmill.crawl.stored_settings import read_json
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.infra import atomic
from webmill.infra.checksums import seal_json
from webmill.infra.files import RESERVED, os_errors
from webmill.infra.storage.base import CHUNK, Storage, chunks_of

MANIFEST = "manifest.json"
FORMAT = 1
_PART = re.compile(r"part-[0-9a-f]{1,32}/manifest\.json", re.ASCII)
_FILE = re.compile(r"(shard-\d{2,3}/(seen/)?)?[a-z0-9][a-z0-9.-]*", re.ASCII)


class CrawlBackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    time: float
    layout: CrawlLayout
    files: dict[str, FileChecksum]
    shards: list[int] | None = None  # of a part: those that it has
    changes: dict[str, str] = {}  # of a part: how often each shard has changed
    copying: str = ""  # of a part that was made while the crawl ran: what all of its parts are called together

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


class BackupPart(NamedTuple):
    """A manifest, and what is before the names of its files."""

    prefix: str
    manifest: CrawlBackupManifest


class BackupProgress(msgspec.Struct, frozen=True):
    done: int  # bytes
    total: int


def back_up(
    crawl: CrawlFrontier, target: Storage, *, now: float, notice: Notice = lambda _: None
) -> Iterator[BackupProgress]:
    """Back up a crawl, or this node's part of it. Ends when that is there, whole. `Conflict` when the target has it."""
    here = crawl.shards_here()
    is_part = len(here) < crawl.shards()
    prefix = f"part-{(crawl.folder / 'place').read_text().strip()}/" if is_part else ""
    require_no_backup(target, prefix)
    with copy_frontier(crawl, notice=notice) as (folder, copying):
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): describe_file(path) for path in paths}
        layout = decode_layout((folder / "crawl.json").read_bytes(), source=str(folder / "crawl.json"))
        manifest = CrawlBackupManifest(format=FORMAT, time=now, layout=layout, files=files)
        if is_part:
            changes = crawl.backend.change_numbers(crawl.paths, layout.shards)
            manifest = msgspec.structs.replace(manifest, shards=here, changes=changes, copying=copying)
        done = 0
        for name, file in files.items():
            target.write(prefix + name, folder / name)
            done += file.size
            yield BackupProgress(done, manifest.size)
    target.write(prefix + MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


def require_no_backup(target: Storage, prefix: str) -> None:
    try:
        target.stat(prefix + MANIFEST)
    except NotFound:
        return
    raise Conflict("there is a backup already: name another target, or remove that one")


def restore(crawl: CrawlFrontier, source: Storage, *, frontier: str | None = None) -> Iterator[BackupProgress]:
    """Make a crawl of a backup. Everything is fetched and checked before anything of it counts.

    `frontier`: where that of the crawl is from now on, if not in its folder.
    """
    parts = read_parts(source)
    check_parts(parts)
    manifest = parts[-1].manifest
    check_backend(manifest.layout, crawl)
    if crawl.folder.exists():
        raise Conflict(f"{crawl.root} has a frontier already: name another DIR")
    atomic.make_folder(crawl.root)
    fetched = crawl.root / f"{RESERVED}restore"
    remove_folder(fetched)  # of one that was killed
    try:
        done, files = 0, list(files_of(parts))
        total = sum(file.size for _, _, file in files)
        for prefix, name, file in files:
            fetch_file(source, prefix + name, file, fetched / name)
            done += file.size
            yield BackupProgress(done, total)
        with crawl.backend.restore_guard(), create_folder(crawl.folder) as draft:
            restore_shards(crawl, manifest.layout, fetched, draft)
            rename_crawl(draft, manifest.layout, name=crawl.paths.collection.name, frontier=frontier)
    finally:
        remove_folder(fetched)


def read_parts(source: Storage) -> list[BackupPart]:
    """Return the backup, or its parts, the newest last."""
    try:
        return [BackupPart("", read_manifest(source))]
    except NotFound:
        keys = [stat.key for stat in source.list("part-")]
    prefixes = [key.removesuffix(MANIFEST) for key in keys if _PART.fullmatch(key)]
    parts = [BackupPart(prefix, read_manifest(source, prefix)) for prefix in prefixes]
    if not parts:
        raise NotFound(f"that is no backup: there is no {MANIFEST} in it")
    return sorted(parts, key=lambda part: part.manifest.time)


def check_parts(parts: list[BackupPart]) -> None:
    """Raise BadInput unless the parts are of one moment, and have every shard once."""
    shards = parts[-1].manifest.layout.shards
    found = sorted(shard for _, one in parts for shard in range(shards) if one.shards is None or shard in one.shards)
    if found != list(range(shards)):
        missing = ", ".join(str(shard) for shard in range(shards) if shard not in found)
        what = f"shards {missing} are in no part: back them up on the nodes that have their files"
        raise BadInput(what if missing else "a shard is in several parts", reason="incomplete", source=MANIFEST)
    if len({manifest.copying for _, manifest in parts}) > 1:
        raise BadInput(
            "its parts were not made together: back up all nodes again, to another target",
            reason="inconsistent",
            source=MANIFEST,
        )
    if parts[0].manifest.copying:
        return
    for number, (_, earlier) in enumerate(parts):
        for shard in earlier.shards or ():
            name = f"shard-{shard:02d}"
            if any(later.changes.get(name) != earlier.changes.get(name) for _, later in parts[number + 1 :]):
                raise BadInput(
                    f"{name} has changed since its part was made: the crawl went on between the parts. Stop all nodes "
                    "and back up each of them, to another target",
                    reason="inconsistent",
                    source=MANIFEST,
                )


def files_of(parts: list[BackupPart]) -> Iterator[tuple[str, str, FileChecksum]]:
    """Yield the files to fetch: shards from their parts, all else from the newest, whose messages are the last. The
    messages of a crawl that ran are with their shards."""
    for prefix, manifest in parts:
        for name, file in manifest.files.items():
            is_own = name.startswith(("shard-", "mail-") if manifest.copying else "shard-")
            is_of_all = not (name.startswith("mail-") and manifest.copying)
            if is_own or (is_of_all and prefix == parts[-1].prefix):
                yield prefix, name, file


def read_manifest(source: Storage, prefix: str = "") -> CrawlBackupManifest:
    try:
        manifest = msgspec.json.decode(source.read(prefix + MANIFEST), type=CrawlBackupManifest)
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
