"""The search engine that an address names.

    a folder · meilisearch(s)://KEY@HOST:PORT/INDEX · opensearch(s)://USER:PASSWORD@HOST:PORT/INDEX

To add one: an `OpenEngine`, and its line in `ENGINES`; or, from another package, an entry point of the group
`webmill.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from webmill.collection import PublishFolders
from webmill.infra.address import scheme_of
from webmill.infra.registry import Registry
from webmill.search.base import SearchEngine

ReplaceIndex: TypeAlias = Callable[[str], AbstractContextManager[str]]


class OpenEngine(Protocol):
    def __call__(self, url: str, *, create: bool) -> SearchEngine: ...


ENGINES = Registry[OpenEngine](
    "search engine",
    {
        "file": "webmill.search.embedded.engine:open_embedded",
        "meilisearch": "webmill.search.meilisearch.engine:MeilisearchEngine",
        "meilisearchs": "webmill.search.meilisearch.engine:MeilisearchEngine",
        "opensearch": "webmill.search.opensearch.engine:OpenSearchEngine",
        "opensearchs": "webmill.search.opensearch.engine:OpenSearchEngine",
    },
    group="webmill.search",
    forms="a folder, meilisearch://KEY@HOST:PORT/INDEX or opensearch://USER:PASSWORD@HOST:PORT/INDEX; with an s after "
    "the scheme, over TLS",
)
# Engines that can replace an index atomically.
REPLACERS = Registry[ReplaceIndex](
    "search engine",
    {
        "file": "webmill.search.embedded.engine:replacing_embedded",
        "meilisearch": "webmill.search.meilisearch.server:replacing_index",
        "meilisearchs": "webmill.search.meilisearch.server:replacing_index",
        "opensearch": "webmill.search.opensearch.server:replacing_index",
        "opensearchs": "webmill.search.opensearch.server:replacing_index",
    },
)


def search_address(url: str, root: Path) -> str:
    """Return the address of the index of the collection in `root`: `url`, which may be a path in it; else `search/`."""
    if not url:
        return str(PublishFolders(root).search)
    scheme, path = scheme_of(url)
    return str(root / path) if scheme == "file" else url


def open_search(url: str, *, create: bool = True) -> SearchEngine:
    """Open an index; with `create`, make it where there is none, else `NotFound`."""
    return ENGINES.find(scheme_of(url)[0])(url, create=create)


@contextmanager
def replacing_search(url: str) -> Iterator[str]:
    """Yield an address to build an index at. It replaces the one at `url` when the block ends well.

    An engine that cannot do that is emptied and filled again, while others search it.
    """
    replacing = REPLACERS.get(scheme_of(url)[0]) or empty_first
    with replacing(url) as fresh:
        yield fresh


@contextmanager
def empty_first(url: str) -> Iterator[str]:
    with closing(open_search(url)) as engine:
        engine.clear()
    yield url
