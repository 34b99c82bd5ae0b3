"""The tools for a frontier on this machine's disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from webmill.crawl.frontier.local import restore
from webmill.crawl.frontier.state import State
from webmill.errors import NotFound
from webmill.flows.frontier.tools import Look, Tools
from webmill.infra.queue.sqlite import SCHEMA as BOX
from webmill.infra.sqlite import Database

LETTERS = 100  # read at once


def tools() -> Tools:
    return Tools(look=look, restore=restore, letters=letters)


def look(folder: Path) -> Look:
    """SQLite lets others read while its owner writes."""
    path = folder / "state.sqlite"
    if not path.exists():
        raise NotFound(f"no frontier in {folder} yet")
    with closing(State(path)) as state:
        excluded = state.database.read("SELECT count(*) FROM domain WHERE excluded")[0][0]
        return Look(state.stats(), excluded, state.next_turn(revisits=False))


def letters(file: Path) -> Iterator[bytes]:
    if not file.exists():
        return
    with Database(file, schema=BOX) as box:
        last = -1
        sql = "SELECT seq, body FROM body WHERE seq > ? ORDER BY seq LIMIT ?"
        while page := box.read(sql, (last, LETTERS)):
            yield from (body for _, body in page)
            last = page[-1][0]
