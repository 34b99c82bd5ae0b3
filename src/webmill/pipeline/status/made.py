"""Documents, versions, and the search index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from webmill.errors import NotFound
from webmill.infra.storage.local import LocalStorage
from webmill.infra.tree import size_of
from webmill.pipeline.publish.due import document_files, version_counts
from webmill.pipeline.status.files import add_sizes, measure_folder
from webmill.pipeline.status.types import FilesSize, PublishStatus, SearchStatus
from webmill.publish import history
from webmill.publish.keys import BLOBS
from webmill.search.base import SearchEngine


def measure_documents(root: Path) -> FilesSize | None:
    amount = add_sizes(map(size_of, document_files(root)))
    return amount if amount.files else None


def read_publish_status(root: Path) -> PublishStatus | None:
    storage = LocalStorage(root)
    last = history.read_last_record(storage)
    if last is None:
        return None
    live = last.commit.live
    counts = version_counts(storage, live)
    return PublishStatus(
        versions=len(history.versions_at(storage, last)),
        live=live.version,
        published_at=live.published_at,
        documents=live.count,
        failed_sources=counts.failed_sources,
        errors=counts.errors,
        blobs=measure_folder(root / BLOBS),
    )


def read_search_status(open_engine: Callable[[], SearchEngine], *, live: str | None) -> SearchStatus | None:
    try:
        with closing(open_engine()) as engine:
            count, cursor = engine.count(), engine.cursor()
    except NotFound:
        return None
    return SearchStatus(count, cursor, is_behind=live is not None and cursor != live)
