"""`cdxj-index-collection`: the steps of `webmill index`, with input, work and output in three places as of old."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.counts import ANY_COUNT, AT_LEAST_ONE
from webmill.collection import Collection
from webmill.errors import NotFound
from webmill.index.blocklist import block, load_blocklist
from webmill.index.excessive import drop_excessive
from webmill.index.lines import Batch, write_batches
from webmill.index.merge import merge
from webmill.index.ranges import clean_failure
from webmill.index.state import FILE_NAME, open_state
from webmill.index.tally import Tally
from webmill.index.zipnum import publish, rebuilding
from webmill.infra import atomic, lock
from webmill.infra.executor.base import Executor
from webmill.pipeline.index import Report, bring_up_to_date, write_rejects
from webmill.pipeline.index_publishing import Options, write_shards
from webmill.wiring import open_executor

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
BLOCKLIST = Path("/data/blocklists/arquivo-blocklist.txt")


class Apart(Collection, frozen=True, kw_only=True):
    """A collection whose index and work are not in its folder, which is only read."""

    work: Path
    output: Path

    @property
    def cdxj(self) -> Path:
        return self.work

    @property
    def rejected(self) -> Path:
        return self.output / "rejected"


@click.command(
    "cdxj-index-collection",
    epilog="""\b
Example:
  cdxj-index-collection AWP999 --collections-dir /data --incremental

Exit code 3: done, but some archives are damaged; the message says where they are listed.""",
)
@click.argument("name", metavar="COLLECTION")
@click.option("--blocklist", type=FILE, help=f"Rules of lines to drop  [default: {BLOCKLIST}, if there]")
@click.option("--threshold", default=1000, show_default=True, type=ANY_COUNT, help="Captures a URL may have.")
@click.option("--jobs", type=AT_LEAST_ONE, help="Processes  [default: one per core]")
@click.option("--shard-size", "lines", default=3000, show_default=True, type=AT_LEAST_ONE, help="Lines to a block.")
@click.option(
    "--collections-dir", default=Path("/data/collections"), show_default=True, type=FOLDER, help="WARC files."
)
@click.option("--output-dir", default=Path("/data/zipnum"), show_default=True, type=FOLDER, help="Indexes.")
@click.option("--temp-dir", default=Path("/data/cdxj-processing-tmp"), show_default=True, type=FOLDER, help="Work.")
@click.option("--keep-temp", is_flag=True, help="Keep the CDXJ files of the WARC files. So does --incremental.")
@click.option("--no-compress", is_flag=True, help="One flat sorted CDXJ instead of a ZipNum index.")
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

    Each line has "collection"; lines of the blocklist and URLs with too many captures are left out.
    """
    if not name or "/" in name or name.startswith("."):
        raise click.UsageError(f"{name!r} is not the plain name of a collection")
    where = Apart(collections_dir / name, name, work=temp_dir / name / "webmill", output=output_dir / name)
    rules = chosen_blocklist(blocklist)
    options = Options(blocklist=rules, max_captures=threshold, lines=lines, parquet=False, from_scratch=not incremental)
    settings = context.settings().executor
    with closing(open_executor(msgspec.structs.replace(settings, jobs=jobs or settings.jobs))) as executor:
        report = index_apart(where, options, executor=executor, context=context, flat=no_compress)
    if not (keep_temp or incremental):
        shutil.rmtree(where.work)  # a folder that nobody else puts anything into
    note(f"[SUCCESS] {report.captures} captures of {report.warcs} WARC files; output directory: {where.output}")
    finish(rejected=len(report.rejects), where=f"{where.rejected / 'index.jsonl'} has files, byte ranges and reasons")


def chosen_blocklist(given: Path | None) -> Path | None:
    """The usual one may be missing, one that was asked for may not."""
    if given and not given.is_file():
        raise NotFound(f"no blocklist {given}")
    if not given and not BLOCKLIST.is_file():
        warn(f"[WARNING] no blocklist {BLOCKLIST}: nothing is blocked")
        return None
    return given or BLOCKLIST


def index_apart(where: Apart, options: Options, *, executor: Executor, context: Context, flat: bool) -> Report:
    """As `index_collection`, without what it publishes beside the index."""
    if not where.root.is_dir():
        raise NotFound(f"Collection directory not found: {where.root}")
    report = Report()
    watch = context.progress
    atomic.make_folder(where.work)
    atomic.make_folder(where.output)
    with lock.exclusive(where.work, "index", doing="indexing"):
        atomic.remove_stale_temps(where.work)
        with open_state(where.work / FILE_NAME, anew=options.from_scratch) as state:
            known = bring_up_to_date(where, options, state, executor=executor, watch=watch, report=report)
        write_rejects(where, report.rejects)
        if not report.warcs:
            raise NotFound(f"No WARC files found in {where.root}")
        files = [where.work / entry.cdxj for entry in known.values() if entry.cdxj_size]
        if flat:
            write_flat(files, where.output / f"{where.name}.cdxj", options)
        else:
            with rebuilding(where.output) as target:
                with clean_failure(target):
                    shards = write_shards(files, target, options, executor=executor, watch=watch, report=report)
                publish(target, shards)
    return report


def write_flat(files: list[Path], output: Path, options: Options) -> None:
    batches: Iterable[Batch] = merge(files)
    if options.blocklist:
        batches = block(batches, load_blocklist(options.blocklist), tally=Tally())
    if options.max_captures is not None:
        batches = drop_excessive(batches, limit=options.max_captures, tally=Tally())
    with atomic.writing(output) as out:
        write_batches(batches, out)
