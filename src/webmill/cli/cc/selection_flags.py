"""The flags that say which captures of which index go into batches, for `webmill cc batch` and `run`."""

from __future__ import annotations

import posixpath
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.filters import filter_options, parse_selection
from webmill.cli.cc.server_flags import (
    base_url_of,
    check_crawl_name,
    explain_missing_index,
    open_base_url,
    resolve_crawl,
    server_options,
)
from webmill.cli.options import together
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.commoncrawl.catalog import cluster_key
from webmill.commoncrawl.crawl_storage import locate_crawl_file
from webmill.commoncrawl.selection import Selection
from webmill.errors import NotFound
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.infra.address import scheme_of
from webmill.infra.executor.backends import open_executor
from webmill.infra.executor.base import Executor
from webmill.infra.storage.base import Readable
from webmill.pipeline.dispatch.batcher import BATCH_SIZE, BatcherOptions, IndexSource
from webmill.settings import ExecutorSettings, Settings

selection_options = together(
    click.option("--crawl", metavar="NAME", help="Crawl whose index is read: CC-MAIN-2024-30 or latest."),
    click.option(
        "--cluster-idx",
        metavar="FILE|URL",
        help="Read this cluster.idx. Its blocks are beside it or, with --crawl, those of the crawl.",
    ),
    server_options,
    filter_options,
    click.option("--dedup", type=click.Choice(["digest"]), help="Select only the first capture of the same content."),
    click.option("--limit", type=AT_LEAST_ONE, help="Select at most this many captures  [default: all]"),
    click.option("--batch-size", type=AT_LEAST_ONE, default=BATCH_SIZE, show_default=True, help="Captures per batch."),
)


class SelectionFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `wanted_options`, without those of `server_options`."""

    crawl: str | None
    cluster_idx: str | None
    dedup: str | None
    limit: int | None
    batch_size: int
    selection: Selection

    @classmethod
    def from_flags(cls, flags: dict[str, Any]) -> SelectionFlags:
        """Read the flags, which must be these and no others; wrong use is an error."""
        own = {name: flags.pop(name) for name in cls.__struct_fields__ if name in flags}
        if not own["crawl"] and not own["cluster_idx"]:
            raise click.UsageError("give --crawl NAME or --cluster-idx FILE|URL")
        if own["crawl"]:
            check_crawl_name(own["crawl"])
        return cls(**own, selection=parse_selection(**flags))

    def options(self, **others: int) -> BatcherOptions:
        return BatcherOptions(batch_size=self.batch_size, dedup=bool(self.dedup), limit=self.limit, **others)

    def source(self, settings: Settings) -> IndexSource:
        """Return the index to read; raise `NotFound` if it does not exist."""
        scheme, folder = scheme_of(base_url_of(settings))
        if self.crawl and scheme == "file" and not Path(folder).is_dir():
            raise NotFound(f"no folder {folder}: check --base-url")
        match self.crawl, self.cluster_idx:
            case None, str(place):
                source = locate_index(place, settings)
            case _, str(place):
                source = self._of_copy(place, settings)
            case _:
                source = self._of_crawl(settings)
        with explain_missing_index():
            source.storage.stat(source.summary)
        return source

    def blocks_at(self, settings: Settings) -> str:
        """Return the server or folder that the blocks are read from."""
        return base_url_of(settings) if self.crawl else self.cluster_idx or ""

    def _of_crawl(self, settings: Settings) -> IndexSource:
        base = base_url_of(settings)
        key = cluster_key(resolve_crawl(self.crawl or "", base, settings))
        storage = open_base_url(base, settings)
        return IndexSource(f"{absolute_place(base)}/{key}", storage, key, AdjacentBlocks(storage, key))

    def _of_copy(self, cluster_idx: str, settings: Settings) -> IndexSource:
        """Return the index of a crawl, with a summary that was downloaded before."""
        crawl, summary = self._of_crawl(settings), locate_index(cluster_idx, settings)
        return IndexSource(f"{summary.name} of {crawl.name}", summary.storage, summary.summary, crawl.shards)


class AdjacentBlocks:
    """Blocks in the folder of the summary; no cluster.loc with other places is requested."""

    def __init__(self, storage: Readable, summary: str) -> None:
        self._storage = storage
        self._folder = posixpath.dirname(summary)

    def read(self, name: str, *, start: int, length: int) -> bytes:
        return self._storage.read(posixpath.join(self._folder, name), start=start, length=length)


def locate_index(cluster_idx: str, settings: Settings) -> IndexSource:
    if scheme_of(cluster_idx)[0] == "file" and Path(scheme_of(cluster_idx)[1]).is_dir():
        cluster_idx = str(Path(scheme_of(cluster_idx)[1]) / "cluster.idx")
    storage, key = locate_crawl_file(cluster_idx, http=settings.http, commoncrawl=settings.commoncrawl)
    # cluster.loc is for archives on disks; Common Crawl has none, and may answer 403 when it is requested.
    is_web = scheme_of(cluster_idx)[0] in ("http", "https")
    shards = AdjacentBlocks(storage, key) if is_web else ShardLocations(storage, key, elsewhere={})
    return IndexSource(absolute_place(cluster_idx), storage, key, shards)


def absolute_place(place: str) -> str:
    scheme, rest = scheme_of(place)
    return str(Path(rest).resolve()) if scheme == "file" else place


def open_chosen_executor(settings: Settings) -> AbstractContextManager[Executor | None]:
    """Open an executor only if one is configured: passing blocks between processes costs a third more CPU time."""
    if settings.executor == ExecutorSettings():
        return nullcontext()
    return closing(open_executor(settings.executor.url, workers=settings.executor.jobs))
