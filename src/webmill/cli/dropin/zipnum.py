"""`flat-cdxj-to-zipnum`, `zipnum-to-flat-cdxj`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from webmill.cli.cdxj.streams import STDIN, STDOUT, batches_of, name_of, output_to
from webmill.cli.context import warn
from webmill.cli.counts import AT_LEAST_ONE
from webmill.cli.dropin.lines import FILE, FILE_OR_DASH, INPUT
from webmill.errors import BadInput, NotFound
from webmill.formats.zipnum import (
    Block,
    Location,
    format_location,
    format_summary_line,
    parse_location,
    parse_summary_line,
)
from webmill.index.lines import Batch, read_lines, write_batches
from webmill.index.lookup import grouped, text_of
from webmill.index.order import in_byte_order
from webmill.index.shards import Shards
from webmill.index.zipnum import Shard, write_index
from webmill.infra import atomic
from webmill.infra.storage.local import LocalStorage

FOLDER = click.Path(file_okay=False, path_type=Path)
LEVEL = 6
NO_END = sys.maxsize // 4


@click.command("flat-cdxj-to-zipnum", epilog="Example: merge-flat-cdxj - cdxj/ | flat-cdxj-to-zipnum -i - -o index/AWP")
@INPUT
@click.option("-o", "--output", "folder", required=True, type=FOLDER, help="Folder for shards, .idx and .loc.")
@click.option(
    "-s", "--shard-size", default=100, show_default=True, type=AT_LEAST_ONE, metavar="MB", help="End a shard here."
)
@click.option("--single-shard", is_flag=True, help="One shard, however large.")
@click.option("-c", "--chunk-size", default=3000, show_default=True, type=AT_LEAST_ONE, help="Lines to a block.")
@click.option(
    "--compress-level", default=LEVEL, type=click.IntRange(1, 9), metavar="1..9", help="Of no effect  [default: 6]"
)
@click.option("--workers", default=4, show_default=True, type=AT_LEAST_ONE, help="Compressing threads.")
@click.option("--base", metavar="NAME", help="How files are called  [default: name of the folder]")
@click.option("--idx-file", metavar="NAME", help="Name of the summary  [default: BASE.idx]")
@click.option("--loc-file", metavar="NAME", help="Name of the locations  [default: BASE.loc]")
def write(
    *,
    source: Path,
    folder: Path,
    shard_size: int,
    single_shard: bool,
    chunk_size: int,
    compress_level: int,
    workers: int,
    base: str | None,
    idx_file: str | None,
    loc_file: str | None,
) -> None:
    """Write sorted lines as a ZipNum index with the old names: BASE-01.cdx.gz, BASE.idx, BASE.loc."""
    base = base or folder.resolve().name
    idx, loc = (folder / plain_name(name) for name in (idx_file or f"{base}.idx", loc_file or f"{base}.loc"))
    if compress_level != LEVEL:
        warn(f"Warning: blocks are always compressed at level {LEVEL}")
    size = NO_END if single_shard else shard_size << 20
    atomic.make_folder(folder)
    with TemporaryDirectory(dir=folder, prefix=atomic.RESERVED) as aside:
        shards = write_index(
            batches_of(source), Path(aside), lines=chunk_size, shard_size=size, threads=workers, source=name_of(source)
        )
        names = put_in_place(shards, Path(aside), folder, base=plain_name(base))
    with atomic.writing(loc) as file:
        file.writelines(format_location(Location(name, (name,))) for name in names)
    with atomic.writing(idx) as file:
        file.writelines(map(format_summary_line, renumbered(shards, names)))
    remove_old_shards(folder, base, kept=set(names))
    click.echo(f"Finished. Wrote {len(names)} shard file(s), index: {idx}, loc: {loc}")


def plain_name(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise click.UsageError(f"{name!r} is not the plain name of a file")
    return name


def put_in_place(shards: list[Shard], aside: Path, folder: Path, *, base: str) -> list[str]:
    only = len(shards) == 1
    names = [f"{base}.cdx.gz" if only else f"{base}-{number:02d}.cdx.gz" for number in range(1, len(shards) + 1)]
    for shard, name in zip(shards, names, strict=True):
        (aside / shard.name).replace(folder / name)
    return names


def renumbered(shards: list[Shard], names: list[str]) -> Iterator[Block]:
    """The fifth column is the running number of the block; the original has that of the shard there."""
    pairs = zip(shards, names, strict=True)
    blocks = (msgspec.structs.replace(block, shard=name) for shard, name in pairs for block in shard.blocks)
    for number, block in enumerate(blocks, start=1):
        yield msgspec.structs.replace(block, number=number)


def remove_old_shards(folder: Path, base: str, *, kept: set[str]) -> None:
    ours = re.compile(re.escape(base) + r"(-[0-9]{2,})?\.cdx\.gz")
    for path in folder.iterdir():
        if ours.fullmatch(path.name) and path.name not in kept:
            path.unlink()


@click.command("zipnum-to-flat-cdxj", epilog="Example: zipnum-to-flat-cdxj -i index/AWP.idx > all.cdxj")
@click.option("-i", "--input", "source", required=True, type=FILE_OR_DASH, help="The .idx file, or - for stdin.")
@click.option("--base-dir", type=FOLDER, help="Where the shards are  [default: beside the .idx]")
@click.option("--loc", type=FILE, help="The .loc file  [default: beside the .idx, if it is there]")
@click.option("--workers", default=4, show_default=True, type=AT_LEAST_ONE, help="Of no effect: reading is quick.")
def flatten(*, source: Path, base_dir: Path | None, loc: Path | None, workers: int) -> None:  # noqa: ARG001
    """All lines of a ZipNum index to stdout, also of one that the original wrote wrongly."""
    folder = (base_dir or (Path() if source == STDIN else source.parent)).resolve()
    beside = source.with_suffix(".loc")
    blocks = blocks_in(chain.from_iterable(batches_of(source)), source=name_of(source))
    first = next(blocks, None)
    if first is None:
        raise NotFound("Error: No entries found in idx file")
    storage = LocalStorage(folder)
    shards = Shards(storage, "none.idx", elsewhere={f"{folder}/": storage})
    places = loc or (beside if source != STDIN and beside.is_file() else None)
    shards.locations = dict(locations_in(places)) if places else {}
    blocks = as_on_disk(chain([first], blocks), shards)
    with output_to(STDOUT) as out:
        write_batches(in_byte_order(texts(blocks, shards), source=name_of(source)), out)


def blocks_in(lines: Iterable[bytes], *, source: str) -> Iterator[Block]:
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            yield parse_summary_line(line, line_number=number)
        except BadInput as error:
            raise BadInput(error.message, reason=error.reason, source=source) from error


def locations_in(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip() and not line.startswith(b"#"):
            place = parse_location(line, line_number=number)
            yield place.shard, place.paths


def as_on_disk(blocks: Iterable[Block], shards: Shards) -> Iterator[Block]:
    """The original calls its only shard BASE-01.cdx.gz in the .idx, and BASE.cdx.gz on disk and in the .loc."""
    for block in blocks:
        single = block.shard.removesuffix("-01.cdx.gz") + ".cdx.gz"
        known = block.shard in shards.locations or single not in shards.locations
        yield block if known else msgspec.structs.replace(block, shard=single)


def texts(blocks: Iterable[Block], shards: Shards) -> Iterator[Batch]:
    for group in grouped(blocks):
        first = group[0]
        data = shards.read(first.shard, start=first.offset, length=sum(block.length for block in group))
        for block in group:
            start = block.offset - first.offset
            text = text_of(block, data[start : start + block.length])
            yield BytesIO(text if text.endswith(b"\n") else text + b"\n").readlines()
