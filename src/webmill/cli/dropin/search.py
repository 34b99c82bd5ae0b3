"""`cdxj-search`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from itertools import chain, islice
from pathlib import Path

import click

from webmill.cli.cdxj.indexes import ScannedIndex, is_gzip
from webmill.cli.cdxj.streams import STDOUT, output_to
from webmill.cli.context import note, warn
from webmill.cli.counts import ANY_COUNT
from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.cdx_query import KeyRange, compile_filter
from webmill.formats.cdxj import Capture, parse, prefix_of
from webmill.formats.surt import surt as key_of_url
from webmill.index.lines import Batch
from webmill.index.lookup import Index, MergedIndex, open_index
from webmill.index.query import Query, answer, surt_range

FILTER = re.compile(r"([^!=~]+)(!~|!=|~|=)(.*)", re.DOTALL)
LONGEST_KEY = 10_000
ENDINGS = (".cdxj", ".idx")


@click.command(
    "cdxj-search",
    epilog="""\b
Examples:
  cdxj-search --url http://example.com/ index/AWP.idx
  cdxj-search --surt 'com,example)/' --matchType prefix --limit 10 cdxj/

\b
Filters:
  FIELD=VALUE  FIELD!=VALUE  FIELD~RE2  FIELD!~RE2 (anywhere in the field)""",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--url", help="URL to look for.")
@click.option("--surt", metavar="KEY", help="Key to look for.")
@click.option(
    "--matchType",
    "match_type",
    type=click.Choice(["exact", "prefix", "domain", "subdomains"]),
    default="exact",
    metavar="TYPE",
    help="exact, prefix, domain (this host only) or subdomains (those below it only)  [default: exact]",
)
@click.option("--from", "start", metavar="DATE", help="From the first second of 2020, 202001, 20200131, … on.")
@click.option("--to", "end", metavar="DATE", help="Up to the last second of 2020, 202001, 20200131, …")
@click.option("--filter", "filters", multiple=True, metavar="FILTER", help="See below. Repeatable: all must hold.")
@click.option("--limit", type=ANY_COUNT, help="How many at most  [default: all]")
@click.option("--sort", is_flag=True, help="Of no effect: the answer is always sorted.")
@click.option("--dedupe", is_flag=True, help="Of one SURT and timestamp only the first.")
@click.option("--skip-errors", is_flag=True, help="Go on without files that cannot be read.")
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr.")
@click.option("--progress", is_flag=True, help="Name each file on stderr.")
def search(
    *,
    files: tuple[str, ...],
    url: str | None,
    surt: str | None,
    match_type: str,
    start: str | None,
    end: str | None,
    filters: tuple[str, ...],
    limit: int | None,
    sort: bool,  # noqa: ARG001  # kept for the scripts that say it
    dedupe: bool,
    skip_errors: bool,
    verbose: bool,
    progress: bool,
) -> None:
    """Look captures up in sorted CDXJ files and ZipNum indexes: files, patterns or folders."""
    if (url is None) == (surt is None):
        raise click.UsageError("give either --url URL or --surt KEY")
    wanted = Query(range=range_of(key_of_url(url) if url is not None else surt or "", match_type), start=start, end=end)
    holds = compiled(filters)
    paths = discover(files)
    if not paths:
        raise NotFound("No files found matching the specified patterns")
    indexes = [OneFile(path, skip_errors=skip_errors) for path in paths]
    if progress or verbose:
        for number, path in enumerate(paths, start=1):
            note(f"Searching file {number}/{len(paths)}: {path}")
    lines: Iterable[bytes] = answer(MergedIndex(indexes), wanted)
    lines = kept(lines, holds) if filters else lines
    lines = first_of_each(lines) if dedupe else lines
    count = 0
    with output_to(STDOUT) as out:
        for line in islice(lines, limit or None):
            out.write(line)
            count += 1
    if verbose:
        note(f"Output {count} results")


def range_of(key: str, match_type: str) -> KeyRange:
    if not 1 <= len(key) <= LONGEST_KEY or "\0" in key:
        raise BadInput(f"a key has 1 to {LONGEST_KEY} characters and no NUL", reason="bad_key")
    if match_type in ("exact", "prefix"):
        return surt_range(key, "exact" if match_type == "exact" else "prefix")
    return surt_range(key.partition(")")[0] + (")" if match_type == "domain" else ","), "prefix")


def discover(names: Iterable[str]) -> list[Path]:
    """Each file once. Of a folder .cdxj and .idx files, and .cdxj.gz that are not shards of an index there."""
    found = set(chain.from_iterable(map(files_of, names)))
    return sorted(file.resolve() for file in found)


def files_of(name: str) -> Iterator[Path]:
    path = Path(name)
    if path.is_dir():
        for file in path.rglob("*"):
            if file.name.endswith(ENDINGS) or (file.name.endswith(".cdxj.gz") and not is_shard(file)):
                yield file
    elif path.is_file():
        yield path
    else:
        yield from (Path(match) for match in glob(name, recursive=True) if Path(match).is_file())  # noqa: PTH207


def is_shard(file: Path) -> bool:
    return any(file.parent.glob("*.idx"))


class OneFile:
    """A file of any kind; with `skip_errors` one that fails gives what it gave, and is named."""

    def __init__(self, path: Path, *, skip_errors: bool) -> None:
        self._path = path
        self._skip_errors = skip_errors

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        try:
            yield from self._open().batches(wanted)
        except WebmillError as error:
            if not self._skip_errors:
                raise
            warn(f"Error processing {self._path}: {error}")

    def _open(self) -> Index:
        if not is_gzip(self._path):
            return open_index(self._path)
        summary = self._path.with_name(self._path.name.removesuffix(".gz").rpartition(".")[0] + ".idx")
        return open_index(summary) if summary.is_file() else ScannedIndex(self._path)


def compiled(filters: Iterable[str]) -> Callable[[Capture], bool]:
    tests = [compile_one(text) for text in filters]
    return lambda capture: all(test(capture) for test in tests)


def compile_one(text: str) -> Callable[[Capture], bool]:
    """A missing field is not equal to and does not match anything: `!=` and `!~` hold for it."""
    parts = FILTER.fullmatch(text)
    if not parts:
        raise BadInput(f"{text!r} is not FIELD=VALUE, FIELD!=VALUE, FIELD~RE2 or FIELD!~RE2", reason="bad_filter")
    name, operator, value = parts.groups()
    inverted = operator.startswith("!")
    # pywb's filter is anchored at the start of the field, this one is not.
    inner = compile_filter(f"={name}:{value}" if operator.endswith("=") else f"~{name}:(?s:.*?)(?:{value})")
    return lambda capture: (name in capture.fields and inner(capture)) is not inverted


def kept(lines: Iterable[bytes], holds: Callable[[Capture], bool]) -> Iterator[bytes]:
    bad = 0
    for line in lines:
        try:
            capture = parse(line)
        except BadInput:
            bad += 1
            continue
        if holds(capture):
            yield line
    if bad:
        warn(f"Warning: {bad} lines that are no CDXJ were left out: no filter can be asked of them")


def first_of_each(lines: Iterable[bytes]) -> Iterator[bytes]:
    last = b""
    for line in lines:
        if prefix_of(line) != last:
            last = prefix_of(line)
            yield line
