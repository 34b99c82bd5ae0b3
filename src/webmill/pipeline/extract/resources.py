"""How a worker opens what its plan names: archives, a fetcher of captures, sinks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from webmill.commoncrawl.capture_fetcher import CaptureFetcher, WholeFileRule
from webmill.commoncrawl.crawl_storage import open_crawl_storage
from webmill.commoncrawl.ranges import RangeLimits
from webmill.commoncrawl.whole_files import WholeFiles
from webmill.infra import waiting
from webmill.infra.address import scheme_of
from webmill.infra.interrupts import StopFile
from webmill.infra.queue.backends import open_queue
from webmill.infra.queue.base import QueueOptions
from webmill.infra.retry import sleeping_until
from webmill.infra.sinks import json_lines, parquet
from webmill.infra.sinks.backends import open_stream
from webmill.infra.sinks.base import Sink
from webmill.infra.sinks.files import FileSink
from webmill.infra.sinks.messages import QueueSink
from webmill.infra.storage.backends import locate, open_readable, open_storage
from webmill.infra.storage.base import Readable
from webmill.model import Document
from webmill.pipeline.extract.plan import ExtractPlan, OutputTarget, is_queue, is_stream


class ArchiveLocator:
    """Finds where the files of tasks are read."""

    def __init__(self, plan: ExtractPlan) -> None:
        self._source, self._fetching = plan.source, plan.fetching
        self._storage: Readable | None = None

    def find(self, path: str) -> tuple[Readable, str]:
        """Return the storage and the key of a file that a task names: below the plan's source, or anywhere."""
        http = self._fetching.http
        if scheme_of(path)[0] != "file" or path.startswith("/"):
            return locate(path, contact=http.contact, timeout=http.timeout)
        if self._storage is None:
            self._storage = open_readable(self._source, contact=http.contact, timeout=http.timeout)
        return self._storage, path


@contextmanager
def open_fetcher(plan: ExtractPlan, *, fetched: Callable[[int], None]) -> Iterator[CaptureFetcher]:
    """Return a fetcher of single captures from the plan's source, at the rate that its server allows."""
    how = plan.fetching
    stop = StopFile(Path(how.stop)) if how.stop else None
    with ExitStack() as stack:
        whole = None
        if scheme_of(plan.source)[0] != "file" and how.cache_size:
            folder = how.cache or stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-"))
            sleep = sleeping_until(stop) if stop else waiting.sleep
            whole = WholeFileRule(WholeFiles(Path(folder), most=how.cache_size, sleep=sleep))
        storage = open_crawl_storage(plan.source, http=how.http, commoncrawl=how.commoncrawl, stop=stop)
        fetcher = CaptureFetcher(
            storage, concurrency=how.concurrency, limits=RangeLimits(), whole=whole, on_download=fetched
        )
        stack.callback(fetcher.close)
        yield fetcher


def open_sink(target: OutputTarget, kind: type[msgspec.Struct], *, name: str, counts: Callable[[str], bool]) -> Sink:
    """Open the sink of a target. `counts` says whether a file is recorded as delivered."""
    if is_stream(target.to):
        return open_stream(target.to, id_of)
    if is_queue(target.to):
        return QueueSink(open_queue(target.to, QueueOptions(name=name)))
    storage = open_storage(target.to)
    if target.format == "parquet":
        encode = partial(parquet.encode, kind=kind, compression=target.compression or "zstd")
        check = None if kind is Document else partial(parquet.check, kind=kind)  # of ours every row fits
        return FileSink(storage, encode, ending=parquet.ENDING, counts=counts, check=check)
    compression = target.compression or "gzip"
    return FileSink(
        storage,
        partial(json_lines.encode, compression=compression),
        ending=json_lines.ENDINGS[compression],
        counts=counts,
    )


def id_of(value: object) -> str:
    """Return the id of a document or an error record; of what your function makes, if it has one."""
    found = getattr(value, "id", None) or getattr(value, "document_id", None)
    return found if isinstance(found, str) else ""
