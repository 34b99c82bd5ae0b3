"""Archives of strangers become a segment of a crawl: `crawl-data/NAME/segments/added/warc/`, byte for byte.

An archive appears under its name when it was read to its end, is what it should be, and is durable. One that the crawl
has already, by its bytes and whatever its name, is not taken again: killed anywhere and run again, nothing is there
twice. Names of strangers give names of files, never paths.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from webmill.collection import ARCHIVE_ENDINGS, Collection
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.formats.compression import gzip_members, zstd_frames
from webmill.formats.window import ByteSource
from webmill.index.archives import find_local_archives, printable_path
from webmill.index.state import FILE_NAME, open_state
from webmill.infra import atomic, lock
from webmill.infra.files import RESERVED, os_errors
from webmill.model import ArchiveReject
from webmill.pipeline.add.checking import CHUNK, ArchiveScan, scan_archive
from webmill.pipeline.add.incoming import IncomingArchive, changed_error, is_unchanged, open_archives
from webmill.pipeline.progress import ProgressReporter

log = logging.getLogger(__name__)

SEGMENT = "added"
MAX_NAME_BYTES = 180  # bytes: a digest may follow, and names derived from it are longer
_UNSAFE = re.compile(r"[^\w.-]+")


class AddedArchive(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is where it is in the collection now; `damage` counts by reason what cannot be indexed of it."""

    source: str
    key: str
    bytes: int
    records: int = 0
    captures: int = 0
    damage: dict[str, int] = {}
    first_damage: str | None = None


class AddReport(msgspec.Struct, kw_only=True):
    """`there`: had been there before, under whatever name."""

    added: list[AddedArchive] = []
    there: list[AddedArchive] = []
    rejects: list[ArchiveReject] = []

    @property
    def damaged(self) -> list[AddedArchive]:
        return [archive for archive in self.added if archive.damage]


def add_archives(
    collection: Collection, files: Iterable[Path], *, progress: ProgressReporter, linked: bool = False
) -> AddReport:
    """`linked`: files share their bytes with the collection instead of being copied; archives in a WACZ are copied.

    A collection is made when there is none, unless nothing is taken. `Conflict` when another process is at it.
    """
    folder = added_folder(collection)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    atomic.make_folder(collection.root)
    with _explaining_unavailable(), lock.exclusive(collection.root, "add", doing="adding archives"):
        atomic.make_folder(folder)
        try:
            atomic.remove_stale_temps(folder)
            put = partial(link_in if linked else copy_in, folder=folder, progress=progress)
            return _add_each(files, KnownArchives(collection), remembering_checksums(put, collection))
        finally:
            remove_unused(new)


def check_archives(collection: Collection, files: Iterable[Path], *, progress: ProgressReporter) -> AddReport:
    """Report what `add_archives` would do. Everything is read, nothing is changed."""
    return _add_each(
        files, KnownArchives(collection), partial(scan_only, folder=added_folder(collection), progress=progress)
    )


def remove_unused(folders: Iterable[Path]) -> None:
    """Of folders that were made just now, those without anything in them but our lock. Inner ones come first."""
    for folder in folders:
        try:
            there = list(folder.iterdir())
            if [path.name for path in there] == [f"{RESERVED}add-lock"]:
                there[0].unlink()
            folder.rmdir()
        except OSError:  # it is used, and so are those around it
            return


def added_folder(collection: Collection) -> Path:
    return collection.segments / SEGMENT / "warc"


@contextmanager
def _explaining_unavailable() -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        message = f"{error}. Make room or repair it, then run the same command again: what is there is not taken twice"
        raise Unavailable(message) from error


def _add_each(files: Iterable[Path], shelf: KnownArchives, put: PutArchive) -> AddReport:
    report = AddReport()
    for file in files:
        try:
            with open_archives(file) as found:
                for one in found:
                    if isinstance(one, BadInput):
                        report.rejects.append(make_reject(file, one))
                    else:
                        _add_one(one, shelf, put, report)
        except BadInput as error:
            report.rejects.append(make_reject(file, error))
        except OSError as error:  # of the file that is read: what is written has errors of ours
            report.rejects.append(ArchiveReject(printable_path(str(file)), "unreadable", error.strerror or str(error)))
    return report


def make_reject(file: Path, error: BadInput) -> ArchiveReject:
    return ArchiveReject(error.source or printable_path(str(file)), error.reason, error.message)


def _add_one(incoming: IncomingArchive, shelf: KnownArchives, put: PutArchive, report: AddReport) -> None:
    try:
        same = shelf.same_as(incoming)
        if same is not None:
            report.there.append(AddedArchive(source=incoming.label, key=same, bytes=incoming.size))
            return
        path, found = put(incoming)
    except BadInput as error:
        report.rejects.append(ArchiveReject(incoming.label, error.reason, error.message))
        return
    key = shelf.note(path, incoming.size)
    report.added.append(
        AddedArchive(
            source=incoming.label,
            key=key,
            bytes=incoming.size,
            records=found.records,
            captures=found.captures,
            damage=dict(sorted(found.damage.items())),
            first_damage=found.first,
        )
    )


# --- what is there ----------------------------------------------------------------------------------------------------


class KnownArchives:
    """The archives of a crawl by size, to find duplicates."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._keys: dict[int, list[str]] = {}
        for key in sorted(find_local_archives(collection, refuse=lambda *_: None)) if collection.root.is_dir() else ():
            path = collection.root / key
            with os_errors(str(path)):
                self.note(path, path.stat().st_size)

    def note(self, path: Path, size: int) -> str:
        key = self._collection.key(path)
        self._keys.setdefault(size, []).append(key)
        return key

    def same_as(self, incoming: IncomingArchive) -> str | None:
        """Return the key of an archive with the same bytes."""
        return next((key for key in self._keys.get(incoming.size, ()) if self._is_same(key, incoming)), None)

    def _is_same(self, key: str, incoming: IncomingArchive) -> bool:
        path = self._collection.root / key
        try:
            with os_errors(str(path)):
                there = path.open("rb")
        except NotFound:  # noted by one who only looked
            return False
        with there:
            if incoming.looks and os.path.samestat(os.fstat(there.fileno()), incoming.looks):
                return True
            return has_same_bytes(there, incoming.open())


def has_same_bytes(one: ByteSource, other: ByteSource) -> bool:
    """Compare two sources up to the first difference."""
    left = right = b""
    while True:
        left = left or one.read(CHUNK)
        right = right or other.read(CHUNK)
        most = min(len(left), len(right))
        if left[:most] != right[:most]:
            return False
        if not most:
            return not left and not right
        left, right = left[most:], right[most:]


# --- what its bytes are ---


def remembering_checksums(put: PutArchive, collection: Collection) -> PutArchive:
    """Return `put`, after which the index knows the bytes that were read: it tells when they are others."""

    def put_and_remember(incoming: IncomingArchive) -> tuple[Path, ArchiveScan]:
        path, found = put(incoming)
        file = collection.cdxj / FILE_NAME
        if found.checksum and (file.exists() or not collection.zipnum.is_dir()):  # no state beside a foreign index
            try:
                atomic.make_folder(collection.cdxj)
                with open_state(file, anew=False) as state:
                    state.record_checksum(collection.key(path), found.checksum)
            except WebmillError as error:  # the archive is in place; the index takes it as it finds it
                log.warning("checksum not recorded", extra={"file": str(path), "reason": str(error)})
        return path, found

    return put_and_remember


# --- how it gets there ------------------------------------------------------------------------------------------------


PutArchive = Callable[[IncomingArchive], tuple[Path, ArchiveScan]]  # where it is then, and what is in it


def scan_only(incoming: IncomingArchive, *, folder: Path, progress: ProgressReporter) -> tuple[Path, ArchiveScan]:
    """Read an archive and return where it would go."""
    name = file_name(incoming)
    with progress(f"Reading {name}", total=incoming.size, unit="bytes") as bar:
        return folder / name, scan_archive(incoming, None, bar)


def copy_in(incoming: IncomingArchive, *, folder: Path, progress: ProgressReporter) -> tuple[Path, ArchiveScan]:
    name = file_name(incoming)
    with (
        progress(f"Adding {name}", total=incoming.size, unit="bytes") as bar,
        atomic.open_folder(folder) as fd,
        atomic.drafting(fd, what=str(folder / name)) as draft,
    ):
        found = scan_archive(incoming, draft.file, bar)
        draft.sync()
        return folder / create_unused(name, found, draft.create), found


def link_in(incoming: IncomingArchive, *, folder: Path, progress: ProgressReporter) -> tuple[Path, ArchiveScan]:
    if incoming.path is None or incoming.looks is None:
        return copy_in(incoming, folder=folder, progress=progress)
    source, looks = incoming.path.resolve(), incoming.looks
    path, found = scan_only(incoming, folder=folder, progress=progress)
    return folder / create_unused(path.name, found, lambda name: hardlink(source, folder / name, looks=looks)), found


def hardlink(source: Path, target: Path, *, looks: os.stat_result) -> None:
    """Link `source` durably, if it is still the file that was read."""
    try:
        with source.open("rb") as file, atomic.open_folder(target.parent) as folder:
            if not is_unchanged(os.fstat(file.fileno()), looks):
                raise changed_error()
            atomic.sync(file.fileno())
            os.link(source, target.name, dst_dir_fd=folder)
            atomic.sync_folder(folder)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise Conflict(f"{target} is there") from error
        message = f"{source} cannot be linked into {target.parent}: {error.strerror}; run it without --link"
        raise Misconfigured(message) from error


def create_unused(name: str, found: ArchiveScan, create: Callable[[str], None]) -> str:
    """Create the file; if the name is taken, with the digest in its name. Return the name."""
    try:
        create(name)
    except Conflict:
        ending = archive_ending(name)
        name = f"{name.removesuffix(ending)}-{found.hexdigest[:16]}{ending}"
        create(name)
    return name


def file_name(incoming: IncomingArchive) -> str:
    """Return a safe file name: letters, digits, `-`, `_`, `.`, of bounded length, with an archive ending."""
    name = _UNSAFE.sub("-", re.split(r"[/\\]", incoming.name)[-1])
    ending = archive_ending(name) or _ending_by_magic(incoming.open().read(4))
    stem = name.removesuffix(ending).strip(".-").encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return (stem or "archive") + ending


def archive_ending(name: str) -> str:
    return next((name[-len(ending) :] for ending in ARCHIVE_ENDINGS if name.lower().endswith(ending)), "")


def _ending_by_magic(start: bytes) -> str:
    if start.startswith(gzip_members.MAGIC):
        return ".warc.gz"
    return ".warc.zst" if zstd_frames.is_frame(start) else ".warc"
