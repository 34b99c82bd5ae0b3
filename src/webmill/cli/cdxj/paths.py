"""`webmill cdxj paths`: where WARC files lie, as pywb wants to know it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click

from webmill.cli.cdxj.streams import OUTPUT, batches_of, name_of, output_to
from webmill.cli.context import note
from webmill.errors import NotFound
from webmill.index.inputs import find_inputs
from webmill.index.paths import Located, format_located, from_arclist, parse_path_index

SOURCES = click.argument("sources", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))


@click.group()
def paths() -> None:
    """Make pywb's path index from lists of WARC paths, and load it into Redis."""


@paths.command(epilog="Example: webmill cdxj paths make arclists/ -o path-index.txt")
@SOURCES
@OUTPUT
@click.option("--separator", default="\t", help="Between name and path  [default: TAB]")
def make(*, sources: tuple[Path, ...], output: Path, separator: str) -> None:
    """Lists of paths or URLs, one per line, to `FILENAME TAB PATH`. SOURCES are files, folders or - for stdin."""
    count = 0
    with output_to(output) as out:
        for located in from_arclist(lines_of(sources)):
            out.write(format_located(located, separator=separator.encode()))
            count += 1
        if not count:
            raise NotFound("the lists name no file")
    note(f"# {count:,} files")


@paths.command(epilog="Example: webmill cdxj paths redis path-index.txt -k warcs --url redis://localhost:6379/0")
@SOURCES
@click.option("-k", "--key", required=True, help="The hash to fill.")
@click.option("--url", default="redis://localhost:6379/0", show_default=True, help="redis://[:PASSWORD@]HOST:PORT/DB")
@click.option("--batch-size", default=500, show_default=True, help="Fields to a round trip.")
@click.option("--clear", is_flag=True, help="Empty the hash first.")
@click.option("--dry-run", is_flag=True, help="Only count.")
def redis(*, sources: tuple[Path, ...], key: str, url: str, batch_size: int, clear: bool, dry_run: bool) -> None:
    """Load a path index into a Redis hash, as pywb's redis:// archive path reads it.

    pywb takes one path for a file: the first is loaded, further ones are counted.
    """
    from webmill.infra.redis_hash import fill_hash

    further = 0

    def pairs() -> Iterator[tuple[bytes, bytes]]:
        nonlocal further
        for located in located_in(sources):
            further += len(located.paths) - 1
            yield located.name, located.paths[0]

    count = sum(1 for _ in pairs()) if dry_run else fill_hash(url, key, pairs(), batch=batch_size, clear=clear)
    note(
        f"# {'Would load' if dry_run else 'Loaded'} {count:,} files"
        + (f"; {further:,} further paths left out" if further else "")
    )


def located_in(sources: tuple[Path, ...]) -> Iterator[Located]:
    for source in sources or (Path("-"),):
        yield from parse_path_index(lines_of((source,)), source=name_of(source))


def lines_of(sources: tuple[Path, ...]) -> Iterator[bytes]:
    for source in sources or (Path("-"),):
        files = [source] if source == Path("-") else find_inputs([source])
        for file in files:
            yield from chain.from_iterable(batches_of(file))
