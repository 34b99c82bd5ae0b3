"""`merge-flat-cdxj`, `addfield-to-flat-cdxj`, `cdxj-extract-field`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import click

from webmill import __version__
from webmill.cli.cdxj.lines import add_chosen_fields
from webmill.cli.cdxj.streams import STDIN, STDOUT, open_output, read_source, refuse_broken_inputs
from webmill.cli.context import note, warn
from webmill.cli.options import together
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.errors import NotFound
from webmill.index.cdxj.add_fields import AddFieldCounts
from webmill.index.cdxj.extract_field import FieldCounts, field_as_json, field_as_text
from webmill.index.cdxj.inputs import find_inputs
from webmill.index.cdxj.merge import merge as merge_files
from webmill.index.lines import Batch, write_batches

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FILE_OR_DASH = click.Path(dir_okay=False, path_type=Path, allow_dash=True)
INPUT = click.option("-i", "--input", "source", required=True, type=FILE_OR_DASH, help="CDXJ file, or - for stdin.")
INPUT_OR_ARGUMENT = together(
    click.argument("named", metavar="[INPUT]", required=False, type=FILE_OR_DASH),
    click.option("-i", "--input", "source", type=FILE_OR_DASH, help="CDXJ file, or - for stdin; instead of INPUT."),
)
BUFFER = click.option(
    "--buffer-size", "buffer", type=AT_LEAST_ONE, metavar="BYTES", help="Read so much at once, up to 1 MiB."
)
VERSION = click.version_option(__version__, package_name="webmill", message="webmill %(version)s")
OUTPUT = click.option(
    "-o", "--output", type=FILE_OR_DASH, default=STDOUT, help="File to write, or - for stdout  [default: stdout]"
)
VERBOSE = click.option("-v", "--verbose", is_flag=True, help="Print more on stderr.")


@click.command("merge-flat-cdxj", epilog="Example: merge-flat-cdxj all.cdxj cdxj/ --exclude '*.tmp'")
@click.argument("paths", nargs=-1, required=True, metavar="OUTPUT PATH...", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=FILE_OR_DASH, help="File to write; then all arguments are files to read.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Skip files whose names match; repeatable.")
@BUFFER
@VERBOSE
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; overrides --verbose.")
@VERSION
def merge(
    *,
    paths: tuple[Path, ...],
    output: Path | None,
    exclude: tuple[str, ...],
    buffer: int | None,
    verbose: bool,
    quiet: bool,
) -> None:
    """Merge sorted files into OUTPUT (- is stdout). A folder stands for all files in it."""
    tell = note if verbose and not quiet else silence
    output, sources = (output, paths) if output else (paths[0], paths[1:])
    if not sources:
        raise click.UsageError("Missing argument 'PATH...'")
    files, left_out = [], 0
    for path in sources:
        kept, excluded = choose_files(path, exclude, tell=tell)
        files += kept
        left_out += excluded
    if not files:
        raise NotFound("[ERROR] No files to merge after applying exclusions")
    tell(f"[SUMMARY] Total: {len(files) + left_out} found, {left_out} excluded, {len(files)} included")
    tell(f"[MERGE] Starting merge of {len(files)} files...")
    with open_output(output) as out:
        count = write_batches(merge_files(files, block=buffer), out)
        refuse_broken_inputs(files)
    tell(f"[MERGE] Complete: {count} lines written")


def choose_files(path: Path, exclude: Sequence[str], *, tell: Callable[[str], None]) -> tuple[list[Path], int]:
    """Return the files to merge, and the number of excluded ones."""
    if path.is_dir():
        tell(f"[DISCOVER] Scanning directory: {path}")
    try:
        found = find_inputs([path])
    except NotFound:
        if not path.is_dir():  # the original ignores missing files
            raise
        found = []
    kept = []
    for file in found:
        pattern = next((pattern for pattern in exclude if fnmatch(file.name, pattern)), None)
        tell(f"[EXCLUDE] {file.name} (matches: {pattern})" if pattern else f"[INCLUDE] {file.name}")
        kept += [] if pattern else [file]
    if path.is_dir():
        counts = f"{len(found)} found, {len(found) - len(kept)} excluded, {len(kept)} included"
        tell(f"[DISCOVER] Directory {path}: {counts}")
    return kept, len(found) - len(kept)


def silence(message: str) -> None:
    pass


def choose_source(named: Path | None, source: Path | None) -> Path:
    """Return the input, which is given by its option or as an argument."""
    if (named is None) == (source is None):
        raise click.UsageError("give one input: -i FILE, or - for stdin")
    return source or named or STDIN


@click.command("addfield-to-flat-cdxj", epilog="Example: addfield-to-flat-cdxj -i a.cdxj -o b.cdxj -f collection=X")
@INPUT
@OUTPUT
@click.option("-f", "--field", "fields", multiple=True, metavar="KEY=VALUE", help="Field to add; repeatable.")
@click.option("--function", type=FILE, help="Python file with addfield(surt_key, timestamp, json_data) -> dict.")
@BUFFER
@VERBOSE
@VERSION
def add_field(
    *,
    source: Path,
    output: Path,
    fields: tuple[str, ...],
    function: Path | None,
    buffer: int | None,
    verbose: bool,
) -> None:
    """Add fields to the JSON of every line."""
    counts = AddFieldCounts()
    lines = read_source(source, block=buffer)
    added = add_chosen_fields(lines, fields, function, read_pair=key_and_value, counts=counts)
    if verbose:
        note(f"Adding {len(fields)} fields to CDXJ records" if fields else "Adding fields to CDXJ records...")
    with open_output(output) as out:
        write_batches(added, out)
    for failure in counts.failures:
        warn(f"Warning: {failure}")
    total = counts.changed + counts.skipped
    note(f"# Processed {counts.changed} lines, skipped {counts.skipped} lines (total: {total})")


def key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        warn(f"Error: Invalid field format '{text}' (expected key=value)")
        raise click.exceptions.Exit(1)
    return key, value


@click.command("cdxj-extract-field", epilog="Example: cdxj-extract-field -f status -i all.cdxj | sort | uniq -c")
@click.option("-f", "--field", "name", required=True, metavar="NAME", help="Name of the field.")
@click.option("-i", "--input", "source", default=STDIN, type=FILE_OR_DASH, help="CDXJ file  [default: stdin]")
@click.option("-r", "--raw", is_flag=True, help="Print strings without quotes.")
@click.option("-d", "--default", help="Print this where the field is missing  [default: nothing]")
@click.option(
    "-s", "--skip-missing", is_flag=True, help="Print nothing where the field is missing; overrides --default."
)
@VERBOSE
@VERSION
def extract_field(
    *, source: Path, name: str, raw: bool, default: str | None, skip_missing: bool, verbose: bool
) -> None:
    """Print one field of every line."""
    counts = FieldCounts()
    filling = None if skip_missing or default is None else default.encode()
    extract = field_as_text if raw else field_as_json
    with open_output(STDOUT) as out:
        printed = write_batches(
            extract(add_missing_json(read_source(source)), name, counts=counts, default=filling), out
        )
    if verbose:
        total = counts.extracted + counts.missing + counts.malformed
        skipped = counts.missing if skip_missing else 0
        note(f"Processed: {total} | Extracted: {printed} | Skipped: {skipped} | Errors: {counts.malformed}")


def add_missing_json(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Skip blank lines, and add an empty object to lines without JSON: for this tool neither is an error."""
    for batch in batches:
        yield [
            line.rstrip() + b" {}\n" if len(line.split(None, 2)) == 2 else line for line in batch if not line.isspace()
        ]
