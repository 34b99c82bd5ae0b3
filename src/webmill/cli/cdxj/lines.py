"""The commands that read lines and write lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import click

from webmill.cli.cdxj.streams import INPUT, OUTPUT, STDOUT, open_output, read_source, refuse_broken_inputs
from webmill.cli.context import finish, note
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.text import format_count
from webmill.index.cdxj.add_fields import AddFieldCounts, add_by_function, add_fields, load_function
from webmill.index.cdxj.blocklist import block as block_lines
from webmill.index.cdxj.blocklist import load_blocklist
from webmill.index.cdxj.extract_field import FieldCounts, field_as_json, field_as_text
from webmill.index.cdxj.inputs import find_inputs
from webmill.index.cdxj.merge import drop_repeats
from webmill.index.cdxj.merge import merge as merge_files
from webmill.index.cdxj.sort import MEMORY, sort_lines
from webmill.index.lines import Batch, FilterCounts, write_batches

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog="Example: webmill cdxj sort unsorted.cdxj -o sorted.cdxj")
@INPUT
@OUTPUT
@click.option(
    "--memory",
    default=MEMORY >> 20,
    show_default=True,
    type=AT_LEAST_ONE,
    metavar="MB",
    help="Memory to use.",
)
@click.option(
    "--temp-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder for temporary files."
)
def sort(*, source: Path, output: Path, memory: int, temp_dir: Path | None) -> None:
    """Sort lines in byte order (as LC_ALL=C sort does), in bounded memory."""
    with open_output(output) as out:
        count = write_batches(sort_lines(read_source(source), memory=memory << 20, folder=temp_dir), out)
    note(f"# Sorted {format_count(count, 'line')}")


@click.command(
    epilog="""\b
Examples:
  webmill cdxj merge cdxj/ -o all.cdxj
  webmill cdxj merge a.cdxj b.cdxj.gz --unique | webmill cdxj zipnum -o index/"""
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@OUTPUT
@click.option("--unique", is_flag=True, help="Drop repeated lines.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Skip files whose names match; repeatable.")
def merge(*, paths: tuple[Path, ...], output: Path, unique: bool, exclude: tuple[str, ...]) -> None:
    """Merge sorted files, plain or gzip, into one sorted stream. A folder stands for all files in it.

    The order of every input is checked: a line out of order is an error that names the file and the line.
    """
    files = find_inputs(paths, exclude=exclude)
    merged = merge_files(files)
    with open_output(output) as out:
        count = write_batches(drop_repeats(merged) if unique else merged, out)
        refuse_broken_inputs(files)
    note(f"# Merged {format_count(len(files), 'file')}: {format_count(count, 'line')}")


@click.command(
    "add-field",
    epilog="""\b
Examples:
  webmill cdxj add-field -f collection=NEWS a.cdxj > b.cdxj
  webmill cdxj add-field --function year.py a.cdxj > b.cdxj

\b
year.py, for example:
  def addfield(surt_key, timestamp, json_data):
      return json_data | {"year": timestamp[:4]}

Exit code 3: done, but some lines are not CDXJ; they are copied unchanged.""",
)
@INPUT
@OUTPUT
@click.option("-f", "--field", "fields", multiple=True, metavar="KEY=VALUE", help="Field to add; repeatable.")
@click.option("--function", type=FILE, help="Python file with addfield(surt_key, timestamp, json_data) -> dict.")
def add_field(*, source: Path, output: Path, fields: tuple[str, ...], function: Path | None) -> None:
    """Add fields to the JSON of every line. An existing field gets the new value."""
    counts = AddFieldCounts()
    added = add_chosen_fields(read_source(source), fields, function, read_pair=parse_key_value, counts=counts)
    with open_output(output) as out:
        write_batches(added, out)
    for failure in counts.failures:
        note(failure)
    note(f"# Processed {format_count(counts.changed, 'line')}, skipped {format_count(counts.skipped, 'line')}")
    finish(rejected=counts.skipped, where="lines that are not CDXJ, or that the function refused, are copied unchanged")


def add_chosen_fields(
    batches: Iterable[Batch],
    fields: Sequence[str],
    function: Path | None,
    *,
    read_pair: Callable[[str], tuple[str, str]],
    counts: AddFieldCounts,
) -> Iterator[Batch]:
    """Add the fields of `-f` or of `--function`; exactly one of them must be given."""
    if bool(fields) == bool(function):
        raise click.UsageError("give either -f KEY=VALUE or --function FILE.py")
    if function:
        return add_by_function(batches, load_function(function), counts=counts)
    return add_fields(batches, dict(map(read_pair, fields)), counts=counts)


def parse_key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--field")
    return key, value


@click.command(epilog="Example: webmill cdxj block -b blocklist.txt all.cdxj -o clean.cdxj")
@INPUT
@OUTPUT
@click.option(
    "-b",
    "--blocklist",
    required=True,
    type=FILE,
    help="File with one regular expression (RE2) per line; # starts a comment.",
)
@click.option(
    "--max-removed-share",
    default=1.0,
    show_default=True,
    metavar="0..1",
    help="Fail if more than this share of the lines is dropped.",
)
@click.option("--by-rule", is_flag=True, help="Print how many lines each rule dropped.")
def block(*, source: Path, output: Path, blocklist: Path, max_removed_share: float, by_rule: bool) -> None:
    """Drop the lines that match a rule of the blocklist.

    A rule is a regular expression, searched for in the whole line (`^com,spam,`). An invalid rule is an error that
    names its line.
    """
    tally = FilterCounts()
    counts: Counter[int] | None = Counter() if by_rule else None
    rules = load_blocklist(blocklist)
    kept = block_lines(read_source(source), rules, tally=tally, max_removed_share=max_removed_share, by_rule=counts)
    with open_output(output) as out:
        write_batches(kept, out)
    for line, count in (counts or Counter()).most_common():
        note(f"# {blocklist}:{line}: {count:,}")
    note(
        f"# Kept {format_count(tally.kept, 'line')}, "
        f"dropped {format_count(tally.removed, 'line')} ({tally.removed_share:.1%})"
    )


@click.command(
    epilog="""\b
Example:
  webmill cdxj field -f url --raw all.cdxj | sort -u

Exit code 3: done, but some lines are not CDXJ."""
)
@INPUT
@click.option("-f", "--field", "name", metavar="NAME", required=True, help="Name of the field.")
@click.option("-r", "--raw", is_flag=True, help="Print strings without quotes and escapes.")
@click.option("-d", "--default", help="Print this where the field is missing  [default: nothing]")
def field(*, source: Path, name: str, raw: bool, default: str | None) -> None:
    """Print one field of every line, as JSON or raw."""
    counts = FieldCounts()
    values = (field_as_text if raw else field_as_json)(
        read_source(source), name, counts=counts, default=None if default is None else default.encode()
    )
    with open_output(STDOUT) as out:
        write_batches(values, out)
    note(f"# Extracted {counts.extracted:,}, missing {counts.missing:,}, malformed {counts.malformed:,}")
    finish(rejected=counts.malformed, where="lines that are not CDXJ")
