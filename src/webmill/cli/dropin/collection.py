"""`cdxj-index-collection`: `webmill index` with separate folders for input, work and output."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from webmill.cli.context import Context, finish, pass_context, warn
from webmill.cli.dropin.lines import VERSION, key_and_value
from webmill.cli.param_types import ANY_COUNT, AT_LEAST_ONE
from webmill.compat.replay.collection import DetachedCollection, FieldAdder, index_flat, index_zipnum
from webmill.errors import NotFound
from webmill.index.archives import find_archives
from webmill.infra.executor.backends import open_executor
from webmill.pipeline.index import IndexReport
from webmill.pipeline.index_publishing import IndexingOptions

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
BLOCKLIST = Path("/data/blocklists/arquivo-blocklist.txt")
STAGES = (
    "Indexing WARC files",
    "Adding collection field (collection={name})",
    "Filtering blocklist",
    "Merge filtered indexes",
    "Filter excessive URLs",
    "Convert to ZipNum format",
)


class ScriptCommand(click.Command):
    """Ends with code 1 after a wrong use, as the original does, which is a shell script; and in its words."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            warn(f"[ERROR] {self._in_its_words(error)}")
            warn(self.get_help(click.Context(self, info_name=self.name)))
            raise click.exceptions.Exit(1) from error

    def _in_its_words(self, error: click.UsageError) -> str:
        if isinstance(error, click.NoSuchOption):
            return f"Unknown option: {error.option_name}"
        if isinstance(error, click.MissingParameter):
            return "Collection name is required"
        return "Too many arguments" if "unexpected extra" in error.format_message() else error.format_message()


@click.command(
    "cdxj-index-collection",
    cls=ScriptCommand,
    epilog="""\b
Example:
  cdxj-index-collection AWP999 --collections-dir /data --incremental

Exit code 3: done, but some archives are damaged; the message names the file that lists them.""",
)
@click.argument("name", metavar="collection_name")
@click.option(
    "--blocklist", type=FILE, help=f"Drop lines that match a rule in this file  [default: {BLOCKLIST}, if it exists]"
)
@click.option("--threshold", default=1000, show_default=True, type=ANY_COUNT, help="Maximum captures per URL.")
@click.option("--jobs", type=AT_LEAST_ONE, help="Number of processes  [default: one per core]")
@click.option(
    "--shard-size", "lines", default=3000, show_default=True, type=AT_LEAST_ONE, help="Index lines per block."
)
@click.option(
    "--collections-dir",
    default=Path("/data/collections"),
    show_default=True,
    type=FOLDER,
    help="Folder of the collections.",
)
@click.option(
    "--output-dir", default=Path("/data/zipnum"), show_default=True, type=FOLDER, help="Folder for the indexes."
)
@click.option(
    "--temp-dir",
    default=Path("/data/cdxj-processing-tmp"),
    show_default=True,
    type=FOLDER,
    help="Folder for temporary files.",
)
@click.option("--keep-temp", is_flag=True, help="Keep the CDXJ file of each WARC file; implied by --incremental.")
@click.option("--no-compress", is_flag=True, help="Write one sorted CDXJ file instead of a ZipNum index.")
@click.option("--incremental", is_flag=True, help="Read only WARC files that are new or changed.")
@click.option("--addfield", "fields", multiple=True, metavar="KEY=VALUE", help="Field to add; repeatable.")
@click.option(
    "--addfield-func",
    "function",
    type=FILE,
    help="Python file with a function addfield, as addfield-to-flat-cdxj has it.",
)
@VERSION
@pass_context
def index(
    context: Context,
    /,
    *,
    name: str,
    blocklist: Path | None,
    threshold: int,
    jobs: int | None,
    lines: int,
    collections_dir: Path,
    output_dir: Path,
    temp_dir: Path,
    keep_temp: bool,
    no_compress: bool,
    incremental: bool,
    fields: tuple[str, ...],
    function: Path | None,
) -> None:
    """Index the WARC files of COLLECTIONS-DIR/COLLECTION to OUTPUT-DIR/COLLECTION.

    Every line gets a "collection" field. Lines that match the blocklist and URLs with too many captures are dropped.
    """
    if not name or "/" in name or name.startswith("."):
        raise click.UsageError(f"{name!r} is not the plain name of a collection")
    where = DetachedCollection(collections_dir / name, name, work=temp_dir / name / "webmill", output=output_dir / name)
    options = IndexingOptions(
        blocklist=choose_blocklist(blocklist),
        max_captures=threshold,
        lines=lines,
        parquet=False,
        from_scratch=not incremental,
    )
    where.require_archives()
    settings = context.settings().executor
    workers = jobs or settings.jobs
    print_configuration(where, options, jobs=workers, keep_temp=keep_temp)
    make = index_flat if no_compress else index_zipnum
    adder = FieldAdder(dict(map(key_and_value, fields)), function) if fields or function else None
    with closing(open_executor(settings.url, workers=workers)) as executor:
        report = make(where, options, executor=executor, progress=context.progress, adder=adder)
    if not (keep_temp or incremental):
        shutil.rmtree(where.work)  # a folder of ours alone
    print_statistics(where, report)
    finish(rejected=len(report.rejects), where=f"{where.rejected / 'index.jsonl'} lists files, byte ranges and reasons")


def choose_blocklist(given: Path | None) -> Path | None:
    """Return the blocklist. The default one may be missing, a given one must exist: it may remove what must not be
    shown."""
    if given and not given.is_file():
        raise NotFound(f"Blocklist not found: {given}")
    if not given and not BLOCKLIST.is_file():
        warn(f"[WARNING] Blocklist not found: {BLOCKLIST}")
        warn("[WARNING] Proceeding without blocklist filtering: nothing is blocked")
        return None
    return given or BLOCKLIST


def print_configuration(
    where: DetachedCollection, options: IndexingOptions, *, jobs: int | None, keep_temp: bool
) -> None:
    warcs = sum(1 for _ in find_archives(where, refuse=lambda *_: None))
    shown = {
        "Collection": where.name,
        "Collection field": f"collection={where.name}",
        "WARC files": warcs,
        "Collection dir": where.root,
        "Output dir": where.output,
        "Temp dir": where.work,
        "Blocklist": options.blocklist or "none",
        "Excessive threshold": options.max_captures,
        "Parallel jobs": jobs or os.cpu_count(),
        "Shard size": options.lines,
        "Incremental mode": int(not options.from_scratch),
        "Keep temp files": int(keep_temp),
    }
    click.echo("[INFO] Configuration:")
    for title, value in shown.items():
        click.echo(f"  {title + ':':<20} {value}")
    click.echo(f"[INFO] Started at {datetime.now().astimezone():%Y-%m-%d %H:%M:%S %Z}")
    click.echo("[INFO] Creating directories...")
    for number, stage in enumerate(STAGES, start=1):
        if number != 3 or options.blocklist:
            click.echo(f"[INFO] STAGE {number}/{len(STAGES)}: {stage.format(name=where.name)}")


def print_statistics(where: DetachedCollection, report: IndexReport) -> None:
    click.echo("[SUCCESS] Statistics:")
    click.echo(f"  Input WARC files:   {report.warcs}")
    click.echo(f"  Captures:           {report.lines} in the index, of {report.captures} in the WARC files")
    click.echo(f"  Output shards:      {report.shards}")
    click.echo(f"[SUCCESS] Output directory: {where.output}")
