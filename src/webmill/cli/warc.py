"""`webmill warc`: lists and checks WARC and ARC files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.progress import Progress
from webmill.cli.text import escape_text, format_count
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.scan import bad_digests
from webmill.model import Damage, Record

FILES = click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line on stdout.")


@click.group()
def warc() -> None:
    """Check or list WARC and ARC files: plain, gzip (per record or as a whole) or zstd."""


@warc.command(
    epilog="""\b
Examples:
  webmill warc check crawl-data/*/segments/*/warc/*.warc.gz
  webmill warc check --json suspicious.warc.gz | jq .reason

Exit code 3: something is damaged."""
)
@FILES
@AS_JSON
@pass_context
def check(context: Context, /, *, files: tuple[Path, ...], as_json: bool) -> None:
    """Check every byte: gzip checksums, lengths, record ends, digests.

    Each damage is printed as a line with its byte range and reason; the good records of the file are still counted.
    """
    damaged = 0
    for file in files:
        records = 0
        for item in read_file_items(file, context):
            if isinstance(item, Record):
                records += 1
            for damage in check_digests(item) if isinstance(item, Record) else (item,):
                damaged += 1
                print_damage(file, damage, as_json=as_json)
        note(f"{file}: {format_count(records, 'record')}")
    finish(rejected=damaged, where="see the lines above")


@warc.command(
    "list",
    epilog="""\b
Example:
  webmill warc list file.warc.gz | awk '$3 == "response"'

Exit code 3: done, but a file is damaged; `webmill warc check` says where.""",
)
@FILES
@AS_JSON
@pass_context
def list_records(context: Context, /, *, files: tuple[Path, ...], as_json: bool) -> None:
    """List records, one per line: offset, stored length, type, date, URL."""
    damaged = 0
    for file in files:
        for item in read_file_items(file, context):
            if isinstance(item, Damage):
                damaged += 1
                print_damage(file, item, as_json=False, err=True)
            elif as_json:
                click.echo(msgspec.json.encode(make_row(file, item)))
            else:
                row = make_row(file, item)
                columns = (row.offset, row.length, row.type or "-", row.date or "-", escape_text(row.url or "-"))
                click.echo("\t".join(map(str, columns)))
    finish(rejected=damaged, where="run `webmill warc check` on these files")


class RecordRow(msgspec.Struct, frozen=True):
    file: str
    offset: int
    length: int
    type: str | None
    date: str | None
    url: str | None
    record_id: str | None
    content_length: int


def make_row(file: Path, record: Record) -> RecordRow:
    texts = (record.type, record.date, record.target_uri, record.record_id)
    kind, date, url, record_id = (text and text.encode("utf-8", "replace").decode() for text in texts)
    return RecordRow(str(file), record.offset, record.length, kind, date, url, record_id, record.content_length)


def read_file_items(file: Path, context: Context) -> Iterator[Record | Damage]:
    """Yield every record and damage of a file, and show progress in bytes."""
    with file.open("rb") as source:
        size = os.fstat(source.fileno()).st_size
        with context.progress(file.name, total=size, unit="bytes") as bar:
            yield from count_bytes_read(read_records(source), bar)


def count_bytes_read(items: Iterator[Record | Damage], bar: Progress) -> Iterator[Record | Damage]:
    seen = 0
    for item in items:
        end = item.offset + item.length if isinstance(item, Record) else item.end
        bar.advance(max(0, end - seen))
        seen = max(seen, end)
        yield item


def check_digests(record: Record) -> Iterator[Damage]:
    """Yield wrong digests. A record over 64 MiB is not held in memory: only the gzip checksum covers it."""
    if not record.cut:
        end = record.offset + record.length
        yield from bad_digests(record.headers, record.content, offset=record.offset, end=end)


def print_damage(file: Path, damage: Damage, *, as_json: bool, err: bool = False) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"file": str(file), **msgspec.to_builtins(damage)}))
    else:
        line = f"{file}: bytes {damage.offset}-{damage.end}: {damage.reason}: {damage.message}"
        click.echo(escape_text(line), err=err)
