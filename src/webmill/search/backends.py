"""Which search engine an address names.

    a folder · meilisearch(s)://KEY@HOST:PORT/INDEX · opensearch(s)://USER:PASSWORD@HOST:PORT/INDEX

To add one: an `OpenEngine`, and its line in `ENGINES`; or, from another package, an entry point of the group
`webmill.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from webmill.collection import Publishing
from webmill.infra.address import scheme_of
from webmill.infra.registry import Registry
from webmill.search.base import Engine

Replacing: TypeAlias = Callable[[str], AbstractContextManager[str]]


class OpenEngine(Protocol):
    def __call__(self, url: str, *, create: bool) -> Engine: ...


ENGINES = Registry[OpenEngine](
    "search engine",
    {
        "file": "webmill.search.embedded:open_embedded",
        "meilisearch": "webmill.search.meilisearch:MeilisearchEngine",
        "meilisearchs": "webmill.search.meilisearch:MeilisearchEngine",
        "opensearch": "webmill.search.opensearch:OpenSearchEngine",
        "opensearchs": "webmill.search.opensearch:OpenSearchEngine",
    },
    group="webmill.search",
    forms="a folder, meilisearch://KEY@HOST:PORT/INDEX or opensearch://USER:PASSWORD@HOST:PORT/INDEX; with an s after "
    "the scheme, over TLS",
)
# Engines that can put an index in another's place at once.
REPLACERS = Registry[Replacing](
    "search engine",
    {
        "file": "webmill.search.embedded:replacing_embedded",
        "meilisearch": "webmill.search.meilisearch_place:replacing_index",
        "meilisearchs": "webmill.search.meilisearch_place:replacing_index",
        "opensearch": "webmill.search.opensearch_place:replacing_index",
        "opensearchs": "webmill.search.opensearch_place:replacing_index",
    },
)


def search_of(url: str, root: Path) -> str:
    """Return where the index of the collection in `root` is: at `url`, which may be a path in it; else in `search/`."""
    if not url:
        return str(Publishing(root).search)
    scheme, path = scheme_of(url)
    return str(root / path) if scheme == "file" else url


def open_search(url: str, *, create: bool = True) -> Engine:
    """Open an index. `create`: also where there is none yet; else `NotFound`."""
    return ENGINES.find(scheme_of(url)[0])(url, create=create)


@contextmanager
def replacing_search(url: str) -> Iterator[str]:
    """Give an address to make an index at. It takes the place of the one at `url` when the block ends well.

    An engine that cannot do so is emptied and filled again, in sight of whoever searches.
    """
    replacing = REPLACERS.get(scheme_of(url)[0]) or emptying
    with replacing(url) as fresh:
        yield fresh


@contextmanager
def emptying(url: str) -> Iterator[str]:
    with closing(open_search(url)) as engine:
        engine.clear()
    yield url
