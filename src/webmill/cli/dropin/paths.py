"""`arclist-to-path-index`, `path-index-to-redis`, `arclist-index-to-redis`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec

from webmill.cli.cdxj.paths import read_path_index, read_path_lists
from webmill.cli.cdxj.streams import STDOUT, open_output
from webmill.cli.context import note, warn
from webmill.cli.dropin.lines import FILE_OR_DASH, VERBOSE, VERSION
from webmill.cli.options import together
from webmill.cli.param_types import ANY_COUNT, AT_LEAST_ONE
from webmill.errors import NotFound
from webmill.index.cdxj.path_index import WarcLocation, format_location
from webmill.infra.redis_hash import fill_hash, replace_hash

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
INPUTS = click.option(
    "-i", "--input", "sources", multiple=True, type=FILE_OR_DASH, help="File to read, or - for stdin; repeatable."
)
HERE = ("localhost", "127.0.0.1", "::1")


def redis_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option("-k", "--redis-key", "key", metavar="NAME", help="Name of the Redis hash."),
        click.option("--collection", metavar="NAME", help="Same as -k pathindex:NAME."),
        click.option("--host", default="localhost", show_default=True, help="Host of Redis."),
        click.option("--port", default=6379, show_default=True, type=AT_LEAST_ONE, help="Port of Redis."),
        click.option("--db", default=0, show_default=True, type=ANY_COUNT, help="Number of the database."),
        click.option("--password", help="Password of Redis."),
        click.option("--username", help="User of Redis."),
        click.option("--socket", metavar="PATH", help="Unix socket instead of host and port."),
        click.option("--ssl", is_flag=True, help="Use TLS."),
        click.option("--cluster", is_flag=True, help="Connect to a Redis Cluster."),
        click.option(
            "--batch-size", default=500, show_default=True, type=AT_LEAST_ONE, help="Entries to send per round trip."
        ),
        click.option(
            "--pool-size",
            default=10,
            show_default=True,
            type=AT_LEAST_ONE,
            help="Ignored: one connection is enough.",
        ),
        click.option("--timeout", default=10, show_default=True, type=AT_LEAST_ONE, help="Seconds to wait for Redis."),
        click.option("--clear", is_flag=True, help="Replace the hash, atomically, when everything is loaded."),
        VERBOSE,
        VERSION,
    ]
    return together(*options)(command)


@click.command(
    "arclist-to-path-index", epilog="Example: arclist-to-path-index -d arclists/ | LC_ALL=C sort > path-index"
)
@INPUTS
@click.option("-d", "--folder", type=FOLDER, help="Folder of lists (*.txt), instead of -i.")
@click.option("--output-separator", "separator", default="\t", help="Separator between name and path  [default: TAB]")
@VERBOSE
@VERSION
def make_path_index(*, sources: tuple[Path, ...], folder: Path | None, separator: str, verbose: bool) -> None:
    """Turn lists of paths or URLs into lines of file name and path, in the same order."""
    if bool(sources) == bool(folder):
        raise click.UsageError("give either -i FILE or -d DIR")
    count = 0
    with open_output(STDOUT) as out:
        for located in read_path_lists(find_lists(folder) if folder else sources):
            out.write(format_location(located, separator=separator.encode()))
            count += 1
    if not count:
        warn("Warning: No entries processed")
        raise click.exceptions.Exit(1)
    if verbose:
        note(f"# Total entries processed: {count}")


@click.command("path-index-to-redis", epilog="Example: path-index-to-redis -i path-index.txt -k pathindex:AWP")
@click.argument("named", nargs=-1, metavar="[INPUT]...", type=FILE_OR_DASH)
@INPUTS
@redis_options
@click.option("--dry-run", is_flag=True, help="Read and check the input, but change nothing.")
def load_redis(
    *, named: tuple[Path, ...], sources: tuple[Path, ...], dry_run: bool, verbose: bool, **place: Any
) -> None:
    """Load lines of file name and path into a Redis hash. Of several paths, the first is used, as pywb reads one."""
    sources += named
    if not sources:
        raise click.UsageError("Missing option '-i'")
    pairs = first_paths(read_path_index(sources))
    redis_hash = RedisHashFlags.parse(**place)
    if dry_run:
        note("# DRY RUN MODE - No data will be written to Redis")
        count = sum(1 for _ in pairs)
    else:
        count = redis_hash.load(pairs)
    if verbose:
        note(f"# Entries submitted: {count}")


@click.command("arclist-index-to-redis", epilog="Example: arclist-index-to-redis -d arclists/ -k pathindex:AWP")
@click.option("-d", "--folder", required=True, type=FOLDER, help="Folder of lists (*.txt).")
@redis_options
def make_and_load(*, folder: Path, verbose: bool, **place: Any) -> None:
    """Load lists of paths or URLs into a Redis hash."""
    redis_hash = RedisHashFlags.parse(**place)
    count = redis_hash.load(first_paths(read_path_lists(find_lists(folder))))
    note(f"[SUCCESS] {count} entries" if verbose else f"# Entries submitted: {count}")


class RedisHashFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `redis_options`: a hash of a Redis server, and how to load it."""

    key: str
    host: str
    port: int
    db: int
    password: str | None
    username: str | None
    socket: str | None
    ssl: bool
    cluster: bool
    batch_size: int
    pool_size: int  # not used: kept for scripts that give it
    timeout: int
    clear: bool

    @classmethod
    def parse(cls, *, key: str | None, collection: str | None, **flags: Any) -> RedisHashFlags:
        """Return the flags. The name of the hash can be given in two ways, but in one of them only."""
        if (key is None) == (collection is None):
            raise click.UsageError("Missing option '-k' / '--redis-key'.")
        return cls(key=key or f"pathindex:{collection}", **flags)

    @property
    def url(self) -> str:
        user = quote(self.username or "", safe="") + (f":{quote(self.password, safe='')}" if self.password else "")
        login = f"{user}@" if user else ""
        if self.socket:
            return f"unix://{login}{self.socket}?db={self.db}"
        scheme = ("rediss" if self.ssl else "redis") + ("+cluster" if self.cluster else "")
        return f"{scheme}://{login}{self.host}:{self.port}/{self.db}"

    def load(self, pairs: Iterable[tuple[bytes, bytes]]) -> int:
        """Load the hash and return how many entries were sent."""
        if self.socket is None and self.host not in HERE and not self.password:
            warn("Warning: connecting to a remote Redis without a password")
        load_all = replace_hash if self.clear else fill_hash
        return load_all(self.url, self.key, pairs, batch=self.batch_size, timeout=self.timeout)


def first_paths(entries: Iterable[WarcLocation]) -> Iterator[tuple[bytes, bytes]]:
    return ((located.name, located.paths[0]) for located in entries)


def find_lists(folder: Path) -> tuple[Path, ...]:
    lists = tuple(sorted(folder.glob("*.txt")))
    if not lists:
        raise NotFound(f"No arclist files (*.txt) found in {folder}")
    return lists
