"""An OpenSearch server: replacing and deleting its indexes. A name may be an alias."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from webmill.errors import NotFound
from webmill.infra.json_http import JsonServer
from webmill.infra.retry import BackoffPolicy
from webmill.search.address import SearchAddress

PORT = 9200
READ_RETRIES = BackoffPolicy(attempts=3)
WRITE_RETRIES = BackoffPolicy(attempts=8)  # long enough for a server that restarts


def connect(address: SearchAddress) -> JsonServer:
    credentials = b64encode(f"{address.user}:{address.password}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}"} if address.user else {}
    return JsonServer(address.server, headers=headers, policy=READ_RETRIES)


@contextmanager
def replacing_index(url: str) -> Iterator[str]:
    """Yield an address to build an index at, which replaces the one at `url` when the block ends well."""
    aside = prepare_replacement(url)
    yield aside
    swap_in(url, aside)


def prepare_replacement(url: str) -> str:
    """Return where to build a replacement: the unused one of two names. What a killed process left there is deleted.

    `Misconfigured` when webmill did not make the index at one of the two: it is not ours to delete.
    """
    address = SearchAddress.of(url, port=PORT)
    with closing(connect(address)) as server:
        used = own_index_names(server, address)
        aside = next(f"{url.rstrip('/')}{end}" for end in ("-a", "-b") if f"{address.index}{end}" not in used)
        own_index_names(server, SearchAddress.of(aside, port=PORT))
    delete_index(aside)
    return aside


def swap_in(url: str, aside: str) -> None:
    """Move the alias atomically: a search meanwhile sees the one or the other."""
    place, fresh = SearchAddress.of(url, port=PORT), SearchAddress.of(aside, port=PORT)
    with closing(connect(place)) as server:
        actions: list[object] = [{"remove_index": {"index": name}} for name in own_index_names(server, place)]
        actions.append({"add": {"index": fresh.index, "alias": place.index}})
        server.ask("POST", "/_aliases", {"actions": actions}, answer=dict)


def delete_index(url: str) -> None:
    """Delete the index if there is one."""
    address = SearchAddress.of(url, port=PORT)
    with closing(connect(address)) as server:
        delete_real_indexes(server, address)


def delete_real_indexes(server: JsonServer, address: SearchAddress) -> None:
    for name in index_names(server, address):
        try:
            server.ask("DELETE", f"/{name}", answer=dict)
        except NotFound:
            pass


def own_index_names(server: JsonServer, address: SearchAddress) -> list[str]:
    found = describe_indexes(server, address)
    for about in found.values():
        if "webmill" not in about.get("mappings", {}).get("_meta", {}):
            raise address.foreign_index_error()
    return sorted(found)


def index_names(server: JsonServer, address: SearchAddress) -> list[str]:
    return sorted(describe_indexes(server, address))


def describe_indexes(server: JsonServer, address: SearchAddress) -> dict[str, dict[str, Any]]:
    """Return the description of each index behind a name, by its real name."""
    try:
        return server.ask("GET", f"/{address.index}", answer=dict[str, dict[str, Any]])
    except NotFound:
        return {}
