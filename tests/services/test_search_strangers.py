"""Indexes on a server that are not ours are not deleted by making ours anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.contracts.search_benches import SERVERS, discard_search
from webmill.errors import Misconfigured
from webmill.infra.json_http import JsonServer
from webmill.search.address import SearchAddress
from webmill.search.backends import open_search, replacing_search
from webmill.search.base import IndexedDocument
from webmill.search.meilisearch import server as meilisearch_server
from webmill.search.meilisearch.server import MeilisearchTask, wait_for
from webmill.search.opensearch import server as opensearch_server

PARAMS = [pytest.param(name, marks=[pytest.mark.server(name), pytest.mark.xdist_group(name)]) for name in SERVERS]


@pytest.fixture(params=PARAMS)
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    url = f"{request.getfixturevalue(f'{request.param}_url')}/strangers-{os.getpid()}"
    yield url
    for end in ("", "-new", "-a", "-b"):
        discard_search(url + end)


def server_of(url: str) -> tuple[JsonServer, SearchAddress]:
    module: Any = meilisearch_server if url.startswith("meilisearch") else opensearch_server
    address = SearchAddress.of(url, port=module.PORT)
    return module.connect(address), address


def put_stranger(url: str) -> None:
    server, address = server_of(url)
    with closing(server):
        if url.startswith("meilisearch"):
            task = server.ask(
                "POST", f"/indexes/{address.index}/documents", [{"id": "1", "a": "b"}], answer=MeilisearchTask
            )
            wait_for(server, task, name=address.name)
        else:
            server.ask("PUT", f"/{address.index}/_doc/1?refresh=true", {"a": "b"}, answer=dict)


def is_there(url: str) -> bool:
    server, address = server_of(url)
    kind = "documents" if url.startswith("meilisearch") else "_doc"
    start = "/indexes" if url.startswith("meilisearch") else ""
    with closing(server):
        found = server.ask("GET", f"{start}/{address.index}/{kind}/1", answer=dict[str, Any])
    return bool(found.get("_source", found)["a"] == "b")


def rebuild(url: str) -> None:
    with replacing_search(url) as fresh, closing(open_search(fresh)) as engine:
        engine.apply([IndexedDocument(id="a", hash="h", version="v")], [], cursor="v1")


def test_a_strangers_index_is_not_replaced(place: str) -> None:
    put_stranger(place)
    with pytest.raises(Misconfigured, match="webmill did not make: name another one, or delete it"):
        rebuild(place)
    assert is_there(place)


def test_a_strangers_index_beside_ours_is_not_deleted(place: str) -> None:
    beside = f"{place}-new" if place.startswith("meilisearch") else f"{place}-a"
    rebuild(place)
    rebuild(place)
    put_stranger(beside)
    with pytest.raises(Misconfigured, match="webmill did not make"):
        rebuild(place)
    assert is_there(beside)
    with closing(open_search(place, create=False)) as engine:
        assert engine.count() == 1
