"""`webmill cdxj index`: indexes WARC and ARC files as sorted CDXJ."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import click

from webmill.cli.cdxj.streams import OUTPUT, open_output
from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.progress import Progress
from webmill.cli.text import escape_text, format_count
from webmill.formats.warc.scan import ScanOptions
from webmill.index.build.captures import FIELDS, PROFILES, CaptureOptions
from webmill.index.build.warc import ArchiveInput, LineForm, index_archives
from webmill.index.lines import write_batches
from webmill.infra.storage.backends import locate
from webmill.model import Damage
from webmill.settings import HttpSettings

COLUMNS = {"cdxj": None, "cdx9": 9, "cdx11": 11}


@click.command(
    epilog="""\b
Examples:
  webmill cdxj index a.warc.gz b.warc.gz -o both.cdxj
  webmill cdxj index https://data.example/a.warc.gz s3://bucket/b.warc.gz
  webmill cdxj index --verify a.warc.gz > /dev/null  # every checksum, digest

Exit code 3: a file is damaged; its good records are indexed, and a message says where the damage is."""
)
@click.argument("warcs", nargs=-1, required=True, metavar="WARC…")
@OUTPUT
@click.option("--all", "all_records", is_flag=True, help="Also index request and metadata records.")
@click.option("--post-append", is_flag=True, help="Tell POST requests apart by their bodies, as pywb does.")
@click.option(
    "--profile",
    type=click.Choice(sorted(PROFILES)),
    default="commoncrawl",
    show_default=True,
    help="Set of fields to write.",
)
@click.option("--minimal", is_flag=True, help="Same as --profile minimal; HTTP headers are not read.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["cdxj", "cdx11", "cdx9"]),
    default="cdxj",
    show_default=True,
    help="CDXJ, or CDX with 11 or 9 columns.",
)
@click.option("--digest-records", is_flag=True, help="Add recordDigest: the SHA-256 of each record as it is stored.")
@click.option("--fields", help=f"Comma-separated fields to write instead: {', '.join(FIELDS)}.")
@click.option(
    "--full-paths", is_flag=True, help="Write file names as given on the command line, not only their last part."
)
@click.option("--verify", is_flag=True, help="Decompress everything; check CRCs, lengths and digests.")
@click.option("--torn", is_flag=True, help="Also index a truncated last record.")
@pass_context
def index(
    context: Context,
    /,
    *,
    warcs: tuple[str, ...],
    output: Path,
    all_records: bool,
    post_append: bool,
    profile: str,
    minimal: bool,
    form: str,
    digest_records: bool,
    fields: str | None,
    full_paths: bool,
    verify: bool,
    torn: bool,
) -> None:
    """Index WARC and ARC files, one line per capture, sorted in byte order.

    WARC is a path or an http(s):// or s3:// address of a file: plain, gzip (per record or as a whole) or zstd.
    """
    for folder in filter(os.path.isdir, warcs):
        raise click.UsageError(
            f"{folder} is a folder: give files, or index all files in it with: webmill index {folder}"
        )
    minimal = minimal or profile == "minimal"
    if minimal and post_append:
        raise click.UsageError("--post-append reads HTTP headers, --minimal does not")
    if form != "cdxj" and (fields or digest_records):
        raise click.UsageError(f"{form} has fixed columns: leave out --fields and --digest-records")
    names = tuple(fields.split(",")) if fields else PROFILES["minimal" if minimal else profile]
    if digest_records:
        names = tuple(dict.fromkeys((*names, "length", "offset")))
    options = CaptureOptions(fields=names, all_records=all_records, post_append=post_append, parse_http=not minimal)
    lines_form = LineForm(columns=COLUMNS[form], record_digests=digest_records)
    http = context.settings().http
    damaged = 0

    def report(file: str, damage: Damage) -> None:
        nonlocal damaged
        damaged += 1
        note(escape_text(f"{file}: bytes {damage.offset}-{damage.end}: {damage.reason}: {damage.message}"))

    with context.progress("Indexing", total=len(warcs), unit="files") as bar, open_output(output) as out:
        archives = open_archives(warcs, http, bar, full_paths=full_paths)
        scan = ScanOptions(verify=verify, torn=torn)
        lines = index_archives(archives, report=report, options=options, scan=scan, form=lines_form)
        count = write_batches(lines, out)
    note(f"# Indexed {format_count(len(warcs), 'file')}: {format_count(count, 'line')}")
    finish(rejected=damaged, where="see the lines above")


def open_archives(
    urls: Iterable[str], http: HttpSettings, bar: Progress, *, full_paths: bool
) -> Iterator[ArchiveInput]:
    for url in urls:
        storage, key = locate(url, contact=http.contact, timeout=http.timeout)
        yield ArchiveInput(url if full_paths else key, partial(storage.open, key))
        bar.advance()
