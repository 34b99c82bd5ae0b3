"""Write a ZipNum index: sorted lines in, shards of gzip blocks, then the summary that makes them an index.

    with rebuilding(folder) as target:                      # one rebuild at a time; decides how shards are named
        shards = write_shards(batches, target, …)           # a stream, cut by compressed size; or
        shards = [write_shard(part, target, number=n) …]    # ranges that follow each other, in any process
        publish(target, shards)                             # .loc, then cluster.idx, each at once and durably

The bytes depend on the lines and the options, not on threads, processes, batches or what was there before. A shard that
is replaced gets another name (`cdx-00000-HASH.gz`), and stays: whoever reads the old summary finds the old shards. It
goes with the first rebuild that is an hour later, or when what was replaced takes more room than the index itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from webmill.errors import BadInput, Conflict
from webmill.formats.cdx.cdxj import prefix_of
from webmill.formats.cdx.zipnum import (
    LINES_PER_BLOCK,
    MAX_SUMMARY_LINE,
    ShardLocation,
    ZipnumBlock,
    format_location,
    format_summary_line,
    parse_summary_line,
)
from webmill.index.lines import Batch, read_lines
from webmill.index.order import ensure_byte_order, urlkey
from webmill.index.zipnum.blocks import PackedBlock, compress_blocks
from webmill.index.zipnum.summary_checksums import (
    checksum_pages,
    known_generations,
    write_summary_checksums,
)
from webmill.infra.atomic import (
    Draft,
    drafting,
    make_folder,
    open_folder,
    remove_stale_temps,
    writing,
)
from webmill.infra.files import os_errors
from webmill.infra.lock import exclusive

SUMMARY = "cluster.idx"
LOCATIONS = "cluster.loc"
SHARD_SIZE = 100 << 20
GRACE = 3600.0  # seconds that a replaced shard stays for its readers
LEAST_ROOM = 64 << 20  # bytes that replaced shards may take beside a small index
SHARD_NAME = re.compile(r"cdx-[0-9]{5,}(?:-([0-9a-f]{8}))?\.gz", re.ASCII)

Naming = Literal["plain", "stamped"]


class ShardTarget(msgspec.Struct, frozen=True):
    """Where the shards of one rebuild go, and how they are named. May be sent to other processes."""

    folder: Path
    naming: Naming


class ZipNumShard(msgspec.Struct, frozen=True):
    """A shard that was written durably. One without lines has no blocks and no file."""

    name: str
    blocks: tuple[ZipnumBlock, ...] = ()
    lines: int = 0
    first: bytes = b""
    last: bytes = b""

    @property
    def size(self) -> int:
        return sum(block.length for block in self.blocks)


@contextmanager
def rebuilding(folder: Path, *, naming: Naming = "plain") -> Iterator[ShardTarget]:
    """Lock the folder to write and publish shards; `Conflict` while another process does.

    Where there are shards already, names are stamped whatever `naming` says: readers of the old index need its shards,
    and shards without a summary belong to somebody, too.
    """
    make_folder(folder)
    # Two rebuilds would remove each other's shards as leftovers.
    with exclusive(folder, "zipnum", doing="writing the index"):
        remove_stale_temps(folder)
        taken = any(SHARD_NAME.fullmatch(path.name) for path in folder.iterdir())
        yield ShardTarget(folder, "stamped" if taken else naming)


def write_index(
    batches: Iterable[Batch],
    folder: Path,
    *,
    lines: int = LINES_PER_BLOCK,
    shard_size: int = SHARD_SIZE,
    threads: int = 2,
    naming: Naming = "plain",
    source: str = "input",
) -> list[ZipNumShard]:
    """Write and publish an index of sorted batches. `BadInput` (unsorted) names the line."""
    with rebuilding(folder, naming=naming) as target:
        shards = list(write_shards(batches, target, lines=lines, shard_size=shard_size, threads=threads, source=source))
        publish(target, shards)
    return shards


def write_shards(
    batches: Iterable[Batch],
    target: ShardTarget,
    *,
    lines: int = LINES_PER_BLOCK,
    shard_size: int = SHARD_SIZE,
    threads: int = 2,
    source: str = "input",
) -> Iterator[ZipNumShard]:
    """Yield shards of at least `shard_size` compressed bytes, except the last, each when it is written.

    A shard ends where a block and a urlkey end together; where no urlkey ends it grows up to twice its size.
    """
    blocks = compress_blocks(ensure_byte_order(batches, source=source), lines=lines, threads=threads)
    number, pending = 0, next(blocks, None)
    while pending is not None:
        with _shard_writer(target, number) as writer:
            while pending is not None:
                writer.add(pending)
                before, pending = pending, next(blocks, None)
                if pending is not None and _is_full(writer.size, shard_size, before, pending):
                    break
            yield writer.finish()
        number += 1


def write_shard(
    batches: Iterable[Batch],
    target: ShardTarget,
    *,
    number: int,
    lines: int = LINES_PER_BLOCK,
    threads: int = 1,
    source: str = "input",
) -> ZipNumShard:
    """Write everything into one shard, which must sort after the one with the number before: `publish` checks it."""
    with _shard_writer(target, number) as writer:
        for block in compress_blocks(ensure_byte_order(batches, source=source), lines=lines, threads=threads):
            writer.add(block)
        return writer.finish()


def publish(target: ShardTarget, shards: Iterable[ZipNumShard], *, clock: Callable[[], float] = time.time) -> None:
    """Make these shards the index. Readers see the old one or the new one, never a mix."""
    folder = target.folder
    shards = [shard for shard in shards if shard.blocks]
    _check(folder, shards)
    names, old_names, is_ours = [shard.name for shard in shards], shards_in_summary(folder), (folder / SUMMARY).exists()
    _touch_replaced(folder, set(old_names) - set(names), now=clock())
    # pywb reads the locations before the summary, so these are first, and name what either summary names.
    _write_locations(folder, list(dict.fromkeys([*names, *old_names])))
    pages = checksum_pages(_summary_lines(shards))
    write_summary_checksums(folder / SUMMARY, pages, *known_generations(folder / SUMMARY))
    with writing(folder / SUMMARY) as file:
        file.writelines(_summary_lines(shards))
    write_summary_checksums(folder / SUMMARY, pages)
    if not set(old_names) <= set(names):
        _write_locations(folder, names)
    if is_ours:  # shards in a folder without a summary are not ours, or unfinished: they stay
        room = max(LEAST_ROOM, sum(shard.size for shard in shards))
        _remove_shards(folder, kept={*names, *old_names}, room=room, now=clock())


def _summary_lines(shards: Iterable[ZipNumShard]) -> Iterator[bytes]:
    for number, block in enumerate(chain.from_iterable(shard.blocks for shard in shards), start=1):
        yield format_summary_line(msgspec.structs.replace(block, number=number))


def shards_in_summary(folder: Path) -> list[str]:
    """Return the shards of the current index, as far as its summary can be read."""
    if not (folder / SUMMARY).exists():
        return []
    names: dict[str, None] = {}
    for number, line in enumerate(read_lines(folder / SUMMARY), start=1):
        try:
            names[parse_summary_line(line, line_number=number).shard] = None
        except BadInput:
            continue
    return [name for name in names if SHARD_NAME.fullmatch(name)]


# --- shards ---------------------------------------------------------------------------------------------------------


def _is_full(size: int, limit: int, before: PackedBlock, after: PackedBlock) -> bool:
    return size >= limit and (size >= 2 * limit or urlkey(before.last) != urlkey(after.first))


class _ShardWriter:
    """Writes a shard under a temporary name until `finish` knows its name."""

    def __init__(self, draft: Draft, target: ShardTarget, number: int) -> None:
        self.size = 0
        self._draft = draft
        self._target = target
        self._number = number
        self._blocks: list[ZipnumBlock] = []
        self._lines = 0
        self._first = self._last = b""
        self._digest = hashlib.sha256()

    def add(self, block: PackedBlock) -> None:
        if not self._blocks:
            self._first = block.first
        self._blocks.append(ZipnumBlock(_summary_key(block.first), "", self.size, len(block.data)))
        self._draft.file.write(block.data)
        self._digest.update(block.data)
        self.size += len(block.data)
        self._lines += block.lines
        self._last = block.last

    def finish(self) -> ZipNumShard:
        digest = self._digest.hexdigest()
        stamp = f"-{digest[:8]}" if self._target.naming == "stamped" else ""
        name = f"cdx-{self._number:05d}{stamp}.gz"
        if not self._blocks:
            return ZipNumShard(name)
        if not _has_bytes(self._target.folder / name, size=self.size, digest=digest):
            self._draft.sync()
            self._draft.replace(name)
        blocks = tuple(msgspec.structs.replace(block, shard=name) for block in self._blocks)
        return ZipNumShard(name, blocks, self._lines, self._first, self._last)


@contextmanager
def _shard_writer(target: ShardTarget, number: int) -> Iterator[_ShardWriter]:
    with open_folder(target.folder) as fd, drafting(fd, what=f"shard {number} in {target.folder}") as draft:
        yield _ShardWriter(draft, target, number)


def _summary_key(line: bytes) -> bytes:
    key = prefix_of(line.rstrip(b"\r\n"))
    if not key or b"\t" in key or len(key) > MAX_SUMMARY_LINE - 1024:
        raise BadInput(f"the first line of a block cannot be a key of the summary: {line[:80]!r}", reason="bad_key")
    return key


def _has_bytes(path: Path, *, size: int, digest: str) -> bool:
    """Whether the file has these bytes already: an unchanged shard is not written again."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size != size:
        return False
    with os_errors(str(path)), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest


# --- publishing -----------------------------------------------------------------------------------------------------


def _check(folder: Path, shards: Sequence[ZipNumShard]) -> None:
    last, before = b"", ""
    for shard in shards:
        if shard.first < last:
            raise BadInput(f"{shard.name} begins before {before} ends", reason="unsorted", source=str(folder))
        last, before = shard.last, shard.name
        with os_errors(str(folder / shard.name)):
            size = (folder / shard.name).stat().st_size
        if size != shard.size:
            raise Conflict(f"{folder / shard.name} was changed after it was written: build the index again")


def _write_locations(folder: Path, names: Iterable[str]) -> None:
    with writing(folder / LOCATIONS) as file:
        file.writelines(format_location(ShardLocation(name, (name,))) for name in names)


def _touch_replaced(folder: Path, names: Iterable[str], *, now: float) -> None:
    """Set the modification time of shards that are about to be replaced. If we are killed here, they only look younger.

    Shards of another user who shares the folder keep their time, and are removed by the rebuild after this one.
    """
    with os_errors(str(folder)):
        for name in names:
            with suppress(FileNotFoundError, PermissionError):
                os.utime(folder / name, (now, now))


def _remove_shards(folder: Path, *, kept: set[str], room: int, now: float) -> None:
    """Remove shards replaced longest ago: only files with names of ours, after the new summary is durable."""
    with os_errors(str(folder)):
        replaced = [path for path in folder.iterdir() if SHARD_NAME.fullmatch(path.name) and path.name not in kept]
        for status, path in sorted(((path.stat(), path) for path in replaced), key=_modified, reverse=True):
            room -= status.st_size
            if room < 0 or now - status.st_mtime >= GRACE:
                path.unlink(missing_ok=True)


def _modified(found: tuple[os.stat_result, Path]) -> float:
    return found[0].st_mtime
