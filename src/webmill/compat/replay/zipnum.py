"""ZipNum indexes with the file names of `flat-cdxj-to-zipnum`, and reading those that it wrote wrongly."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.zipnum import (
    ShardLocation,
    ZipnumBlock,
    format_location,
    format_summary_line,
    parse_location,
    parse_summary_line,
)
from webmill.index.lines import Batch, read_lines
from webmill.index.lookup.indexes import decode_checked_block, group_contiguous
from webmill.index.order import ensure_byte_order
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.index.zipnum.writer import ZipNumShard, write_index
from webmill.infra import atomic
from webmill.infra.files import RESERVED
from webmill.infra.storage.local import LocalStorage

ONE_SHARD = sys.maxsize // 4  # bytes that no shard ever has


class ZipNumNames(msgspec.Struct, frozen=True, kw_only=True):
    """The file names of an index: BASE-01.cdx.gz and so on, the summary, the locations."""

    base: str
    idx: str
    loc: str


def write_named_index(
    batches: Iterable[Batch],
    folder: Path,
    names: ZipNumNames,
    *,
    lines: int,
    shard_size: int,
    threads: int,
    source: str,
) -> list[ZipNumShard]:
    """Write sorted lines as an index into the folder, in place of one of these names; return its shards."""
    atomic.make_folder(folder)
    with TemporaryDirectory(dir=folder, prefix=RESERVED) as aside:
        shards = write_index(batches, Path(aside), lines=lines, shard_size=shard_size, threads=threads, source=source)
        written = move_shards(shards, Path(aside), folder, base=names.base)
    with atomic.writing(folder / names.loc) as file:
        file.writelines(format_location(ShardLocation(name, (name,))) for name in written)
    with atomic.writing(folder / names.idx) as file:
        file.writelines(map(format_summary_line, number_blocks(shards, written)))
    remove_old_shards(folder, names.base, kept=set(written))
    return shards


def move_shards(shards: list[ZipNumShard], aside: Path, folder: Path, *, base: str) -> list[str]:
    only = len(shards) == 1
    names = [f"{base}.cdx.gz" if only else f"{base}-{number:02d}.cdx.gz" for number in range(1, len(shards) + 1)]
    for shard, name in zip(shards, names, strict=True):
        (aside / shard.name).replace(folder / name)
    return names


def number_blocks(shards: list[ZipNumShard], names: list[str]) -> Iterator[ZipnumBlock]:
    """Yield the blocks with running numbers in the fifth column, where the original has the number of the shard."""
    pairs = zip(shards, names, strict=True)
    blocks = (msgspec.structs.replace(block, shard=name) for shard, name in pairs for block in shard.blocks)
    for number, block in enumerate(blocks, start=1):
        yield msgspec.structs.replace(block, number=number)


def remove_old_shards(folder: Path, base: str, *, kept: set[str]) -> None:
    ours = re.compile(re.escape(base) + r"(-[0-9]{2,})?\.cdx\.gz")
    for path in folder.iterdir():
        if ours.fullmatch(path.name) and path.name not in kept:
            path.unlink()


def flatten_index(summary: Iterable[bytes], folder: Path, *, loc: Path | None, source: str) -> Iterator[Batch]:
    """Yield all lines of an index, sorted, even if the original wrote it wrongly."""
    blocks = read_summary(summary, source=source)
    first = next(blocks, None)
    if first is None:
        raise NotFound("Error: No entries found in idx file")
    storage = LocalStorage(folder)
    shards = ShardLocations(storage, "none.idx", elsewhere={f"{folder}/": storage})
    shards.locations = dict(read_locations(loc)) if loc else {}
    return ensure_byte_order(
        read_block_lines(resolve_shard_names(chain([first], blocks), shards, folder), shards), source=source
    )


def read_summary(lines: Iterable[bytes], *, source: str) -> Iterator[ZipnumBlock]:
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            yield parse_summary_line(line, line_number=number)
        except BadInput as error:
            raise BadInput(error.message, reason=error.reason, source=source) from error


def read_locations(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip() and not line.startswith(b"#"):
            place = parse_location(line, line_number=number)
            yield place.shard, place.paths


def resolve_shard_names(blocks: Iterable[ZipnumBlock], shards: ShardLocations, folder: Path) -> Iterator[ZipnumBlock]:
    """Yield the blocks with the real names of shards. The original names an only shard BASE-01.cdx.gz in the .idx, but
    BASE.cdx.gz on disk and in the .loc; and other programs leave out the ending in the .idx."""
    for block in blocks:
        single = block.shard.removesuffix("-01.cdx.gz") + ".cdx.gz"
        is_there = block.shard in shards.locations or (folder / block.shard).is_file()
        known = is_there or not (single in shards.locations or (folder / single).is_file())
        yield block if known else msgspec.structs.replace(block, shard=single)


def read_block_lines(blocks: Iterable[ZipnumBlock], shards: ShardLocations) -> Iterator[Batch]:
    for group in group_contiguous(blocks):
        first = group[0]
        data = shards.read(first.shard, start=first.offset, length=sum(block.length for block in group))
        for block in group:
            start = block.offset - first.offset
            text = decode_checked_block(block, data[start : start + block.length])
            yield BytesIO(text if text.endswith(b"\n") else text + b"\n").readlines()
