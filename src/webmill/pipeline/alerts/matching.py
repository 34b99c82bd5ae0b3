"""Which changes a query finds: those of pages that it finds, before the change or after it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from webmill.errors import BadInput, NotFound
from webmill.infra.batches import batches
from webmill.infra.storage.base import Readable
from webmill.pipeline.search.documents import to_indexed
from webmill.publish.changes import PageChange
from webmill.publish.types import PublishedItem
from webmill.search.base import IndexedDocument
from webmill.search.embedded.matching import DocumentMatcher
from webmill.search.query import SearchQuery

log = logging.getLogger(__name__)

AT_ONCE = 100  # changes whose texts are in memory, as an index


def match_changes(
    storage: Readable, changes: Iterable[PageChange], queries: Sequence[SearchQuery]
) -> Iterator[tuple[PageChange, list[bool]]]:
    """Yield each change with the answer to each query. A query without parts finds every change."""
    for batch in batches(changes, lambda _: 1, count=AT_ONCE, size=AT_ONCE):
        yield from zip(batch, _find(storage, batch, queries), strict=True)


def _find(storage: Readable, changes: Sequence[PageChange], queries: Sequence[SearchQuery]) -> list[list[bool]]:
    if not any(query.parts for query in queries):
        return [[True] * len(queries) for _ in changes]
    matcher = DocumentMatcher(_documents(storage, changes))
    answers = [
        {int(id_.partition(".")[0]) for id_ in matcher.matching(query)} if query.parts else range(len(changes))
        for query in queries
    ]
    return [[number in answer for answer in answers] for number in range(len(changes))]


def _documents(storage: Readable, changes: Sequence[PageChange]) -> Iterator[IndexedDocument]:
    """Yield the documents of each change, before and after it; before the dot in their id is its number."""
    for number, change in enumerate(changes):
        contents = {hash_: None for hash_ in (change.new, change.old) if hash_} or {"": None}
        urls = dict.fromkeys(url for url in (change.url, change.moved_to) if url)
        places = ((hash_, url) for hash_ in contents for url in urls)
        for variant, (hash_, url) in enumerate(places):
            yield _document(storage, change, hash_, url, id_=f"{number}.{variant}")


def _document(storage: Readable, change: PageChange, hash_: str, url: str, *, id_: str) -> IndexedDocument:
    item = PublishedItem(id_, "", hash_, metadata={"url": url, "title": change.title})
    try:
        return to_indexed(storage, item, version=change.version)
    except (BadInput, NotFound) as error:  # gc has taken the old content, or it is damaged: the excerpts are left
        log.info("matched by its excerpts", extra={"change": change.key, "why": str(error)})
        text = f"{change.added}\n{change.removed}"
        return IndexedDocument(id=id_, url=url, title=change.title, text=text, hash=hash_, version=change.version)
