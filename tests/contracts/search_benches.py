"""The engines of the search contract: the one that comes along, and real servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from webmill.search.backends import open_search
from webmill.search.base import SearchEngine
from webmill.search.meilisearch import server as meilisearch_server
from webmill.search.opensearch import server as opensearch_server

SERVERS = ("meilisearch", "opensearch")
KINDS = [
    "embedded",
    *(pytest.param(name, marks=[pytest.mark.server(name), pytest.mark.xdist_group(name)]) for name in SERVERS),
]


class Bench:
    """Indexes by name. One engine of each is open at a time, and the index is the same each time."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind, self._place, self._is_server = kind, place, kind != "embedded"
        self._opened: dict[str, SearchEngine] = {}

    def url(self, name: str) -> str:
        return f"{self._place}-{name}" if self._is_server else f"{self._place}/{name}"

    def open(self, name: str) -> SearchEngine:
        if name in self._opened:
            self._opened.pop(name).close()
        self._opened[name] = open_search(self.url(name))
        return self._opened[name]

    def close(self) -> None:
        for name, engine in self._opened.items():
            engine.close()
            if self._is_server:
                discard_search(self.url(name))


def discard_search(url: str) -> None:
    """Delete an index of a server, whoever made it."""
    (meilisearch_server if url.startswith("meilisearch") else opensearch_server).delete_index(url)


def bench_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Bench:
    if kind == "embedded":
        return Bench(kind, str(folder))
    url = request.getfixturevalue(f"{kind}_url")
    return Bench(kind, f"{url}/contract-{os.getpid()}")
