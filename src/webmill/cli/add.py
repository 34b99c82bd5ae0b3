"""`webmill add`: existing archives are added to a collection."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, hint, note, pass_context, warn
from webmill.cli.text import escape_text, format_count, format_size, json_line
from webmill.collection import Collection, default_crawl_name
from webmill.pipeline.add.run import AddReport, add_archives, check_archives

MAX_LISTED = 20  # of each kind; --json has all


@click.command(
    epilog="""\b
Examples:
  webmill add news/ crawl.wacz        # Browsertrix, ArchiveWeb.page, webmill
  webmill add news/ wget/*.warc.gz --link
  webmill add news/ old.arc.gz --name HERITRIX-2004
  webmill add news/ crawl.wacz --dry-run
Then: webmill run news/

\b
If it is interrupted, run it again: no file is added twice.
Exit code 3: done, but a file was refused or is damaged; a message says why."""
)
@click.argument("root", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE...",
)
@click.option("--name", help="Name of the crawl  [default: the crawl in DIR/crawl-data, else the name of DIR]")
@click.option("--link", "linked", is_flag=True, help="Make hard links instead of copies; needs the same disk.")
@click.option("--dry-run", is_flag=True, help="Read and check every file, but change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_context
def add(
    context: Context,
    /,
    *,
    root: Path,
    files: tuple[Path, ...],
    name: str | None,
    linked: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add existing WARC, ARC and WACZ files to the collection in DIR.

    DIR is created if needed. Each archive is read completely, checked against the digest in its WACZ, and copied
    unchanged below DIR/crawl-data. From then on it is treated as if webmill had crawled it.
    """
    root = root.resolve()
    collection = Collection(root, name or default_crawl_name(root))
    is_new = not collection.crawl_data.is_dir()
    if dry_run:
        report = check_archives(collection, files, progress=context.progress)
    else:
        report = add_archives(collection, files, linked=linked, progress=context.progress)
    if as_json:
        click.echo(json_line(msgspec.to_builtins(report)))
    place = f"{collection.crawl_data}{' (new)' * (is_new and bool(report.added))}"
    print_add_report(report, place=place, would="would be " * dry_run)
    if report.added and not dry_run:
        hint(f"Next: webmill index {shlex.quote(str(root))}" + (f" --name {shlex.quote(name)}" if name else ""))
    finish(rejected=len(report.rejects) + len(report.damaged), where="see the lines above")


def print_add_report(report: AddReport, *, place: str, would: str) -> None:
    for reject in report.rejects[:MAX_LISTED]:
        warn(escape_text(f"{reject.file}: {reject.message} [{reject.reason}]"))
    for archive in report.damaged[:MAX_LISTED]:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in archive.damage.items())
        warn(escape_text(f"{archive.source}: {would}added, but damaged: {counts}; first: {archive.first_damage}"))
    more = max(0, len(report.rejects) - MAX_LISTED) + max(0, len(report.damaged) - MAX_LISTED)
    if more:
        warn(f"and {more:,} more: --json lists them")
    captures, size = (sum(getattr(one, what) for one in report.added) for what in ("captures", "bytes"))
    held = f"{format_count(captures, 'capture')}, {format_size(size)}"
    added = f"{format_count(len(report.added), 'archive')} {would}added ({held})"
    note(f"{place}: {added}, {len(report.there):,} already there, {len(report.rejects):,} refused")
