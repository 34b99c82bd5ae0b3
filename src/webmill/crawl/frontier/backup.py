"""The folder of a frontier's backup: it appears whole or not at all, with a manifest to check its files against.

    BACKUP/manifest.json     what it is of, its version, counts, and size and SHA-256 of every other file
    BACKUP/…                 files of the backend

Nothing in it is changed later: files that never change are linked where that can be, all others are copied.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import FrontierStats
from webmill.crawl.frontier.url_queue_files import sync_tree
from webmill.errors import BadInput, Conflict, Misconfigured
from webmill.infra import atomic
from webmill.infra.files import RESERVED, os_errors

MANIFEST = "manifest.json"
FORMAT = 1  # of the manifest and of the files that backends share
_NAME = re.compile(r"(seen/)?[a-z0-9][a-z0-9.]*", re.ASCII)


class FileChecksum(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class FrontierBackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    backend: str
    version: int  # of what the backend keeps
    stats: FrontierStats
    files: dict[str, FileChecksum]
    facts: dict[str, str] = {}  # of the backend


_manifest = msgspec.json.Decoder(FrontierBackupManifest)


@contextmanager
def create_folder(folder: Path) -> Iterator[Path]:
    """Create a folder under another name; it takes its own, durably, when the block ends well. Unused before."""
    require_unused(folder)
    atomic.make_folder(folder.parent)
    draft = folder.parent / f"{RESERVED}draft-{folder.name}"
    with os_errors(str(folder)):
        shutil.rmtree(draft, ignore_errors=True)  # of one that was killed
        draft.mkdir()
        try:
            yield draft
            sync_tree(draft)
            draft.rename(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        with atomic.open_folder(folder.parent) as parent:
            atomic.sync_folder(parent)


def require_unused(folder: Path) -> None:
    with os_errors(str(folder)):
        if folder.is_symlink() or folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
            raise Conflict(f"{folder} is in use: name a folder that does not exist")


def link_or_copy(source: Path, target: Path) -> None:
    """Link a file that is never changed in its place, or copy it where links are not possible."""
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)


def write_manifest(
    draft: Path, *, backend: str, version: int, stats: FrontierStats, facts: dict[str, str] | None = None
) -> None:
    paths = sorted(path for path in draft.rglob("*") if path.is_file())
    files = {path.relative_to(draft).as_posix(): describe_file(path) for path in paths}
    manifest = FrontierBackupManifest(
        format=FORMAT, backend=backend, version=version, stats=stats, files=files, facts=facts or {}
    )  # fmt: skip
    (draft / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))


def describe_file(path: Path) -> FileChecksum:
    with os_errors(str(path)), path.open("rb") as file:
        return FileChecksum(size=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def read_manifest(folder: Path, *, backend: str, version: int) -> FrontierBackupManifest:
    """Return the manifest, once all files are what was written; `BadInput` names the first that is not."""
    path = folder / MANIFEST
    if not path.is_file():
        raise Misconfigured(f"{folder} is no backup of a frontier: it has no {MANIFEST}")
    try:
        manifest = _manifest.decode(path.read_bytes())
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # ValueError: not UTF-8
        raise BadInput(f"not a manifest: {error}", reason="corrupt", source=str(path)) from error
    if manifest.backend != backend:
        raise Misconfigured(f"{folder} is the backup of another kind of frontier: {manifest.backend}, not {backend}")
    if manifest.format > FORMAT or manifest.version > version:
        raise Misconfigured(f"{folder} was made by a newer webmill: use that version")
    for name, expected in manifest.files.items():
        check_file(folder, name, expected)
    return manifest


def check_file(folder: Path, name: str, expected: FileChecksum) -> None:
    path = folder / name
    if not _NAME.fullmatch(name):
        raise BadInput(f"not a file of a backup: {name!r}", reason="corrupt", source=str(folder / MANIFEST))
    if not path.is_file():
        raise BadInput("a file of the backup is gone", reason="corrupt", source=str(path))
    if describe_file(path) != expected:
        raise BadInput("a file of the backup is not what was written", reason="corrupt", source=str(path))
