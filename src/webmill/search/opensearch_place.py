"""An OpenSearch server, and its indexes as wholes: put in another's place, deleted. A name may be an alias."""

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
ASKING = BackoffPolicy(attempts=3)
CHANGING = BackoffPolicy(attempts=8)  # a server that restarts is waited for


def server_of(address: SearchAddress) -> JsonServer:
    known = b64encode(f"{address.user}:{address.password}".encode()).decode()
    headers = {"Authorization": f"Basic {known}"} if address.user else {}
    return JsonServer(address.server, headers=headers, policy=ASKING)


@contextmanager
def replacing_index(url: str) -> Iterator[str]:
    """Give an address to make an index at, which takes the place of the one at `url` when the block ends well."""
    aside = aside_of(url)
    yield aside
    put_in_place(url, aside)


def aside_of(url: str) -> str:
    """Where to make an index anew: the one of two names that is not in use. What lies there is left over: deleted.

    `Misconfigured` when there is one, here or there, that webmill has not made: it is not ours to delete.
    """
    address = SearchAddress.of(url, port=PORT)
    with closing(server_of(address)) as server:
        used = own_names(server, address)
        aside = next(f"{url.rstrip('/')}{end}" for end in ("-a", "-b") if f"{address.index}{end}" not in used)
        own_names(server, SearchAddress.of(aside, port=PORT))
    discard(aside)
    return aside


def put_in_place(url: str, aside: str) -> None:
    """At once: whoever searches meanwhile finds the one or the other."""
    place, fresh = SearchAddress.of(url, port=PORT), SearchAddress.of(aside, port=PORT)
    with closing(server_of(place)) as server:
        actions: list[object] = [{"remove_index": {"index": name}} for name in own_names(server, place)]
        actions.append({"add": {"index": fresh.index, "alias": place.index}})
        server.ask("POST", "/_aliases", {"actions": actions}, answer=dict)


def discard(url: str) -> None:
    """Delete the index; none is right too."""
    address = SearchAddress.of(url, port=PORT)
    with closing(server_of(address)) as server:
        delete(server, address)


def delete(server: JsonServer, address: SearchAddress) -> None:
    for name in real_names(server, address):
        try:
            server.ask("DELETE", f"/{name}", answer=dict)
        except NotFound:
            pass


def own_names(server: JsonServer, address: SearchAddress) -> list[str]:
    found = behind(server, address)
    for about in found.values():
        if "webmill" not in about.get("mappings", {}).get("_meta", {}):
            raise address.has_stranger()
    return sorted(found)


def real_names(server: JsonServer, address: SearchAddress) -> list[str]:
    return sorted(behind(server, address))


def behind(server: JsonServer, address: SearchAddress) -> dict[str, dict[str, Any]]:
    """By its real name, what the server says of each index that the name stands for."""
    try:
        return server.ask("GET", f"/{address.index}", answer=dict[str, dict[str, Any]])
    except NotFound:
        return {}
