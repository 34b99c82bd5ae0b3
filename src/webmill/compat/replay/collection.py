"""`cdxj-index-collection`: the steps of `webmill index`, with input, work and output in three folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from webmill.collection import Collection
from webmill.errors import NotFound
from webmill.index.archives import find_archives
from webmill.index.cdxj.add_fields import AddFieldCounts, add_by_function, add_fields, load_function
from webmill.index.cdxj.blocklist import block, load_blocklist
from webmill.index.cdxj.excessive import drop_excessive
from webmill.index.cdxj.merge import merge
from webmill.index.cdxj.sort import sort_lines
from webmill.index.lines import Batch, FilterCounts, read_batches, write_batches
from webmill.index.state import FILE_NAME, open_state
from webmill.index.zipnum.ranges import remove_shards_on_failure
from webmill.index.zipnum.writer import publish, rebuilding
from webmill.infra import atomic, lock
from webmill.infra.executor.base import Executor
from webmill.pipeline.index import IndexReport, update_cdxj, write_rejects
from webmill.pipeline.index_publishing import IndexingOptions, write_shards
from webmill.pipeline.progress import ProgressReporter

ADDED = ".added"  # ending of the files with more fields


class DetachedCollection(Collection, frozen=True, kw_only=True):
    """A collection that is only read: its index and working files are elsewhere."""

    work: Path
    output: Path

    @property
    def cdxj(self) -> Path:
        return self.work

    @property
    def rejected(self) -> Path:
        return self.output / "rejected"

    def require_archives(self) -> None:
        """Raise `NotFound`, in the words of the original, where there is nothing to index."""
        if not self.root.is_dir():
            raise NotFound(f"Collection directory not found: {self.root}")
        if not any(find_archives(self, refuse=lambda *_: None)):
            raise NotFound(f"No WARC files found in {self.root}")


class FieldAdder(msgspec.Struct, frozen=True):
    """The fields of `--addfield` and `--addfield-func`, beside the name of the collection."""

    fields: dict[str, str]
    function: Path | None = None

    def apply(self, files: list[Path]) -> list[Path]:
        """Return files of the same lines with the fields, sorted again: a field more can change the order."""
        return [self._apply(file) for file in files]

    def _apply(self, file: Path) -> Path:
        batches: Iterable[Batch] = read_batches(file)
        if self.fields:
            batches = add_fields(batches, self.fields, counts=AddFieldCounts())
        if self.function:
            batches = add_by_function(batches, load_function(self.function), counts=AddFieldCounts())
        target = file.with_suffix(ADDED)
        with atomic.writing(target) as out:
            write_batches(sort_lines(batches, folder=file.parent), out)
        return target


def index_zipnum(
    collection: DetachedCollection,
    options: IndexingOptions,
    *,
    executor: Executor,
    progress: ProgressReporter,
    adder: FieldAdder | None = None,
) -> IndexReport:
    """Index the collection's WARC files as `index_collection` does, without what it publishes beside the index."""
    with (
        updated_cdxj(collection, options, executor=executor, progress=progress) as (files, report),
        rebuilding(collection.output) as target,
    ):
        files = adder.apply(files) if adder else files
        with remove_shards_on_failure(target):
            shards = write_shards(files, target, options, executor=executor, progress=progress, report=report)
        publish(target, shards)
        report.shards = len(shards)
    return report


def index_flat(
    collection: DetachedCollection,
    options: IndexingOptions,
    *,
    executor: Executor,
    progress: ProgressReporter,
    adder: FieldAdder | None = None,
) -> IndexReport:
    """Index the collection's WARC files into one flat sorted CDXJ."""
    with updated_cdxj(collection, options, executor=executor, progress=progress) as (files, report):
        write_flat(
            adder.apply(files) if adder else files, collection.output / f"{collection.name}.cdxj", options, report
        )
    return report


@contextmanager
def updated_cdxj(
    collection: DetachedCollection, options: IndexingOptions, *, executor: Executor, progress: ProgressReporter
) -> Iterator[tuple[list[Path], IndexReport]]:
    """Update the CDXJ files of all WARC files under a lock. Yields the files and the report."""
    collection.require_archives()
    report = IndexReport()
    atomic.make_folder(collection.work)
    atomic.make_folder(collection.output)
    with lock.exclusive(collection.work, "index", doing="indexing"):
        atomic.remove_stale_temps(collection.work)
        with open_state(collection.work / FILE_NAME, anew=options.from_scratch) as state:
            known = update_cdxj(collection, options, state, executor=executor, progress=progress, report=report)
        write_rejects(collection, report.rejects)
        yield [collection.work / entry.cdxj for entry in known.values() if entry.cdxj_size], report


def write_flat(files: list[Path], output: Path, options: IndexingOptions, report: IndexReport) -> None:
    blocked, excessive = FilterCounts(), FilterCounts()
    batches: Iterable[Batch] = merge(files)
    if options.blocklist:
        batches = block(batches, load_blocklist(options.blocklist), tally=blocked)
    if options.max_captures is not None:
        batches = drop_excessive(batches, limit=options.max_captures, tally=excessive)
    with atomic.writing(output) as out:
        write_batches(batches, out)
    report.blocked, report.excessive, report.shards = blocked.removed, excessive.removed, 1
