"""`webmill cdxj paths`: pywb's path index of WARC files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from webmill.cli.cdxj.streams import OUTPUT, STDIN, open_output, read_source, source_name
from webmill.cli.context import note
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.text import format_count
from webmill.errors import NotFound
from webmill.index.cdxj.inputs import find_inputs
from webmill.index.cdxj.merge import drop_repeats
from webmill.index.cdxj.path_index import WarcLocation, format_location, from_arclist, parse_path_index
from webmill.index.cdxj.sort import sort_lines
from webmill.index.lines import in_batches, write_batches

SOURCES = click.argument("sources", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))


@click.group()
def paths() -> None:
    """Make pywb's path index from lists of WARC paths, and load it into Redis."""


@paths.command(
    short_help="Make a path index from lists of paths.",
    epilog="Example: webmill cdxj paths make arclists/ -o path-index.txt",
)
@SOURCES
@OUTPUT
@click.option("--separator", default="\t", help="Separator between name and path  [default: TAB]")
def make(*, sources: tuple[Path, ...], output: Path, separator: str) -> None:
    """Turn lists of paths or URLs into lines of `FILENAME TAB PATH`, sorted as pywb needs them.

    SOURCES are files with one path per line, folders of such files, or - for stdin.
    """
    rows = (format_location(located, separator=separator.encode()) for located in read_path_lists(sources))
    with open_output(output) as out:
        count = write_batches(drop_repeats(sort_lines(in_batches(rows))), out)
        if not count:
            raise NotFound("the lists are empty: they must name at least one file")
    note(f"# {format_count(count, 'file')}")


@paths.command(
    short_help="Load a path index into a Redis hash.",
    epilog="""\b
Example:
  webmill cdxj paths redis path-index.txt -k warcs --url redis://db:6379/0""",
)
@SOURCES
@click.option("-k", "--key", metavar="NAME", required=True, help="Name of the Redis hash.")
@click.option(
    "--url",
    default="redis://localhost:6379/0",
    show_default=True,
    metavar="URL",
    help="Redis to load into: redis://, rediss:// (TLS), unix:// or redis+cluster://.",
)
@click.option("--batch-size", default=500, show_default=True, type=AT_LEAST_ONE, help="Entries to send per round trip.")
@click.option("--clear", is_flag=True, help="Replace the hash, atomically, when everything is loaded.")
@click.option("--dry-run", is_flag=True, help="Count the entries, but change nothing.")
def redis(*, sources: tuple[Path, ...], key: str, url: str, batch_size: int, clear: bool, dry_run: bool) -> None:
    """Load a path index into a Redis hash, from which pywb reads it (archive path redis://).

    pywb uses one path per file: the first is loaded, others are only counted.
    """
    from webmill.infra.redis_hash import fill_hash, replace_hash

    further = 0

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        nonlocal further
        for located in read_path_index(sources):
            further += len(located.paths) - 1
            yield located.name, located.paths[0]

    fill = replace_hash if clear else fill_hash
    count = sum(1 for _ in pairs()) if dry_run else fill(url, key, pairs(), batch=batch_size)
    note(
        f"# {'Would load' if dry_run else 'Loaded'} {format_count(count, 'file')}"
        + (f"; {further:,} additional paths ignored" if further else "")
    )


def read_path_lists(sources: tuple[Path, ...]) -> Iterator[WarcLocation]:
    for file in find_sources(sources):
        yield from from_arclist(chain.from_iterable(read_source(file)), source=source_name(file))


def read_path_index(sources: tuple[Path, ...]) -> Iterator[WarcLocation]:
    for file in find_sources(sources):
        yield from parse_path_index(chain.from_iterable(read_source(file)), source=source_name(file))


def find_sources(sources: tuple[Path, ...]) -> Iterator[Path]:
    for source in sources or (STDIN,):
        yield from [source] if source == STDIN else find_inputs([source])
