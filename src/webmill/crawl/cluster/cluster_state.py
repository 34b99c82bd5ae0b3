"""Where the nodes of a crawl meet: in Redis, under `{NAME}:`.

Everything that several of them may change at once is changed by a script. What each does about what it sees it decides
by itself (`node`), by the same rules (`shares`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from webmill.crawl.cluster.redis_host_schedule import shared_clock
from webmill.crawl.cluster.redis_inbox import RedisBox
from webmill.crawl.cluster.redis_scripts import Scripts
from webmill.crawl.frontier.redis.server import Promise, Server, pairs, promised, text
from webmill.crawl.progress import Snapshot
from webmill.crawl.scheduler.inbox import Box
from webmill.errors import Conflict, Misconfigured
from webmill.infra.clock import SteadyClock

TIMEOUT = 5.0  # for one answer: a person is looking
LIFE = 30.0  # a node that was not heard of for so long is dead
POLL = 0.5
PAGE = 1000
VERSION = 1


class Attendee(msgspec.Struct, frozen=True, kw_only=True):
    """A node. Its `place` is the folder that it keeps shards in: nodes with shared storage have the same."""

    id: str
    place: str
    seat: str  # which no other can have while it lives: a lock in that folder
    host: str
    pid: int
    rebuilds: bool = False  # what was in places that are lost


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """How a shard stands. `start` tells one process of it from the next."""

    node: str
    start: int
    seen: Snapshot


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """From when the first node begins until all have left."""

    id: str
    started: float
    limits: str
    probe: int = 0
    end: str = ""


class Report(msgspec.Struct, kw_only=True):
    """What a node says."""

    take: list[str] = []
    drop: list[str] = []
    records: dict[str, str] = {}
    promised: dict[str, int] = {}
    bytes: int = 0
    starving: bool = False
    probe: int = 0
    end: str = ""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """How all stands. Owners may be dead; `living` are not."""

    now: float
    nodes: dict[str, Attendee]
    living: frozenset[str]
    owners: dict[int, str]
    homes: dict[int, str]  # the places where the shards' files are
    records: dict[int, Record]
    promised: dict[int, int]
    bytes: int
    run: Run | None
    seeds: int
    starving: bool  # somebody has no pages left and could use some

    def owner(self, shard: int) -> str | None:
        found = self.owners.get(shard, "")
        return found if found in self.living else None


IsGone = Callable[[Attendee], bool]


def never(node: Attendee) -> bool:  # noqa: ARG001 - who is elsewhere cannot be known to be dead
    return False


class Meeting:
    def __init__(self, url: str, name: str, *, life: float = LIFE, timeout: float = TIMEOUT) -> None:
        self.server = Server(url, timeout=timeout)
        self._scripts = Scripts(self.server, name)
        self._prefix = self._scripts.prefix
        self.name, self.life = name, life
        self._clock: SteadyClock | None = None

    def close(self) -> None:
        self.server.close()

    # --- before a node joins ---

    def promise(self, *, strict: bool) -> Promise:
        """What is left of acknowledged steps when Redis dies; `strict` refuses less than all."""
        return promised(self.server, strict=strict)

    def layout(self, shards: int | None, *, default: int) -> int:
        """How many shards there are for the life of the crawl; the first to ask decides."""
        key = self._prefix + "layout"
        self.server.ask("HSETNX", key, "shards", shards or default)
        self.server.ask("HSETNX", key, "version", VERSION)
        found = {text(name): int(value) for name, value in pairs(self.server.ask("HGETALL", key))}
        if found["version"] > VERSION:
            raise Misconfigured(f"the crawl {self.name} is of a newer webmill: use that one")
        if shards and shards != found["shards"]:
            message = f"this crawl was begun with {found['shards']} shards, and its domains are divided so: "
            raise Misconfigured(message + "leave --shards out")
        return found["shards"]

    def flags(self) -> dict[str, Any]:
        """What the crawl was told when it began, or last."""
        blob = self.server.ask("GET", self._prefix + "flags")
        return msgspec.json.decode(blob, type=dict[str, Any]) if blob else {}

    def limits(self, *, is_gone: IsGone = never) -> dict[str, Any] | None:
        """Of the run that is under way; None when there is none. `is_gone`: of a node that is dead, beyond doubt."""
        picture = self.look()
        living = [node for id_, node in picture.nodes.items() if id_ in picture.living and not is_gone(node)]
        if picture.run is None or picture.run.end or not living:
            return None
        return msgspec.json.decode(picture.run.limits, type=dict[str, Any])

    def someone_lives(self) -> bool:
        now = float(self._scripts.run("time", 0))
        beats = self.server.ask("HVALS", self._prefix + "beats")
        return any(now - float(beat.split()[0]) <= self.life for beat in beats)

    def add_seeds(self, urls: Iterable[str]) -> None:
        source = iter(urls)
        while page := list(islice(source, PAGE)):
            self.server.ask("SADD", self._prefix + "seeds", *page)

    def seeds(self) -> Iterator[str]:
        """Some maybe twice."""
        cursor = b"0"
        while True:
            cursor, page = self.server.ask("SSCAN", self._prefix + "seeds", cursor, "COUNT", PAGE)
            yield from map(text, page)
            if int(cursor) == 0:
                return

    def box(self, name: str) -> Box:
        return RedisBox(self.server, self._prefix + name)

    # --- a node's life ---

    def join(
        self, node: Attendee, *, flags: Mapping[str, Any], limits: Mapping[str, Any], is_gone: IsGone = never
    ) -> Run:
        """The run under way; where there is none one begins, after nodes that did not leave had a life to come back."""
        gone = [id_ for id_, other in self.look().nodes.items() if is_gone(other)]
        told = [_json(node), repr(self.life)], [_json(flags), _json(limits), _json(gone)]
        deadline = time.monotonic() + self.life
        while True:
            is_late = "1" if time.monotonic() >= deadline else "0"
            state, run = self._scripts.run("join", node.id, node.place, *told[0], is_late, *told[1])
            if state != b"wait":
                break
            time.sleep(POLL)
        self._clock = shared_clock(self._scripts)
        joined = _run(run)
        assert joined
        if state == b"joined" and (self.flags(), msgspec.json.decode(joined.limits)) != (dict(flags), dict(limits)):
            self.leave(node)
            raise Conflict("another node has begun this crawl just now, with other flags: start this one again")
        return joined

    def meet(self, node: Attendee, report: Report) -> Picture:
        assert self._clock
        told = [node.place, "1" if node.rebuilds else "0", _json(report), _json(node)]
        picture = _picture(self._scripts.run("meet", node.id, repr(self._clock()), repr(self.life), *told))
        self._clock.catch_up(picture.now)
        return picture

    def grant(self, node: Attendee, pages: Mapping[int, int], *, limit: int, shards: int) -> dict[int, int]:
        """What each of the shards is promised now, in all; 0: nothing more."""
        asked = [number for pair in pages.items() for number in pair]
        granted = self._scripts.run("grant", node.id, limit, shards, *asked)
        return dict(zip(pages, granted, strict=True))

    def leave(self, node: Attendee) -> None:
        self._scripts.run("leave", node.id)

    def look(self) -> Picture:
        """Without taking part."""
        return _picture(self._scripts.run("meet", "", 0, repr(self.life), "", "0", _json(Report()), ""))


def _picture(answer: list[Any]) -> Picture:
    now, living, owners, homes, nodes, records, promised, sizes, run, seeds, starving = answer
    return Picture(
        now=float(now),
        nodes={text(id_): msgspec.json.decode(blob, type=Attendee) for id_, blob in pairs(nodes)},
        living=frozenset(map(text, living)),
        owners={int(shard): text(node) for shard, node in pairs(owners)},
        homes={int(shard): text(place) for shard, place in pairs(homes)},
        records={int(shard): msgspec.json.decode(blob, type=Record) for shard, blob in pairs(records)},
        promised={int(shard): int(pages) for shard, pages in pairs(promised)},
        bytes=sum(map(int, sizes)),
        run=_run(run),
        seeds=seeds,
        starving=bool(starving),
    )


def _run(answer: Any) -> Run | None:
    found = {text(name): text(value) for name, value in pairs(answer)}
    return msgspec.convert(found, Run, strict=False) if found else None


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
