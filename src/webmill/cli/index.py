"""`webmill index`: indexes the WARC files of a collection."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.dry_run import dry_run_option, format_amount
from webmill.cli.options import settings_options
from webmill.cli.param_types import require_folder
from webmill.cli.text import format_count
from webmill.collection import Collection, default_crawl_name
from webmill.pipeline.index import IndexReport, index_crawl, require_archives
from webmill.pipeline.status.files import add_sizes, measure_folder
from webmill.pipeline.status.stages import index_status, stat_archives
from webmill.settings import Settings


@click.command(
    epilog="""\b
Examples:
  webmill index my-crawl/                      # WARC files anywhere in it
  webmill index my-crawl/ --blocklist block.txt --max-captures 1000 --keep 10
  webmill index my-crawl/ --from-scratch --dry-run
  webmill index NEWS --collections-dir /data   # the collection /data/NEWS

Run it again after adding, changing or removing WARC files: only those are read.

Exit code 3: done, but some archives are damaged; DIR/rejected/index.jsonl says where. 1: there are no archives."""
)
@click.argument("collection", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--collections-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder that contains DIR."
)
@click.option("--name", help="Name of the crawl  [default: the crawl in DIR/crawl-data, else the name of DIR]")
@settings_options(
    "index",
    "executor.jobs",
    place=lambda given: collection_path(given["collections_dir"], given["collection"]),
    types={"blocklist": click.Path(exists=True, dir_okay=False, resolve_path=True)},
)
@click.option(
    "--incremental/--from-scratch",
    default=True,
    help="Reuse the work of earlier runs, or start over.  [default: incremental]",
)
@dry_run_option
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_context
def index(
    context: Context,
    /,
    *,
    collection: Path,
    collections_dir: Path | None,
    name: str | None,
    incremental: bool,
    dry_run: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Index the WARC and ARC files of a collection: CDXJ, ZipNum, Parquet and path lists.

    The result depends only on the files and the options. If it is interrupted, run it again to continue. Readers see
    the old index until the new one is complete.
    """
    root = require_folder(collection_path(collections_dir, collection)).resolve()
    where = Collection(root, name or default_crawl_name(root))
    if dry_run:
        print_preview(where, from_scratch=not incremental)
        return
    report = index_crawl(where, settings, progress=context.progress, from_scratch=not incremental)
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        print_index_report(report, root)
    finish(rejected=len(report.rejects), where=f"{where.rejected / 'index.jsonl'} lists files, byte ranges and reasons")


def collection_path(collections_dir: Path | None, collection: Path) -> Path:
    return (collections_dir or Path()) / collection


def print_preview(collection: Collection, *, from_scratch: bool) -> None:
    """Print what a run would read and replace, judged by file size and time. Fails where the run would."""
    require_archives(collection)
    found = stat_archives(collection)
    seen = index_status(collection, found)
    if seen is None:
        note("no readable archives and no index: nothing would change")
        return
    due = len(found) if from_scratch else seen.new + seen.changed
    all_ = add_sizes(status.size for status in found.values())
    gone = f"; {seen.gone:,} deleted archives would leave the index" * bool(seen.gone)
    note(f"would be read: {due:,} of {format_amount(all_, 'archive')}{gone}")
    if seen.made is not None and (due or seen.gone or seen.is_torn):
        old = measure_folder(collection.zipnum)
        note(f"would be replaced if the result differs: {collection.zipnum} ({format_amount(old)})")


def print_index_report(report: IndexReport, root: Path) -> None:
    done = f"{report.indexed:,} indexed, {report.kept:,} unchanged, {report.removed:,} deleted"
    note(f"{format_count(report.warcs, 'archive')} ({done}): {format_count(report.captures, 'capture')}")
    if report.gone:
        note(
            f"deleted, and so no longer in the index: {', '.join(report.gone)}"
            + "…" * (report.removed > len(report.gone))
        )
    if report.blocked or report.excessive:
        excessive = f"{format_count(report.excessive, 'line')} of URLs with too many captures"
        note(f"left out: {format_count(report.blocked, 'blocked line')}, {excessive}")
    made = [format_count(report.shards, "shard")] + [format_count(report.tables, "Parquet file")] * bool(report.tables)
    note(f"{report.place}: {', '.join(made)}" + ", unchanged" * (not report.published))
    if not report.warcs:
        note(f"no WARC or ARC files are left in {root}: the index is empty")
    for reason, count in report.not_in_tables.items():
        warn(f"{format_count(count, 'line')} not in the Parquet files, only in the shards: {reason}")
