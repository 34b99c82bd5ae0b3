"""The second half of `pipeline/index.py`: sorted CDXJ files to the index that readers see.

Everything is written aside first: shards under names that nobody knows yet, tables in a folder that nobody reads. Then
names are exchanged: the summary of the ZipNum index, the folder of tables, the lists of paths, each at once. The state
says beforehand that what is published is in doubt, and afterwards what it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Protocol

import msgspec

from webmill import __version__
from webmill.collection import Collection
from webmill.errors import Misconfigured
from webmill.formats.cdx.zipnum import LINES_PER_BLOCK, encode_block
from webmill.index.build.captures import CaptureOptions
from webmill.index.cdxj.excessive import ExcessPolicy
from webmill.index.jobs import TableJob, is_table, table_name, write_table
from webmill.index.state import IndexedWarc, IndexState, PublishedIndex
from webmill.index.zipnum import writer as zipnum
from webmill.index.zipnum.ranges import IndexFilters, remove_shards_on_failure, write_ranges
from webmill.infra import atomic, swap
from webmill.infra.checksums import crc32_of_file
from webmill.infra.executor.base import Executor
from webmill.infra.executor.gather import run_all
from webmill.infra.files import RESERVED, os_errors
from webmill.pipeline.progress import ProgressReporter

BYTES_PER_SHARD = 128 << 20  # of CDXJ; about a fifth of that compressed
PATH_LISTS = ("warc", "cc-index", "cc-index-table")


class IndexingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the index depends on besides the WARC files; and whether to reuse what an earlier run made."""

    captures: CaptureOptions = CaptureOptions()
    collection_field: bool = True
    blocklist: Path | None = None
    max_removed_share: float = 1.0
    max_captures: int | None = None
    keep: ExcessPolicy = ExcessPolicy()
    lines: int = LINES_PER_BLOCK
    shards: int | None = None
    parquet: bool = True
    from_scratch: bool = False


class RemovalCounts(Protocol):
    """Where `write_shards` counts what the filters removed."""

    blocked: int
    excessive: int


class _RemovalTally(msgspec.Struct):
    blocked: int = 0
    excessive: int = 0


RefusedLines = Mapping[str, dict[str, int]]  # by table: reasons of lines that are not in it, how many


class IndexPublishPlan(msgspec.Struct, frozen=True):
    """`last` is what is published, if it can be reused: made by the same tools, and unchanged since."""

    inputs: str
    tools: str
    last: PublishedIndex | None

    @property
    def is_done(self) -> bool:
        return self.last is not None and self.last.inputs == self.inputs


def plan_publishing(
    collection: Collection, options: IndexingOptions, state: IndexState, known: Mapping[str, IndexedWarc]
) -> IndexPublishPlan:
    rules = digest_of_file(options.blocklist) if options.blocklist else ""
    rest = msgspec.structs.replace(options, blocklist=None, from_scratch=False)
    inputs = digest_of([[(path, entry.cdxj_digest) for path, entry in known.items()], rules, rest])
    tools = digest_of([__version__, installed_version("deflate"), installed_version("pyarrow")])
    last = None if options.from_scratch else state.published(collection.name)
    if last and (last.tools != tools or last.outputs != digest_of_outputs(collection)):
        last = None
    return IndexPublishPlan(inputs, tools, last)


def publish(
    collection: Collection,
    options: IndexingOptions,
    state: IndexState,
    known: Mapping[str, IndexedWarc],
    plan: IndexPublishPlan,
    *,
    executor: Executor,
    progress: ProgressReporter,
) -> PublishedIndex:
    tally = _RemovalTally()
    files = [collection.cdxj / entry.cdxj for entry in known.values() if entry.cdxj_size]
    kept = plan.last.refused if plan.last else {}
    refused: RefusedLines = {}
    with (
        zipnum.rebuilding(collection.zipnum, naming="stamped") as target,
        without_temps(collection.zipnum),
        replacing_tables(collection, options) as tables,
    ):
        with remove_shards_on_failure(target):
            shards = write_shards(files, target, options, executor=executor, progress=progress, report=tally)
            if tables:
                refused = write_tables(collection, shards, tables, kept=kept, executor=executor, progress=progress)
        state.withdraw(collection.name)
        zipnum.publish(target, shards)
    write_paths(collection, list(known), shards)
    made = PublishedIndex(
        inputs=plan.inputs,
        tools=plan.tools,
        outputs=digest_of_outputs(collection),
        shards=len(shards),
        blocked=tally.blocked,
        excessive=tally.excessive,
        refused=refused,
        files=checksum_files(collection),
    )
    state.set_published(collection.name, made)
    return made


@contextmanager
def without_temps(*folders: Path) -> Iterator[None]:
    """Remove temporary files before and after. Only for the holder of a lock: whoever left some is gone.

    A process id does not say so: in a container without an init the dead keep theirs.
    """
    _remove_temps(folders)
    try:
        yield
    finally:
        _remove_temps(folders)


def _remove_temps(folders: Iterable[Path]) -> None:
    for file in chain.from_iterable(folder.glob(f"{RESERVED}tmp-*") for folder in folders):
        file.unlink(missing_ok=True)


# --- shards -----------------------------------------------------------------------------------------------------------


def write_shards(
    files: Sequence[Path],
    target: zipnum.ShardTarget,
    options: IndexingOptions,
    *,
    executor: Executor,
    progress: ProgressReporter,
    report: RemovalCounts,
) -> list[zipnum.ZipNumShard]:
    """Write one shard per range of keys, each an independent task; return them in key order."""
    total = sum(file.stat().st_size for file in files)
    parts = options.shards or max(1, -(-total // BYTES_PER_SHARD))
    filters = IndexFilters(
        blocklist=options.blocklist,
        blocklist_digest=digest_of_file(options.blocklist) if options.blocklist else "",
        max_captures=options.max_captures,
        keep=options.keep,
    )
    with progress("Merging", total=parts, unit="shards") as counter:
        done = write_ranges(
            files,
            target,
            shards=parts,
            lines=options.lines,
            executor=executor,
            filters=filters,
            advance=counter.advance,
        )
    report.blocked = sum(part.blocked for part in done)
    report.excessive = sum(part.excessive for part in done)
    check_removed_share(report.blocked, sum(part.lines_in for part in done), options)
    return [part.shard for part in done if part.shard.blocks]


def check_removed_share(blocked: int, lines: int, options: IndexingOptions) -> None:
    if blocked > options.max_removed_share * lines:
        raise Misconfigured(
            f"{options.blocklist} removes {blocked:,} of {lines:,} lines, more than the "
            f"{options.max_removed_share:.1%} allowed: look for a rule that matches too much, or allow more. "
            f"The old index stays"
        )


# --- tables -----------------------------------------------------------------------------------------------------------


@contextmanager
def replacing_tables(collection: Collection, options: IndexingOptions) -> Iterator[Path | None]:
    """Yield a folder for new tables; None if there should be none: then the old ones are removed."""
    if options.parquet:
        with swap.replacing(collection.table, beside=collection.unfinished_tables, is_ours=is_table) as fresh:
            yield fresh
    else:
        yield None
        swap.remove(collection.table, beside=collection.unfinished_tables, is_ours=is_table)


def write_tables(
    collection: Collection,
    shards: Sequence[zipnum.ZipNumShard],
    folder: Path,
    *,
    kept: RefusedLines,
    executor: Executor,
    progress: ProgressReporter,
) -> RefusedLines:
    """Write a Parquet file per shard; one with the same lines as before is kept. Return the refused lines."""
    jobs = [TableJob(collection.zipnum / shard.name, folder / table_name(shard.name)) for shard in shards]
    due = [
        job
        for job in jobs
        if job.table.name not in kept or not try_hardlink(collection.table / job.table.name, job.table)
    ]
    with progress("Writing tables", total=len(due), unit="files") as counter:
        tables = run_all(executor, write_table, due, advance=counter.advance)
    fresh = {job.table.name: dict(table.rejected) for job, table in zip(due, tables, strict=True)}
    return {job.table.name: fresh.get(job.table.name, kept.get(job.table.name, {})) for job in jobs}


def try_hardlink(old: Path, new: Path) -> bool:
    try:
        new.hardlink_to(old)
    except OSError:
        return False
    return True


# --- lists of paths ---------------------------------------------------------------------------------------------------


def is_in_warc_paths(key: str) -> bool:
    """Return whether a WARC is in warc.paths: error pages and robots.txt have lists of their own."""
    return not {"crawldiagnostics", "robotstxt"} & set(key.split("/")[:-1])


def write_paths(collection: Collection, warcs: list[str], shards: list[zipnum.ZipNumShard]) -> None:
    """Write the gzipped path lists that every crawl of Common Crawl has."""
    index = [collection.key(collection.zipnum / name) for name in (*(s.name for s in shards), zipnum.SUMMARY)]
    tables = [collection.key(path) for path in table_files(collection)]
    atomic.make_folder(collection.crawl_data)
    for kind, keys in zip(PATH_LISTS, (list(filter(is_in_warc_paths, warcs)), index, tables), strict=True):
        atomic.write_bytes(collection.paths_file(kind), encode_block([key.encode() + b"\n" for key in keys]))


def table_files(collection: Collection) -> list[Path]:
    return sorted(collection.table.glob("*.parquet"))


# --- what it depends on -----------------------------------------------------------------------------------------------


def digest_of_outputs(collection: Collection) -> str:
    """Return a digest of the published files' sizes and times: it shows quickly whether one is missing or replaced."""
    files = [*index_files(collection), *(collection.paths_file(kind) for kind in PATH_LISTS)]
    return digest_of([(collection.key(file), *_file_identity(file)) for file in files])


def index_files(collection: Collection) -> list[Path]:
    """Return the files of the index that readers see, but for the lists of paths, which others write, too."""
    names = (zipnum.SUMMARY, zipnum.LOCATIONS, *zipnum.shards_in_summary(collection.zipnum))
    return [*(collection.zipnum / name for name in names), *table_files(collection)]


def checksum_files(collection: Collection) -> dict[str, tuple[int, int]]:
    """Return the size and CRC-32 of each file of the index."""
    files = index_files(collection)
    return {collection.key(file): (file.stat().st_size, crc32_of_file(file)) for file in files}


def _file_identity(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except FileNotFoundError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ino


def digest_of(values: object) -> str:
    return hashlib.sha256(msgspec.json.encode(values)).hexdigest()


def digest_of_file(path: Path) -> str:
    with os_errors(str(path)), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def installed_version(package: str) -> str:
    """Return the version of a package whose output may differ between versions; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
