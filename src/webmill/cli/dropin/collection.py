"""`cdxj-index-collection`: `webmill index` with separate folders for input, work and output."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import click

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.param_types import ANY_COUNT, AT_LEAST_ONE
from webmill.compat.replay.collection import DetachedCollection, index_flat, index_zipnum
from webmill.errors import NotFound
from webmill.infra.executor.backends import open_executor
from webmill.pipeline.index_publishing import IndexingOptions

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
BLOCKLIST = Path("/data/blocklists/arquivo-blocklist.txt")


@click.command(
    "cdxj-index-collection",
    epilog="""\b
Example:
  cdxj-index-collection AWP999 --collections-dir /data --incremental

Exit code 3: done, but some archives are damaged; the message names the file that lists them.""",
)
@click.argument("name", metavar="COLLECTION")
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
) -> None:
    """Index the WARC files of COLLECTIONS-DIR/COLLECTION to OUTPUT-DIR/COLLECTION.

    Every line gets a "collection" field. Lines that match the blocklist and URLs with too many captures are dropped.
    """
    if not name or "/" in name or name.startswith("."):
        raise click.UsageError(f"{name!r} is not the plain name of a collection")
    where = DetachedCollection(collections_dir / name, name, work=temp_dir / name / "webmill", output=output_dir / name)
    rules = choose_blocklist(blocklist)
    options = IndexingOptions(
        blocklist=rules, max_captures=threshold, lines=lines, parquet=False, from_scratch=not incremental
    )
    make = index_flat if no_compress else index_zipnum
    settings = context.settings().executor
    with closing(open_executor(settings.url, workers=jobs or settings.jobs)) as executor:
        report = make(where, options, executor=executor, progress=context.progress)
    if not (keep_temp or incremental):
        shutil.rmtree(where.work)  # a folder of ours alone
    note(f"[SUCCESS] {report.captures} captures of {report.warcs} WARC files; output directory: {where.output}")
    finish(rejected=len(report.rejects), where=f"{where.rejected / 'index.jsonl'} lists files, byte ranges and reasons")


def choose_blocklist(given: Path | None) -> Path | None:
    """Return the blocklist. The default one may be missing, a given one must exist."""
    if given and not given.is_file():
        raise NotFound(f"no blocklist {given}")
    if not given and not BLOCKLIST.is_file():
        warn(f"[WARNING] no blocklist {BLOCKLIST}: nothing is blocked")
        return None
    return given or BLOCKLIST
