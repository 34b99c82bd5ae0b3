"""The paths and names of the WARC files of a crawl, finished or not.

    crawl-data/NAME/segments/SEGMENT/{warc,crawldiagnostics,robotstxt}/NAME-20240712094214-STEM-00000.warc.gz

A file that is being written ends in `.open`: no tool takes it for a WARC file. Captures and index lines use the final
name from the start; `open_stored` finds the file under either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.collection import Collection
from webmill.errors import Misconfigured, NotFound
from webmill.formats.cdx.zipnum import encode_block
from webmill.formats.warc.capture import Subset
from webmill.infra import atomic
from webmill.infra.files import as_webmill_error
from webmill.infra.storage.backends import open_readable
from webmill.infra.storage.uploads import uploaded_file, uploaded_files

# The names of the lists of files, as Common Crawl has them.
PATHS_FILES: dict[Subset, str] = {"warc": "warc", "crawldiagnostics": "non200responses", "robotstxt": "robotstxt"}
WARC_SUFFIX = ".warc.gz"
OPEN_SUFFIX = ".open"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


class Segment(msgspec.Struct, frozen=True):
    """One segment of a crawl: the folder of the WARC files of one run."""

    collection: Collection
    name: str

    def __post_init__(self) -> None:
        check_name(self.name, what="segment")

    def folder(self, subset: Subset) -> Path:
        return self.collection.segments / self.name / subset


def check_name(name: str, *, what: str) -> str:
    """Return the name of a segment or stem. Raise Misconfigured if it cannot be part of a file name."""
    if not _NAME.fullmatch(name):
        raise Misconfigured(f"{name!r} cannot name a {what}; use letters, digits, `-`, `_`, `.`, at most 80")
    return name


def warc_file_name(crawl: str, *, opened: datetime, stem: str, number: int) -> str:
    return f"{crawl}-{opened.astimezone(UTC):%Y%m%d%H%M%S}-{stem}-{number:05}{WARC_SUFFIX}"


def find_open_files(collection: Collection, *, segment: str | None = None, stem: str | None = None) -> Iterator[Path]:
    """Yield the files that are open, or were when their writer died; of all segments and stems unless one is given."""
    crawl, which = re.escape(collection.name), re.escape(stem) if stem else ".+"
    name = re.compile(rf"{crawl}-\d{{14}}-{which}-\d{{5,}}{re.escape(WARC_SUFFIX + OPEN_SUFFIX)}", re.ASCII)
    for folder in _folders(collection, tuple(PATHS_FILES), segment=segment):
        yield from sorted(file for file in folder.iterdir() if name.fullmatch(file.name))


def open_stored(collection: Collection, key: str) -> BinaryIO:
    """Open an archive for reading by its key, finished or not. Raise NotFound if there is none."""
    path = collection.root / key
    for candidate in (
        path,
        path.with_name(path.name + OPEN_SUFFIX),
        path,
    ):  # again: it may have been sealed in between
        try:
            return candidate.open("rb")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise as_webmill_error(error, str(candidate)) from error
    if uploaded_file(collection.root, key):
        return open_readable(str(collection.root)).open(key)
    raise NotFound(f"no archive {key} in {collection.root}")


def write_paths_files(collection: Collection) -> None:
    """Write `warc.paths.gz`, `non200responses.paths.gz`, `robotstxt.paths.gz`: the finished files, one per line, those
    that were uploaded and dropped among them.

    An unchanged list is not written; a kind without files has a list only if it had one before.
    """
    uploaded = uploaded_files(collection.root)
    for subset, kind in PATHS_FILES.items():
        listed = {
            collection.key(file)
            for folder in _folders(collection, (subset,))
            for file in folder.iterdir()
            if file.name.endswith(WARC_SUFFIX) and not file.name.startswith(".")
        }
        files = listed.union(key for key in uploaded if is_of_subset(collection, key, subset))
        target = collection.paths_file(kind)
        lines = encode_block([file.encode("utf-8", "surrogateescape") + b"\n" for file in sorted(files)])
        if target.exists() and target.read_bytes() == lines:
            continue
        if files or target.exists():
            atomic.write_bytes(target, lines)


def is_of_subset(collection: Collection, key: str, subset: Subset) -> bool:
    """Return whether a key names a file of this subset in a segment of the crawl."""
    parts = key.split("/")
    return parts[:3] == ["crawl-data", collection.name, "segments"] and len(parts) == 6 and parts[4] == subset


def _folders(collection: Collection, subsets: tuple[Subset, ...], *, segment: str | None = None) -> Iterator[Path]:
    if not collection.segments.is_dir():
        return
    for parent in [collection.segments / segment] if segment else sorted(collection.segments.iterdir()):
        for subset in subsets:
            folder = parent / subset
            if folder.is_dir():
                yield folder
