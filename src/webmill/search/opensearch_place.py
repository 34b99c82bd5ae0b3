"""An OpenSearch server, and its indexes as wholes: put in another's place, deleted. A name may be an alias."""

from __future__ import annotations

from contextlib import closing

from urllib3 import make_headers

from webmill.errors import NotFound
from webmill.infra.json_http import JsonServer
from webmill.infra.retry import Policy
from webmill.search.address import Address

PORT = 9200
ASKING = Policy(attempts=3)
CHANGING = Policy(attempts=8)  # a server that restarts is waited for


def server_of(address: Address) -> JsonServer:
    headers = make_headers(basic_auth=f"{address.user}:{address.password}") if address.user else {}
    return JsonServer(address.server, headers=headers, policy=ASKING)


def aside_of(url: str) -> str:
    """Where to make an index anew: the one of two names that is not in use. What lies there is left over: deleted."""
    address = Address.of(url, port=PORT)
    with closing(server_of(address)) as server:
        used = real_names(server, address)
    aside = next(f"{url.rstrip('/')}{end}" for end in ("-a", "-b") if f"{address.index}{end}" not in used)
    discard(aside)
    return aside


def put_in_place(url: str, aside: str) -> None:
    """At once: whoever searches meanwhile finds the one or the other."""
    place, fresh = Address.of(url, port=PORT), Address.of(aside, port=PORT)
    with closing(server_of(place)) as server:
        actions: list[object] = [{"remove_index": {"index": name}} for name in real_names(server, place)]
        actions.append({"add": {"index": fresh.index, "alias": place.index}})
        server.ask("POST", "/_aliases", {"actions": actions}, answer=dict)


def discard(url: str) -> None:
    """Delete the index; none is right too."""
    address = Address.of(url, port=PORT)
    with closing(server_of(address)) as server:
        delete(server, address)


def delete(server: JsonServer, address: Address) -> None:
    for name in real_names(server, address):
        try:
            server.ask("DELETE", f"/{name}", answer=dict)
        except NotFound:
            pass


def real_names(server: JsonServer, address: Address) -> list[str]:
    try:
        return sorted(server.ask("GET", f"/{address.index}", answer=dict[str, object]))
    except NotFound:
        return []
