"""`webmill cdxj zipnum`, `flatten`, `verify`, `parquet`: compressed and columnar indexes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click
import msgspec

from webmill.cli.cdxj.indexes import open_named_index
from webmill.cli.cdxj.streams import INPUT, OUTPUT, STDIN, open_output, read_whole, source_name
from webmill.cli.context import REJECTED, Context, finish, note, pass_context
from webmill.cli.dry_run import dry_run_option, format_amount
from webmill.cli.options import processes_option
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.text import format_count
from webmill.errors import BadInput
from webmill.formats.cdx.zipnum import LINES_PER_BLOCK
from webmill.index.lines import GZIP_MAGIC, open_input, write_batches
from webmill.index.zipnum.ranges import remove_shards_on_failure, write_ranges
from webmill.index.zipnum.writer import SHARD_SIZE, ShardTarget, ZipNumShard, publish, rebuilding, write_shards
from webmill.infra.atomic import drafting, open_folder
from webmill.infra.executor.backends import open_executor
from webmill.pipeline.status.files import add_sizes
from webmill.settings import ExecutorSettings

REPORTED = 20
PARTS = ("cdx-*.gz", "cluster.idx", "cluster.loc")


@click.command(
    epilog="""\b
Examples:
  webmill cdxj merge cdxj/ | webmill cdxj zipnum -o index/
  webmill cdxj zipnum all.cdxj -o index/ --dry-run
  webmill cdxj zipnum all.cdxj -o index/ --shards 300 --processes 16"""
)
@INPUT
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the index. An existing index is replaced when the new one is complete.",
)
@click.option("--lines", default=LINES_PER_BLOCK, show_default=True, type=AT_LEAST_ONE, help="Index lines per block.")
@click.option(
    "--shard-size",
    type=AT_LEAST_ONE,
    metavar="MB",
    help=f"Start a new shard at this size  [default: {SHARD_SIZE >> 20}]",
)
@click.option("--shards", type=AT_LEAST_ONE, help="Write this many shards instead, in parallel processes.")
@processes_option("Number of processes for --shards  [default: one per core]")
@click.option("--threads", default=2, show_default=True, type=AT_LEAST_ONE, help="Compression threads per process.")
@dry_run_option
@pass_context
def zipnum(
    context: Context,
    /,
    *,
    source: Path,
    folder: Path,
    lines: int,
    shard_size: int | None,
    shards: int | None,
    jobs: int | None,
    threads: int,
    dry_run: bool,
) -> None:
    """Write sorted lines as a ZipNum index: cdx-*.gz, cluster.idx, cluster.loc.

    This is the format that pywb reads and Common Crawl publishes. --shards cuts the lines into key ranges of equal
    size; input from a pipe or a gzip file is first written to a temporary file for that.
    """
    if shards and shard_size:
        raise click.UsageError("give either --shards or --shard-size")
    if jobs and not shards:
        raise click.UsageError("--processes needs --shards: without it, --threads compress one stream")
    if dry_run:
        if source != STDIN:
            open_input(source).close()  # fails if the input does not exist
        old = add_sizes(path.stat().st_size for pattern in PARTS for path in folder.glob(pattern))
        note(
            f"would be replaced: the index in {folder} ({format_amount(old)})"
            if old.files
            else f"would be created: {folder}"
        )
        return
    with rebuilding(folder) as target:
        with remove_shards_on_failure(target):
            if shards:
                settings = context.settings().executor
                settings = msgspec.structs.replace(settings, jobs=jobs or settings.jobs)
                written = write_in_ranges(
                    source, target, shards=shards, lines=lines, threads=threads, settings=settings
                )
            else:
                size = (shard_size << 20) if shard_size else SHARD_SIZE
                batches, name = read_whole(source), source_name(source)
                written = list(
                    write_shards(batches, target, lines=lines, shard_size=size, threads=threads, source=name)
                )
        publish(target, written)
    print_index_size(folder, written)


def write_in_ranges(
    source: Path, target: ShardTarget, *, shards: int, lines: int, threads: int, settings: ExecutorSettings
) -> list[ZipNumShard]:
    with (
        closing(open_executor(settings.url, workers=settings.jobs)) as executor,
        as_plain_file(source, target.folder) as file,
    ):
        done = write_ranges([file], target, shards=shards, lines=lines, threads=threads, executor=executor)
        return [part.shard for part in done]


@contextmanager
def as_plain_file(source: Path, folder: Path) -> Iterator[Path]:
    """Yield the file itself, or a plain temporary copy of a stream or gzip file; a later run removes leftovers."""
    if source != STDIN and is_plain_file(source):
        yield source
        return
    with open_folder(folder) as fd, drafting(fd, what=str(folder)) as draft:
        write_batches(read_whole(source), draft.file)
        draft.file.flush()
        yield folder / draft.name


def is_plain_file(path: Path) -> bool:
    with open_input(path) as file:
        return path.is_file() and file.read(len(GZIP_MAGIC)) != GZIP_MAGIC


def print_index_size(folder: Path, shards: list[ZipNumShard]) -> None:
    written = [shard for shard in shards if shard.blocks]
    lines, blocks = sum(shard.lines for shard in written), sum(len(shard.blocks) for shard in written)
    size = sum(shard.size for shard in written)
    note(f"# {folder}: {format_extent(lines, blocks, len(written), size)}")


def format_extent(lines: int, blocks: int, shards: int, size: int) -> str:
    counts = {"block": blocks, "shard": shards, "byte": size}
    return f"{format_count(lines, 'line')} in " + ", ".join(format_count(count, noun) for noun, count in counts.items())


@click.command(
    epilog="""\b
Examples:
  webmill cdxj flatten news/ > all.cdxj         # the index of a collection
  webmill cdxj flatten old/AWP.idx | webmill cdxj zipnum -o new/"""
)
@click.argument("index", metavar="DIR|FILE|URL")
@OUTPUT
@pass_context
def flatten(context: Context, /, *, index: str, output: Path) -> None:
    """Print all lines of an index, in order, as CDXJ.

    The index is a collection, a ZipNum folder or .idx, or a sorted file of CDXJ or CDX; a path or URL. Every block is
    checked. A block that is damaged, missing or out of order is an error; lines are never left out.
    """
    from webmill.index.lookup.indexes import flatten as all_lines

    with open_output(output) as out:
        count = write_batches(all_lines(open_named_index(index, http=context.settings().http)), out)
    note(f"# {format_count(count, 'line')}")


@click.command(
    epilog="""\b
Examples:
  webmill cdxj verify index/
  webmill cdxj verify index/ --json | jq -r .kind | sort | uniq -c

Exit code 3: the index has errors. Notes alone do not count as errors."""
)
@click.argument("index", metavar="DIR|IDX", type=click.Path(exists=True, path_type=Path))
@click.option("--lines", type=AT_LEAST_ONE, help="Lines that every block must have, except the last of a shard.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line on stdout.")
def verify(*, index: Path, lines: int | None, as_json: bool) -> None:
    """Check every byte of a ZipNum index: summary, locations, shards, blocks, lines.

    Each finding is printed as a line on stdout; the check continues after it.
    """
    from webmill.index.zipnum.verify import VerifyCounts
    from webmill.index.zipnum.verify import verify as findings

    checked = VerifyCounts()
    errors = 0
    for finding in findings(index, checked=checked, lines_per_block=lines):
        errors += finding.severity == "error"
        line = f"{finding.severity}: {finding.where}: {finding.kind}: {finding.message}"
        click.echo(msgspec.json.encode(finding) if as_json else line)
    note(
        f"# {format_extent(checked.lines, checked.blocks, checked.shards, checked.bytes)}: "
        + (format_count(errors, "error") if errors else "no errors")
    )
    if errors:
        raise click.exceptions.Exit(REJECTED)


@click.command(
    epilog="""\b
Example:
  webmill cdxj flatten index/ | webmill cdxj parquet -o captures.parquet

Exit code 3: done, but some lines are not captures and were left out."""
)
@INPUT
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; it appears when it is complete.",
)
def parquet(*, source: Path, output: Path) -> None:
    """Write sorted lines as a Parquet file with the columns of Common Crawl's cc-index-table.

    Lines that are not captures are reported and left out. Needs webmill[parquet].
    """
    from webmill.index.columnar.parquet import write_parquet

    named = 0

    def reject(line: bytes, error: BadInput) -> None:
        nonlocal named
        named += 1
        if named <= REPORTED:
            note(f"{error}: {line[:80]!r}")

    table = write_parquet(read_whole(source), output, on_reject=reject, source=source_name(source))
    note(f"# {output}: {format_count(table.rows, 'row')}")
    finish(rejected=sum(table.rejected.values()), where="lines that are not captures were left out")
