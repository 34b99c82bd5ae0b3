"""A Meilisearch server, its tasks, and its indexes as wholes: made, put in another's place, deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from webmill.errors import Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra.json_http import JsonServer
from webmill.infra.retry import BackoffPolicy
from webmill.search.address import SearchAddress
from webmill.search.meilisearch.schema import CURSOR

PORT = 7700
TASK_PATIENCE = 3600.0  # seconds
READ_RETRIES = BackoffPolicy(attempts=3)
WRITE_RETRIES = BackoffPolicy(attempts=8)  # a server that restarts is waited for


class MeilisearchTask(msgspec.Struct, rename="camel"):
    task_uid: int


class _TaskState(msgspec.Struct):
    status: str
    error: dict[str, object] | None = None


def connect(address: SearchAddress) -> JsonServer:
    key = address.password or address.user
    if not key.isascii():
        raise Misconfigured(f"{address.name}: the key has characters that no key has: copy it again")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return JsonServer(address.server, headers=headers, policy=READ_RETRIES)


def wait_for(server: JsonServer, task: MeilisearchTask, *, name: str) -> None:
    began, pause = time.monotonic(), 0.005
    while time.monotonic() - began < TASK_PATIENCE:
        try:
            state = server.ask("GET", f"/tasks/{task.task_uid}", answer=_TaskState)
        except NotFound:
            raise Unavailable(
                f"{name} does not show the task it was given: give a key for all indexes; or its data was lost"
            ) from None
        if state.status == "succeeded":
            return
        if state.status in ("failed", "canceled"):
            raise _failure(state, name=name)
        time.sleep(pause)
        pause = min(0.5, pause * 1.5)
    raise Unavailable(f"{name} has not done its task {task.task_uid} for an hour")


def _failure(state: _TaskState, *, name: str) -> Exception:
    error = state.error or {}
    code, said = str(error.get("code", "")), f"{name}: {str(error.get('message', state.status))[:300]}"
    if code.endswith("_already_exists"):
        return Conflict(said)
    if code.endswith("_not_found"):
        return NotFound(said)
    return Unavailable(said) if error.get("type") != "invalid_request" else Misconfigured(said)


def create_index(server: JsonServer, address: SearchAddress) -> None:
    """One that is there stays."""
    try:
        task = server.ask("POST", "/indexes", {"uid": address.index, "primaryKey": "id"}, answer=MeilisearchTask)
        wait_for(server, task, name=address.name)
    except Conflict:
        pass


@contextmanager
def replacing_index(url: str) -> Iterator[str]:
    """Give an address to make an index at, which takes the place of the one at `url` when the block ends well."""
    aside = prepare_replacement(url)
    yield aside
    swap_in(url, aside)


def prepare_replacement(url: str) -> str:
    """Where to make an index anew: what lies there is left over, and deleted.

    `Misconfigured` when there is one, here or there, that webmill has not made: it is not ours to delete.
    """
    aside = f"{url.rstrip('/')}-new"
    for address in (SearchAddress.of(url, port=PORT), SearchAddress.of(aside, port=PORT)):
        with closing(connect(address)) as server:
            refuse_foreign_index(server, address)
    delete_index(aside)
    return aside


def refuse_foreign_index(server: JsonServer, address: SearchAddress) -> None:
    """One of ours has a cursor from its first change on."""
    path = f"/indexes/{address.index}/documents"
    try:
        if not server.ask("GET", f"{path}?limit=1&fields=id", answer=dict[str, Any])["results"]:
            return
    except NotFound:
        return
    try:
        is_ours = {"format", "cursor"} <= server.ask("GET", f"{path}/{CURSOR}", answer=dict[str, Any]).keys()
    except NotFound:
        is_ours = False
    if not is_ours:
        raise address.foreign_index_error()


def swap_in(url: str, aside: str) -> None:
    """At once: whoever searches meanwhile finds the one or the other."""
    place, fresh = SearchAddress.of(url, port=PORT), SearchAddress.of(aside, port=PORT)
    with closing(connect(place)) as server:
        create_index(server, place)
        once = server.with_patience(BackoffPolicy(attempts=1))  # done twice it is undone
        task = once.ask("POST", "/swap-indexes", [{"indexes": [place.index, fresh.index]}], answer=MeilisearchTask)
        wait_for(server, task, name=place.name)
    delete_index(aside)


def delete_index(url: str) -> None:
    """Delete the index; none is right too."""
    address = SearchAddress.of(url, port=PORT)
    with closing(connect(address)) as server:
        try:
            wait_for(
                server, server.ask("DELETE", f"/indexes/{address.index}", answer=MeilisearchTask), name=address.name
            )
        except NotFound:
            pass
