"""`flat-cdxj-to-zipnum`, `zipnum-to-flat-cdxj`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from webmill.cli.cdxj.streams import STDIN, STDOUT, open_output, read_source, read_whole, source_name
from webmill.cli.context import note, warn
from webmill.cli.dropin.lines import FILE, FILE_OR_DASH, INPUT_OR_ARGUMENT, VERBOSE, VERSION, choose_source
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.compat.replay.zipnum import ONE_SHARD, ZipNumNames, flatten_index, write_named_index
from webmill.index.lines import write_batches

FOLDER = click.Path(file_okay=False, path_type=Path)
LEVEL = 6


@click.command("flat-cdxj-to-zipnum", epilog="Example: merge-flat-cdxj - cdxj/ | flat-cdxj-to-zipnum -i - -o index/AWP")
@INPUT_OR_ARGUMENT
@click.option("-o", "--output", "folder", required=True, type=FOLDER, help="Folder for shards, .idx and .loc.")
@click.option(
    "-s",
    "--shard-size",
    default=100,
    show_default=True,
    type=AT_LEAST_ONE,
    metavar="MB",
    help="Start a new shard at this size.",
)
@click.option("--single-shard", is_flag=True, help="Write one shard of any size.")
@click.option(
    "-c",
    "--chunk-size",
    "-n",
    "--lines-per-block",
    "lines",
    default=3000,
    show_default=True,
    type=AT_LEAST_ONE,
    help="Index lines per block.",
)
@click.option("--compress", is_flag=True, help="Ignored: blocks are always compressed.")
@click.option(
    "--compress-level", default=LEVEL, type=click.IntRange(1, 9), metavar="1..9", help="Ignored  [default: 6]"
)
@click.option("--workers", default=4, show_default=True, type=AT_LEAST_ONE, help="Compression threads.")
@click.option("--base", metavar="NAME", help="Base name of the files  [default: name of the folder]")
@click.option("--idx-file", metavar="NAME", help="Name of the .idx file  [default: BASE.idx]")
@click.option("--loc-file", metavar="NAME", help="Name of the .loc file  [default: BASE.loc]")
@VERBOSE
@VERSION
def write_zipnum(
    *,
    named: Path | None,
    source: Path | None,
    folder: Path,
    shard_size: int,
    single_shard: bool,
    lines: int,
    compress: bool,  # noqa: ARG001  # kept for the scripts that say it
    compress_level: int,
    workers: int,
    base: str | None,
    idx_file: str | None,
    loc_file: str | None,
    verbose: bool,
) -> None:
    """Write sorted lines as a ZipNum index with the old names: BASE-01.cdx.gz, BASE.idx, BASE.loc."""
    source = choose_source(named, source)
    base = check_plain_name(base or folder.resolve().name)
    names = ZipNumNames(
        base=base, idx=check_plain_name(idx_file or f"{base}.idx"), loc=check_plain_name(loc_file or f"{base}.loc")
    )
    if compress_level != LEVEL:
        warn(f"Warning: blocks are always compressed at level {LEVEL}")
    if verbose:
        note(f"# Writing blocks of {lines} lines to {folder}")
    shards = write_named_index(
        read_whole(source),
        folder,
        names,
        lines=lines,
        shard_size=ONE_SHARD if single_shard else shard_size << 20,
        threads=workers,
        source=source_name(source),
    )
    if verbose:
        note(f"# {sum(shard.lines for shard in shards)} lines, {sum(len(shard.blocks) for shard in shards)} blocks")
    click.echo(f"Finished. Wrote {len(shards)} shard file(s), index: {folder / names.idx}, loc: {folder / names.loc}")


def check_plain_name(name: str) -> str:
    if not name or "/" in name or name.startswith("."):
        raise click.UsageError(f"{name!r} is not the plain name of a file")
    return name


@click.command("zipnum-to-flat-cdxj", epilog="Example: zipnum-to-flat-cdxj -i index/AWP.idx > all.cdxj")
@click.option("-i", "--input", "source", required=True, type=FILE_OR_DASH, help="The .idx file, or - for stdin.")
@click.option("--base-dir", type=FOLDER, help="Folder of the shards  [default: that of the .idx file]")
@click.option("--loc", type=FILE, help="The .loc file  [default: the one beside the .idx file, if any]")
@click.option("--workers", default=4, show_default=True, type=AT_LEAST_ONE, help="Ignored.")
@VERSION
def flatten(*, source: Path, base_dir: Path | None, loc: Path | None, workers: int) -> None:  # noqa: ARG001
    """Print all lines of a ZipNum index, also of one with the mistakes of the original tool."""
    folder = (base_dir or (Path() if source == STDIN else source.parent)).resolve()
    beside = source.with_suffix(".loc")
    places = loc or (beside if source != STDIN and beside.is_file() else None)
    lines = flatten_index(chain.from_iterable(read_source(source)), folder, loc=places, source=source_name(source))
    with open_output(STDOUT) as out:
        write_batches(lines, out)
