"""`cdxj-index-collection`: the steps of `webmill index`, with input, work and output in three folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.collection import Collection
from webmill.errors import NotFound
from webmill.index.cdxj.blocklist import block, load_blocklist
from webmill.index.cdxj.excessive import drop_excessive
from webmill.index.cdxj.merge import merge
from webmill.index.lines import Batch, FilterCounts, write_batches
from webmill.index.state import FILE_NAME, open_state
from webmill.index.zipnum.ranges import remove_shards_on_failure
from webmill.index.zipnum.writer import publish, rebuilding
from webmill.infra import atomic, lock
from webmill.infra.executor.base import Executor
from webmill.pipeline.index import IndexReport, update_cdxj, write_rejects
from webmill.pipeline.index_publishing import IndexingOptions, write_shards
from webmill.pipeline.progress import ProgressReporter


class DetachedCollection(Collection, frozen=True, kw_only=True):
    """A collection that is only read: its index and working files are elsecollection."""

    work: Path
    output: Path

    @property
    def cdxj(self) -> Path:
        return self.work

    @property
    def rejected(self) -> Path:
        return self.output / "rejected"


def index_zipnum(
    collection: DetachedCollection, options: IndexingOptions, *, executor: Executor, progress: ProgressReporter
) -> IndexReport:
    """Index the collection's WARC files as `index_collection` does, without what it publishes beside the index."""
    with (
        updated_cdxj(collection, options, executor=executor, progress=progress) as (files, report),
        rebuilding(collection.output) as target,
    ):
        with remove_shards_on_failure(target):
            shards = write_shards(files, target, options, executor=executor, progress=progress, report=report)
        publish(target, shards)
    return report


def index_flat(
    collection: DetachedCollection, options: IndexingOptions, *, executor: Executor, progress: ProgressReporter
) -> IndexReport:
    """Index the collection's WARC files into one flat sorted CDXJ."""
    with updated_cdxj(collection, options, executor=executor, progress=progress) as (files, report):
        write_flat(files, collection.output / f"{collection.name}.cdxj", options)
    return report


@contextmanager
def updated_cdxj(
    collection: DetachedCollection, options: IndexingOptions, *, executor: Executor, progress: ProgressReporter
) -> Iterator[tuple[list[Path], IndexReport]]:
    """Update the CDXJ files of all WARC files under a lock. Yields the files and the report."""
    if not collection.root.is_dir():
        raise NotFound(f"Collection directory not found: {collection.root}")
    report = IndexReport()
    atomic.make_folder(collection.work)
    atomic.make_folder(collection.output)
    with lock.exclusive(collection.work, "index", doing="indexing"):
        atomic.remove_stale_temps(collection.work)
        with open_state(collection.work / FILE_NAME, anew=options.from_scratch) as state:
            known = update_cdxj(collection, options, state, executor=executor, progress=progress, report=report)
        write_rejects(collection, report.rejects)
        if not report.warcs:
            raise NotFound(f"No WARC files found in {collection.root}")
        yield [collection.work / entry.cdxj for entry in known.values() if entry.cdxj_size], report


def write_flat(files: list[Path], output: Path, options: IndexingOptions) -> None:
    batches: Iterable[Batch] = merge(files)
    if options.blocklist:
        batches = block(batches, load_blocklist(options.blocklist), tally=FilterCounts())
    if options.max_captures is not None:
        batches = drop_excessive(batches, limit=options.max_captures, tally=FilterCounts())
    with atomic.writing(output) as out:
        write_batches(batches, out)
