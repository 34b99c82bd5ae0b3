"""What is in the files of strangers: a WARC or ARC file is one archive, a WACZ has some, or has WACZ files in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from webmill.errors import BadInput
from webmill.formats import wacz
from webmill.formats.compression import zip_members
from webmill.formats.compression.zip_members import SeekableFile, ZipMember, ZipMemberFile
from webmill.formats.window import ByteSource
from webmill.index.archives import printable_path

OPEN_ENDINGS = (".warc.open", ".warc.gz.open", ".arc.gz.open")  # as webmill and Heritrix name them
_DERIVED_ENDINGS = (".wat", ".wet", ".wat.gz", ".wet.gz")


class IncomingArchive(msgspec.Struct, frozen=True, kw_only=True):
    """One archive. `name` is a stranger's word. `path` and how it looked: of one that is a file of its own."""

    label: str  # for people: which file, and what in it
    name: str
    size: int
    open: Callable[[], ByteSource]
    listed: wacz.ListedResource
    path: Path | None = None
    looks: os.stat_result | None = None

    def is_at_rest(self) -> bool:
        """Return whether the file is unchanged since it was opened. Archives in a WACZ have a checksum instead."""
        if self.path is None or self.looks is None:
            return True
        return is_unchanged(self.path.stat(), self.looks)


def is_unchanged(now: os.stat_result, before: os.stat_result) -> bool:
    return os.path.samestat(now, before) and now.st_mtime_ns == before.st_mtime_ns


def changed_error() -> BadInput:
    return BadInput("it changed while it was read: run again when it is at rest", reason="changed")


@contextmanager
def open_archives(path: Path) -> Iterator[Iterator[IncomingArchive | BadInput]]:
    """Open the archives in a file, unread; errors stand for those that cannot be opened."""
    label = printable_path(str(path))
    if not path.is_file():  # a pipe has no end to look at
        raise BadInput("not a regular file: save it to disk first", reason="bad_path", source=label)
    with path.open("rb") as file:
        looks = os.fstat(file.fileno())
        if file.read(4) in (zip_members.MAGIC, zip_members.EMPTY):
            yield _limit_count(_zip_archives(file, size=looks.st_size, label=label))
        elif path.name.lower().endswith((".wacz", ".zip")):
            raise BadInput("not a ZIP file, despite its name", reason="bad_zip", source=label)
        else:
            whole, none = partial(_FileFromStart, file), wacz.ListedResource()
            size = looks.st_size
            yield iter(
                [
                    IncomingArchive(
                        label=label, name=path.name, size=size, open=whole, listed=none, path=path, looks=looks
                    )
                ]
            )


def _limit_count(items: Iterable[IncomingArchive | BadInput]) -> Iterator[IncomingArchive | BadInput]:
    """Bound the archives of a file in total: ten thousand files of ten thousand members would fill the memory."""
    for number, item in enumerate(items):
        if number >= zip_members.MAX_MEMBERS:
            message = f"more than {zip_members.MAX_MEMBERS} archives: unpack it, and add what is in it"
            raise BadInput(message, reason="too_large")
        yield item


def refuse_unsuitable(name: str) -> None:
    if name.lower().endswith(OPEN_ENDINGS):
        message = "somebody is still writing it: add it when it has lost its .open"
        raise BadInput(message, reason="open")
    if name.lower().endswith(_DERIVED_ENDINGS):
        message = "WAT and WET are made of WARC files: add those, then `webmill derive all … --in-place`"
        raise BadInput(message, reason="derived")


class _FileFromStart:
    """Reads a file from its beginning, whatever its current position."""

    def __init__(self, file: SeekableFile) -> None:
        self._file, self._at = file, 0

    def read(self, size: int, /) -> bytes:
        self._file.seek(self._at)
        data = self._file.read(size)
        self._at += len(data)
        return data


def _zip_archives(
    file: SeekableFile, *, size: int, label: str, nested: bool = False
) -> Iterator[IncomingArchive | BadInput]:
    members = {member.name: member for member in zip_members.read_directory(file, size=size)}
    listed = _read_listed(file, members)
    archives = [member for name, member in members.items() if wacz.is_archive(name)]
    packages = [member for name, member in members.items() if name.lower().endswith(".wacz")]
    for member in archives:
        yield IncomingArchive(
            label=f"{label}: {member.name}",
            name=member.name,
            size=member.size,
            open=partial(zip_members.open_member, file, member),
            listed=listed.get(member.name, wacz.ListedResource()),
        )
    for path in listed:
        if wacz.is_archive(path) and path not in members:
            message = f"{wacz.PACKAGE} lists it, but it is not there: get a whole copy"
            yield BadInput(message, reason="missing", source=f"{label}: {printable_path(path)}")
    for member in packages:
        yield from _nested_archives(file, member, label=f"{label}: {member.name}", nested=nested)
    if not archives and not packages:
        raise BadInput("no WACZ: there is no *.warc.gz in it", reason="no_archives", source=label)


def _nested_archives(
    file: SeekableFile, member: ZipMember, *, label: str, nested: bool
) -> Iterator[IncomingArchive | BadInput]:
    """A WACZ in a WACZ, as Browsertrix gives several crawls; not one in that."""
    try:
        if nested:
            raise BadInput("a WACZ in a WACZ in a WACZ: unpack it first", reason="bad_zip")
        part = ZipMemberFile(file, member)
        yield from _zip_archives(part, size=part.size, label=label, nested=True)
    except BadInput as error:
        yield BadInput(error.message, reason=error.reason, source=error.source or label)


def _read_listed(file: SeekableFile, members: dict[str, ZipMember]) -> dict[str, wacz.ListedResource]:
    """Return the resources listed in the package; none when there is no list."""
    package, digest = (
        zip_members.read_member(file, members[name], most=wacz.MAX_PACKAGE) if name in members else None
        for name in (wacz.PACKAGE, wacz.DIGEST)
    )
    if package is None:
        return {}
    if digest is not None:
        wacz.check_digest(digest, package)
    return wacz.read_package(package)
