"""Backups of a crawl's frontier in a storage, and crawls made of them.

TARGET/manifest.json     written last: without it there is no backup
TARGET/…                 the files of a copy (`copying`), each with its size and SHA-256 in the manifest
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from webmill.crawl.frontier.backup import StoredFile, create_folder, describe_file
from webmill.crawl.frontier.framed_file import read_frames
from webmill.crawl.frontier_admin.copying import SMALL, copied, letters_file, part, remove
from webmill.crawl.frontier_admin.place import Place
from webmill.crawl.layout import CrawlLayout
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.infra import atomic
from webmill.infra.files import RESERVED, os_errors
from webmill.infra.storage.base import CHUNK, Storage, chunks_of

MANIFEST = "manifest.json"
FORMAT = 1
_FILE = re.compile(r"(shard-\d{2,3}/(seen/)?)?[a-z0-9][a-z0-9.-]*", re.ASCII)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    time: float
    layout: CrawlLayout
    files: dict[str, StoredFile]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())


class Progress(msgspec.Struct, frozen=True):
    done: int  # bytes
    total: int


def back_up(place: Place, target: Storage, *, now: float) -> Iterator[Progress]:
    """Ends when the backup is there, whole. `Conflict` when the target has one."""
    refuse_used(target)
    with copied(place) as folder:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): describe_file(path) for path in paths}
        layout = msgspec.json.decode((folder / "crawl.json").read_bytes(), type=CrawlLayout)
        manifest = Manifest(format=FORMAT, time=now, layout=layout, files=files)
        done = 0
        for name, file in files.items():
            target.write(name, folder / name)
            done += file.size
            yield Progress(done, manifest.size)
    target.write(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


def refuse_used(target: Storage) -> None:
    try:
        target.stat(MANIFEST)
    except NotFound:
        return
    raise Conflict("there is a backup already: name another target, or remove that one")


def restore(place: Place, source: Storage, *, frontier: str | None = None) -> Iterator[Progress]:
    """Everything is fetched and found to be what was written before anything of it counts.

    `frontier`: where that of the crawl is from now on, if not in its folder.
    """
    manifest = read_manifest(source)
    check_kind(manifest.layout, place)
    if place.folder.exists():
        raise Conflict(f"{place.root} has a frontier already: name another DIR")
    atomic.make_folder(place.root)
    fetched = place.root / f"{RESERVED}restore"
    remove(fetched)  # of one that was killed
    try:
        done = 0
        for name, file in manifest.files.items():
            fetch(source, name, file, fetched / name)
            done += file.size
            yield Progress(done, manifest.size)
        with place.tools.restoring(place.options), create_folder(place.folder) as draft:
            put_together(place, manifest.layout, fetched, draft)
            rename(draft, manifest.layout, name=place.options.folder.collection.name, frontier=frontier)
    finally:
        remove(fetched)


def read_manifest(source: Storage) -> Manifest:
    try:
        manifest = msgspec.json.decode(source.read(MANIFEST), type=Manifest)
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


def check_kind(layout: CrawlLayout, place: Place) -> None:
    if layout.on_nodes and not place.tools.is_shared:
        raise Misconfigured("the backup is of a frontier in Redis: give --frontier redis://… to restore it to")
    if place.tools.is_shared and not layout.on_nodes:
        raise Misconfigured("the backup is of a frontier on disk: leave --frontier out")


def fetch(source: Storage, name: str, expected: StoredFile, path: Path) -> None:
    atomic.make_folder(path.parent)
    digest, size = hashlib.sha256(), 0
    with source.open(name) as stream, os_errors(str(path)), path.open("wb") as file:
        for chunk in chunks_of(stream, CHUNK, most=expected.size + 1):
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
    if StoredFile(size, digest.hexdigest()) != expected:
        raise BadInput("a file of the backup is not what was written", reason="corrupt", source=name)


def put_together(place: Place, layout: CrawlLayout, fetched: Path, draft: Path) -> None:
    options = place.options
    for shard in range(layout.shards):
        place.tools.restore(part(fetched, shard), draft / options.folder.shard(shard).name)
        letters = letters_file(fetched, shard)
        if letters.exists():
            box = options.backends.open_inbox(draft / options.folder.inbox(shard).name)
            for letter in read_frames(letters):
                box.publish([letter])
            box.close()
    place.tools.load(options, layout.shards, saved=fetched, draft=draft)
    for name in SMALL:
        if (fetched / name).exists():
            shutil.copyfile(fetched / name, draft / name)


def rename(draft: Path, layout: CrawlLayout, *, name: str, frontier: str | None) -> None:
    """The crawl goes by this name, whatever its folder is called, and finds its frontier without being told."""
    flags = draft / "flags.json"
    kept = msgspec.json.decode(flags.read_bytes(), type=dict[str, object]) if flags.exists() else {}
    kept = {**kept, "name": name} | ({"frontier": frontier} if frontier else {})
    flags.write_bytes(msgspec.json.format(msgspec.json.encode(kept)))
    (draft / "crawl.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(layout, name=name)) + b"\n")
