"""Documents, versions, and the search index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from webmill.errors import NotFound
from webmill.infra.storage.local import LocalStorage
from webmill.infra.tree import size_of
from webmill.pipeline.publish.due import counts_of, documents_in
from webmill.pipeline.status.files import added, amount_of
from webmill.pipeline.status.nouns import Amount, Publication, Search
from webmill.publish import history
from webmill.publish.keys import BLOBS
from webmill.search.base import SearchEngine


def documents_of(root: Path) -> Amount | None:
    amount = added(map(size_of, documents_in(root)))
    return amount if amount.files else None


def publication_of(root: Path) -> Publication | None:
    storage = LocalStorage(root)
    last = history.read_last_record(storage)
    if last is None:
        return None
    live = last.commit.live
    counts = counts_of(storage, live)
    return Publication(
        versions=len(history.versions_at(storage, last)),
        live=live.version,
        published_at=live.published_at,
        documents=live.count,
        failed_sources=counts.failed_sources,
        errors=counts.errors,
        blobs=amount_of(root / BLOBS),
    )


def search_of(open_engine: Callable[[], SearchEngine], *, live: str | None) -> Search | None:
    try:
        with closing(open_engine()) as engine:
            count, cursor = engine.count(), engine.cursor()
    except NotFound:
        return None
    return Search(count, cursor, is_behind=live is not None and cursor != live)
