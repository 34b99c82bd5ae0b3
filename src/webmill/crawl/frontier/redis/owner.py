"""Who owns a frontier in Redis: the folder that has its files, and the process that opened it last.

The folder's id is in Redis, so that no other folder is taken for it. A number, the epoch, is counted up by everyone who
opens the frontier, and is in every change: a process that was thought dead can change nothing any more.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path

from webmill.crawl.frontier.redis.changes import change_number
from webmill.crawl.frontier.redis.filter import SCHEMA
from webmill.crawl.frontier.redis.server import RedisServer, as_text
from webmill.crawl.frontier.redis.state import VERSION, RedisState
from webmill.errors import Misconfigured
from webmill.infra import sqlite

FACTS = "seen.sqlite"
REFILL = "refill"  # in `meta`: the filter lacks URLs; it is made anew when the frontier is opened
RESTORING = "restoring"  # in `meta`: not all keys are there yet
TAKING_OVER = "taking"  # in `meta`: it has a new folder, and not all of it counts yet
REBUILD = "rebuild"  # a fact: the exact set lacks URLs; it is made anew when the frontier is opened


class FolderFacts:
    """What a folder knows of itself: `id`, `joined` (once Redis has heard of it), `change` (of its last checkpoint)."""

    def __init__(self, folder: Path) -> None:
        self.database = sqlite.Database(folder / FACTS, schema=SCHEMA)

    def read(self) -> dict[str, str]:
        return dict(self.database.read("SELECT name, value FROM fact"))

    def note(self, **facts: str) -> None:
        with self.database.write():
            self.database.many("INSERT OR REPLACE INTO fact VALUES (?, ?)", facts.items())

    def drop(self, name: str) -> None:
        with self.database.write() as run:
            run("DELETE FROM fact WHERE name = ?", (name,))

    def close(self) -> None:
        self.database.close()


def write_facts(folder: Path, **facts: str) -> None:
    with closing(FolderFacts(folder)) as notes:
        notes.note(**facts)


def read_facts(folder: Path) -> dict[str, str]:
    with closing(FolderFacts(folder)) as notes:
        return notes.read()


def key_prefix(prefix: str) -> str:
    """Return the prefix of all keys. The braces keep them in one slot of a cluster."""
    return f"{{{prefix}}}:"


def read_meta(server: RedisServer, prefix: str) -> dict[str, str]:
    return {as_text(name): as_text(value) for name, value in server.ask("HGETALL", prefix + "meta").items()}


def take_ownership(server: RedisServer, prefix: str) -> RedisState:
    """Become the owner: whoever owned it until now can change nothing any more."""
    epoch = server.ask("HINCRBY", prefix + "meta", "epoch", 1)
    return RedisState(server, prefix, epoch=epoch, number=change_number(read_meta(server, prefix).get("change", "0")))


def join_frontier(server: RedisServer, prefix: str, *, facts: FolderFacts, folder: Path) -> None:
    """Make the frontier, or find that it is the one of this folder."""
    known = facts.read()
    if "id" not in known:
        facts.note(id=secrets.token_hex(16))
    found = read_meta(server, prefix)
    if not found and "joined" in known:
        message = f"Redis at {server.place} knows nothing of the frontier in {folder}: "
        raise Misconfigured(message + "restore its data, or remove the folder to begin anew")
    if RESTORING in found:
        message = f"a restore of the frontier {prefix} in Redis at {server.place} was cut short: "
        raise Misconfigured(message + f"remove {folder}, and restore it again")
    if not found:
        server.ask("HSETNX", prefix + "meta", "folder", facts.read()["id"])
        found = read_meta(server, prefix)
    require_own_folder(server, prefix, found, facts=facts, folder=folder)
    if int(found.get("version", VERSION)) < VERSION:
        server.ask("DEL", prefix + "gates")  # of the first version
        server.ask("HSET", prefix + "meta", "version", str(VERSION))
    facts.note(joined="1")


def require_own_folder(
    server: RedisServer, prefix: str, meta: dict[str, str], *, facts: FolderFacts, folder: Path
) -> None:
    if meta["folder"] != facts.read()["id"]:
        message = f"the files of the frontier {prefix} in Redis at {server.place} are not in {folder}: "
        raise Misconfigured(message + "name their folder, or another prefix")
    if TAKING_OVER in meta:
        raise Misconfigured(f"taking over the frontier {prefix} was cut short: take it over again, into {folder}")
    if int(meta.get("version", VERSION)) > VERSION:
        raise Misconfigured(f"the frontier {prefix} is of a newer webmill: use that one")
