"""A Meilisearch server: its tasks, and creating, swapping and deleting its indexes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from webmill.errors import Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra import waiting
from webmill.infra.json_http import JsonServer
from webmill.infra.retry import BackoffPolicy
from webmill.search.address import SearchAddress
from webmill.search.meilisearch.schema import CURSOR

PORT = 7700
TASK_PATIENCE = 3600.0  # seconds
READ_RETRIES = BackoffPolicy(attempts=3)
WRITE_RETRIES = BackoffPolicy(attempts=8)  # long enough for a server that restarts


class MeilisearchTask(msgspec.Struct, rename="camel"):
    task_uid: int


class _TaskState(msgspec.Struct):
    status: str
    error: dict[str, object] | None = None


def connect(address: SearchAddress) -> JsonServer:
    key = address.password or address.user
    if not key.isascii():
        raise Misconfigured(f"{address.name}: the key has characters that no key has; copy it again")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return JsonServer(address.server, headers=headers, policy=READ_RETRIES)


def wait_for(server: JsonServer, task: MeilisearchTask, *, name: str) -> None:
    began, pause = time.monotonic(), 0.005
    while time.monotonic() - began < TASK_PATIENCE:
        try:
            state = server.ask("GET", f"/tasks/{task.task_uid}", answer=_TaskState)
        except NotFound:
            raise Unavailable(
                f"{name} does not show the task it was given: use a key for all indexes; or its data was lost"
            ) from None
        if state.status == "succeeded":
            return
        if state.status in ("failed", "canceled"):
            raise _failure(state, name=name)
        waiting.sleep(pause)
        pause = min(0.5, pause * 1.5)
    raise Unavailable(f"{name} has not finished its task {task.task_uid} within an hour")


def _failure(state: _TaskState, *, name: str) -> Exception:
    error = state.error or {}
    code, message = str(error.get("code", "")), f"{name}: {str(error.get('message', state.status))[:300]}"
    if code.endswith("_already_exists"):
        return Conflict(message)
    if code.endswith("_not_found"):
        return NotFound(message)
    return Unavailable(message) if error.get("type") != "invalid_request" else Misconfigured(message)


def create_index(server: JsonServer, address: SearchAddress) -> None:
    """Create the index; one that exists stays."""
    try:
        task = server.ask("POST", "/indexes", {"uid": address.index, "primaryKey": "id"}, answer=MeilisearchTask)
        wait_for(server, task, name=address.name)
    except Conflict:
        pass


@contextmanager
def replacing_index(url: str) -> Iterator[str]:
    """Yield an address to build an index at, which replaces the one at `url` when the block ends well."""
    aside = prepare_replacement(url)
    yield aside
    swap_in(url, aside)


def prepare_replacement(url: str) -> str:
    """Return where to build a replacement; what a killed process left there is deleted.

    `Misconfigured` when webmill did not make the index at one of the two: it is not ours to delete.
    """
    aside = f"{url.rstrip('/')}-new"
    for address in (SearchAddress.of(url, port=PORT), SearchAddress.of(aside, port=PORT)):
        with closing(connect(address)) as server:
            refuse_foreign_index(server, address)
    delete_index(aside)
    return aside


def refuse_foreign_index(server: JsonServer, address: SearchAddress) -> None:
    """Raise `Misconfigured` for an index that webmill did not make: ours has a cursor after its first change."""
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
    """Swap the indexes atomically: a search meanwhile sees the one or the other."""
    place, fresh = SearchAddress.of(url, port=PORT), SearchAddress.of(aside, port=PORT)
    with closing(connect(place)) as server:
        create_index(server, place)
        once = server.with_patience(BackoffPolicy(attempts=1))  # swapping twice would undo it
        task = once.ask("POST", "/swap-indexes", [{"indexes": [place.index, fresh.index]}], answer=MeilisearchTask)
        wait_for(server, task, name=place.name)
    delete_index(aside)


def delete_index(url: str) -> None:
    """Delete the index if there is one."""
    address = SearchAddress.of(url, port=PORT)
    with closing(connect(address)) as server:
        try:
            wait_for(
                server, server.ask("DELETE", f"/indexes/{address.index}", answer=MeilisearchTask), name=address.name
            )
        except NotFound:
            pass
