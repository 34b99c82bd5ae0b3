"""Where a crawl's WARC files lie and what they are called, finished or not.

    crawl-data/NAME/segments/SEGMENT/{warc,crawldiagnostics,robotstxt}/NAME-20240712094214-STEM-00000.warc.gz

A file that is still written has `.open` behind its name: no tool takes it for a WARC file. What is said about its
records (offsets, keys in an index) has the final name from the start; `open_stored` finds them under either.
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

# The lists of a crawl's files, by what Common Crawl calls them.
PATHS_FILES: dict[Subset, str] = {"warc": "warc", "crawldiagnostics": "non200responses", "robotstxt": "robotstxt"}
WARC_SUFFIX = ".warc.gz"
OPEN_SUFFIX = ".open"

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


class Segment(msgspec.Struct, frozen=True):
    collection: Collection
    name: str

    def __post_init__(self) -> None:
        check_name(self.name, what="segment")

    def folder(self, subset: Subset) -> Path:
        return self.collection.segments / self.name / subset


def check_name(word: str, *, what: str) -> str:
    if not _WORD.fullmatch(word):
        raise Misconfigured(f"no name for a {what}: {word!r}; use letters, digits, `-`, `_`, `.`, at most 80")
    return word


def warc_file_name(crawl: str, *, opened: datetime, stem: str, number: int) -> str:
    return f"{crawl}-{opened.astimezone(UTC):%Y%m%d%H%M%S}-{stem}-{number:05}{WARC_SUFFIX}"


def find_open_files(collection: Collection, *, segment: str | None = None, stem: str | None = None) -> Iterator[Path]:
    """Files that are being written, or were when their writer died; of any segment and stem unless one is named."""
    crawl, which = re.escape(collection.name), re.escape(stem) if stem else ".+"
    name = re.compile(rf"{crawl}-\d{{14}}-{which}-\d{{5,}}{re.escape(WARC_SUFFIX + OPEN_SUFFIX)}", re.ASCII)
    for folder in _folders(collection, tuple(PATHS_FILES), segment=segment):
        yield from sorted(file for file in folder.iterdir() if name.fullmatch(file.name))


def open_stored(collection: Collection, key: str) -> BinaryIO:
    """The archive of this key for reading, be it finished or not. `NotFound` when there is none."""
    path = collection.root / key
    for candidate in (
        path,
        path.with_name(path.name + OPEN_SUFFIX),
        path,
    ):  # again: it may have been finished in between
        try:
            return candidate.open("rb")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise as_webmill_error(error, str(candidate)) from error
    raise NotFound(f"no archive {key} in {collection.root}")


def write_paths_files(collection: Collection) -> None:
    """`warc.paths.gz`, `non200responses.paths.gz`, `robotstxt.paths.gz`: the finished files, one to a line.

    A list that says the same already is left alone; a kind of which there are no files has a list only if it had one.
    """
    for subset, kind in PATHS_FILES.items():
        files = [
            collection.key(file)
            for folder in _folders(collection, (subset,))
            for file in folder.iterdir()
            if file.name.endswith(WARC_SUFFIX) and not file.name.startswith(".")
        ]
        target = collection.paths_file(kind)
        lines = encode_block([file.encode("utf-8", "surrogateescape") + b"\n" for file in sorted(files)])
        if target.exists() and target.read_bytes() == lines:
            continue
        if files or target.exists():
            atomic.write_bytes(target, lines)


def _folders(collection: Collection, subsets: tuple[Subset, ...], *, segment: str | None = None) -> Iterator[Path]:
    if not collection.segments.is_dir():
        return
    for parent in [collection.segments / segment] if segment else sorted(collection.segments.iterdir()):
        for subset in subsets:
            folder = parent / subset
            if folder.is_dir():
                yield folder
