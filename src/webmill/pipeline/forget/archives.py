"""Take records out of archives: a tombstone as long as the record takes its place, so all others stay where they are.

The new file is written aside, synced, and takes the name of the old one, which stays in `.webmill/forget/originals/`
until `webmill forget --gc`. Lines of an index, rows of documents and items of versions that lead to other records of
the file lead there still, byte for byte.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from webmill.errors import BadInput, Misconfigured, WebmillError
from webmill.forgotten import FOLDER, ForgetRule, Forgotten
from webmill.formats.warc.scan import ScannedRecord, scan_records
from webmill.formats.warc.tombstone import tombstone
from webmill.index.build.capture_fields import url_of
from webmill.index.lines import open_input
from webmill.infra import atomic
from webmill.infra.files import os_errors
from webmill.model import Damage

ORIGINALS = f"{FOLDER}/originals"
PIECE = 1 << 20
BETWEEN = 4  # bytes of the two empty lines between plain records
DERIVED = (("wat", ".warc.wat.gz"), ("wet", ".warc.wet.gz"))


class RemovedSpan(msgspec.Struct, frozen=True):
    """Contiguous records that were taken down, by the rule of the first."""

    start: int
    end: int
    rule: ForgetRule


class RewrittenArchive(msgspec.Struct, frozen=True, kw_only=True):
    """`records` were taken out; `problem` says why some were not."""

    path: str
    records: int = 0
    problem: str = ""


def rewrite_archive(root: Path, key: str, forgotten: Forgotten) -> RewrittenArchive:
    """Take the records out of one archive. One that holds none is left alone."""
    path = root / key
    try:
        spans, records, problem = find_spans(path, forgotten)
        if spans:
            pieces = {span.start: (span.end, bytes_of(path, span, key)) for span in spans}
            keep_original(root, key)
            with open_input(path) as old, atomic.writing(path) as new:
                copy_with(old, new, pieces)
    except (WebmillError, OSError) as error:
        return RewrittenArchive(path=key, problem=str(error))
    return RewrittenArchive(path=key, records=records, problem=problem)


def find_spans(path: Path, forgotten: Forgotten) -> tuple[list[RemovedSpan], int, str]:
    """Return what is to be taken out of a file, how many records that are, and what stands against it."""
    spans: list[RemovedSpan] = []
    records, problem = 0, ""
    kind = kind_of(path)
    for record, rule in covered_records(path, forgotten):
        if record.is_arc or not record.length:
            problem = "ARC files are not rewritten" if record.is_arc else "records share one compressed member"
            continue
        records += 1
        gap = BETWEEN if kind == "warc" else 0
        if spans and record.offset - spans[-1].end == gap:
            spans[-1] = msgspec.structs.replace(spans[-1], end=record.offset + record.length)
        else:
            spans.append(RemovedSpan(record.offset, record.offset + record.length, rule))
    return spans, records, problem


def covered_records(path: Path, forgotten: Forgotten) -> Iterator[tuple[ScannedRecord, ForgetRule]]:
    with open_input(path) as source:
        for item in scan_records(source, enough=lambda *_: True):
            if isinstance(item, Damage):
                continue  # `webmill warc check` names it
            target = item.fields.get(b"WARC-Target-URI")
            rule = forgotten.find(url_of(target, is_arc=item.is_arc)) if target else None
            if rule:
                yield item, rule


def kind_of(path: Path) -> str:
    with open_input(path) as file:
        start = file.read(4)
    return "gzip" if start.startswith(b"\x1f\x8b") else "zstd" if not start.startswith(b"WARC") else "warc"


def bytes_of(path: Path, span: RemovedSpan, key: str) -> bytes:
    return tombstone(span.end - span.start, kind_of(path), at=span.rule.at, name=f"{key}#{span.start}")


def read_without(root: Path, key: str, forgotten: Forgotten) -> Iterator[bytes]:
    """Yield an archive with tombstones for what was taken down, as long as it is. Misconfigured: not all of it can be
    cut out."""
    path = root / key
    spans, _, problem = find_spans(path, forgotten)
    if problem:
        raise Misconfigured(f"{key} holds pages that were taken down and cannot be left out of it ({problem})")
    with open_input(path) as old:
        for span in spans:
            yield from _pieces(old, span.start - old.tell())
            yield bytes_of(path, span, key)
            old.seek(span.end)
        yield from iter(lambda: old.read(PIECE), b"")


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (piece := file.read(min(size, PIECE))):
        yield piece
        size -= len(piece)


def copy_with(old: BinaryIO, new: BinaryIO, pieces: dict[int, tuple[int, bytes]]) -> None:
    at = 0
    for start, (end, data) in sorted(pieces.items()):
        copy_bytes(old, new, start - at)
        new.write(data)
        old.seek(end)
        at = end
    shutil.copyfileobj(old, new, PIECE)


def copy_bytes(old: BinaryIO, new: BinaryIO, size: int) -> None:
    while size:
        piece = old.read(min(size, PIECE))
        if not piece:
            raise BadInput("the file became shorter while it was read", reason="changed")
        new.write(piece)
        size -= len(piece)


def derived_keys(root: Path, key: str) -> Iterator[str]:
    """Yield the WAT and WET files beside an archive in a collection that are there."""
    for kind, ending in DERIVED:
        folder, slash, name = key.rpartition("/warc/")
        if slash and name.endswith(".warc.gz"):
            other = f"{folder}/{kind}/{name.removesuffix('.warc.gz')}{ending}"
            if (root / other).is_file():
                yield other


# --- originals ---


def keep_original(root: Path, key: str) -> None:
    """Keep a file as it is now under the originals, durably; one that is there from before is the original."""
    place = root / ORIGINALS / key
    if place.exists():
        return
    atomic.make_folder(place.parent)
    with os_errors(str(place)):
        try:
            os.link(root / key, place, follow_symlinks=True)
        except OSError:  # another file system, by a link
            with open_input(root / key) as old, atomic.writing(place) as copy:
                shutil.copyfileobj(old, copy, PIECE)
    with atomic.open_folder(place.parent) as folder:
        atomic.sync_folder(folder)


def list_originals(root: Path) -> list[str]:
    folder = root / ORIGINALS
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def restore_originals(root: Path) -> list[str]:
    """Put all originals back in their places; return which. What is still taken down is taken out again by the next
    `--rewrite`."""
    restored = []
    for key in list_originals(root):
        place = root / key
        atomic.make_folder(place.parent)
        with os_errors(str(place)):
            (root / ORIGINALS / key).replace(place)
            os.utime(place)  # whoever knows it by its times looks at it again
        with atomic.open_folder(place.parent) as folder:
            atomic.sync_folder(folder)
        restored.append(key)
    return restored


def drop_originals(root: Path) -> int:
    """Delete the originals for good; return how many there were."""
    gone = list_originals(root)
    shutil.rmtree(root / ORIGINALS, ignore_errors=True)
    return len(gone)
