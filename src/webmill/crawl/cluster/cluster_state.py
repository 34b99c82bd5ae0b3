"""The shared state of a crawl on many nodes: in Redis, under `{NAME}:`.

Everything that several nodes may change at once is changed by a script. What each does about what it sees it decides by
itself (`node`), by the same rules (`shard_assignment`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.cluster.redis_host_schedule import shared_clock
from webmill.crawl.cluster.redis_inbox import RedisInbox
from webmill.crawl.cluster.redis_scripts import ClusterScripts
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.frontier.redis.owner import key_prefix
from webmill.crawl.frontier.redis.server import RedisDurability, RedisServer, as_pairs, as_text, check_durability
from webmill.crawl.frontier.redis.state import RedisState
from webmill.crawl.progress import CrawlProgress
from webmill.errors import Conflict, Misconfigured
from webmill.infra import waiting
from webmill.infra.clock import SteadyClock

REDIS_TIMEOUT = 5.0  # for one answer: a person is looking
NODE_LIFE = 30.0  # a node that was not heard of for so long is dead
POLL_INTERVAL = 0.5
SEEDS_AT_ONCE = 1000
LAYOUT_VERSION = 1


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True, rename={"folder": "place", "slot": "seat"}):
    """A node. `folder` is the id of the folder that it keeps shards in: nodes with shared storage have the same."""

    id: str
    folder: str
    slot: str  # which no other can have while it lives: a lock in that folder
    host: str
    pid: int
    rebuilds: bool = False  # shards whose files are lost


class ShardReport(msgspec.Struct, frozen=True, kw_only=True, rename={"progress": "seen"}):
    """How a shard stands. `start` tells one process of it from the next."""

    node: str
    start: int
    progress: CrawlProgress


class CrawlRun(msgspec.Struct, frozen=True, kw_only=True):
    """From when the first node begins until all have left."""

    id: str
    started: float
    limits: str
    probe: int = 0
    end: str = ""
    revision: int = 0  # grows when a person has changed the settings of the run


class NodeReport(msgspec.Struct, kw_only=True):
    """What a node tells the others."""

    take: list[str] = []  # shards
    drop: list[str] = []
    records: dict[str, str] = {}  # `ShardReport`s, by shard
    promised: dict[str, int] = {}  # pages, by shard
    bytes: int = 0
    starving: bool = False
    probe: int = 0
    end: str = ""


class ClusterView(msgspec.Struct, frozen=True, kw_only=True, rename={"reports": "records"}):
    """How all nodes stand. Owners may be dead; `living` are not."""

    now: float
    nodes: dict[str, NodeInfo]
    living: frozenset[str]
    owners: dict[int, str]  # nodes, by shard
    homes: dict[int, str]  # ids of the folders where the shards' files are
    reports: dict[int, ShardReport]
    promised: dict[int, int]  # pages, by shard
    bytes: int
    run: CrawlRun | None
    seeds: int
    starving: bool  # a node has no pages left and could use some

    def owner(self, shard: int) -> str | None:
        """Return the living node that owns the shard."""
        found = self.owners.get(shard, "")
        return found if found in self.living else None


IsDead = Callable[[NodeInfo], bool]


def never_dead(node: NodeInfo) -> bool:  # noqa: ARG001 - a node elsewhere cannot be known to be dead
    return False


class ClusterState:
    def __init__(self, url: str, name: str, *, life: float = NODE_LIFE, timeout: float = REDIS_TIMEOUT) -> None:
        self.server = RedisServer(url, timeout=timeout)
        self._scripts = ClusterScripts(self.server, name)
        self._prefix = self._scripts.prefix
        self.name, self.life = name, life
        self._clock: SteadyClock | None = None

    def close(self) -> None:
        self.server.close()

    # --- before a node joins ---

    def durability(self, *, strict: bool) -> RedisDurability:
        """Return what is left of acknowledged steps when Redis dies; `strict` refuses less than all."""
        return check_durability(self.server, strict=strict)

    def layout(self, shards: int | None, *, default: int) -> int:
        """Return how many shards there are for the life of the crawl; the first to ask decides."""
        key = self._prefix + "layout"
        self.server.ask("HSETNX", key, "shards", shards or default)
        self.server.ask("HSETNX", key, "version", LAYOUT_VERSION)
        found = {as_text(name): int(value) for name, value in as_pairs(self.server.ask("HGETALL", key))}
        if found["version"] > LAYOUT_VERSION:
            raise Misconfigured(f"the crawl {self.name} was made by a newer webmill: use that one")
        if shards and shards != found["shards"]:
            message = f"this crawl was begun with {found['shards']} shards, and its domains are divided among them: "
            raise Misconfigured(message + "leave --shards out")
        return found["shards"]

    def flags(self) -> dict[str, Any]:
        """Return what the crawl was told when it began, or last."""
        blob = self.server.ask("GET", self._prefix + "flags")
        return msgspec.json.decode(blob, type=dict[str, Any]) if blob else {}

    def run_limits(self, *, is_dead: IsDead = never_dead) -> dict[str, Any] | None:
        """Return the limits of the run that is under way, or None. `is_dead`: of a node, beyond doubt."""
        view = self.view()
        living = [node for id_, node in view.nodes.items() if id_ in view.living and not is_dead(node)]
        if view.run is None or view.run.end or not living:
            return None
        return msgspec.json.decode(view.run.limits, type=dict[str, Any])

    def has_living_nodes(self) -> bool:
        now = float(self._scripts.run("time", 0))
        heartbeats = self.server.ask("HVALS", self._prefix + "beats")
        return any(now - float(beat.split()[0]) <= self.life for beat in heartbeats)

    def add_seeds(self, urls: Iterable[str]) -> None:
        source = iter(urls)
        while some := list(islice(source, SEEDS_AT_ONCE)):
            self.server.ask("SADD", self._prefix + "seeds", *some)

    def has_seeds(self) -> bool:
        return bool(self.server.ask("SCARD", self._prefix + "seeds"))

    def seeds(self) -> Iterator[str]:
        """Yield all seeds; some maybe twice."""
        cursor = b"0"
        while True:
            cursor, some = self.server.ask("SSCAN", self._prefix + "seeds", cursor, "COUNT", SEEDS_AT_ONCE)
            yield from map(as_text, some)
            if int(cursor) == 0:
                return

    def open_inbox(self, file: Path) -> RedisInbox:
        """Return the inbox that a shard's file stands for, on this connection."""
        return RedisInbox(self.server, self._prefix + file.stem)

    def visit(self, shard: str, url: str) -> LastVisit | None:
        """Return the last visit of a URL, whoever owns its shard: it is only read."""
        return RedisState(self.server, key_prefix(f"{self.name}:{shard}"), epoch=0, number=0).visit(url)

    # --- a node's life ---

    def join(
        self, node: NodeInfo, *, flags: Mapping[str, Any], limits: Mapping[str, Any], is_dead: IsDead = never_dead
    ) -> CrawlRun:
        """Join the run under way. Where there is none one begins, after nodes that did not leave had time to return."""
        dead = [id_ for id_, other in self.view().nodes.items() if is_dead(other)]
        before, behind = [_json(node), repr(self.life)], [_json(flags), _json(limits), _json(dead)]
        deadline = time.monotonic() + self.life
        while True:
            is_late = "1" if time.monotonic() >= deadline else "0"
            state, run = self._scripts.run("join", node.id, node.folder, *before, is_late, *behind)
            if state != b"wait":
                break
            waiting.sleep(POLL_INTERVAL)
        self._clock = shared_clock(self._scripts)
        joined = _parse_run(run)
        assert joined
        if state == b"joined" and (self.flags(), msgspec.json.decode(joined.limits)) != (dict(flags), dict(limits)):
            self.leave(node)
            raise Conflict("another node has begun this crawl just now, with other flags: start this one again")
        return joined

    def exchange(self, node: NodeInfo, report: NodeReport) -> ClusterView:
        """NodeReport what a node has and wants, and return how all nodes stand."""
        assert self._clock
        arguments = [node.folder, "1" if node.rebuilds else "0", _json(report), _json(node)]
        view = _parse_view(self._scripts.run("exchange", node.id, repr(self._clock()), repr(self.life), *arguments))
        self._clock.catch_up(view.now)
        return view

    def view(self) -> ClusterView:
        """Return how all nodes stand, without taking part."""
        arguments = ["", "0", _json(NodeReport()), ""]
        return _parse_view(self._scripts.run("exchange", "", 0, repr(self.life), *arguments))

    def grant(self, node: NodeInfo, pages: Mapping[int, int], *, limit: int, shards: int) -> dict[int, int]:
        """Grant pages to shards, and return what each is promised now, in all; 0: nothing more."""
        wanted = [number for pair in pages.items() for number in pair]
        granted = self._scripts.run("grant", node.id, limit, shards, *wanted)
        return dict(zip(pages, granted, strict=True))

    def leave(self, node: NodeInfo) -> None:
        self._scripts.run("leave", node.id)

    # --- what a person tells all nodes ---

    def stop_run(self) -> bool:
        """End the run under way, in good order, on all nodes. False: none is."""
        return bool(self._scripts.run("steer", repr(self.life), "stopped", "", ""))

    def change_settings(self, *, flags: Mapping[str, Any], limits: Mapping[str, Any]) -> bool:
        """Let all nodes of the run under way go on with these. False: there is no such run."""
        return bool(self._scripts.run("steer", repr(self.life), "", _json(flags), _json(limits)))


def _parse_view(answer: list[Any]) -> ClusterView:
    now, living, owners, homes, nodes, reports, promised, sizes, run, seeds, starving = answer
    return ClusterView(
        now=float(now),
        nodes={as_text(id_): msgspec.json.decode(blob, type=NodeInfo) for id_, blob in as_pairs(nodes)},
        living=frozenset(map(as_text, living)),
        owners={int(shard): as_text(node) for shard, node in as_pairs(owners)},
        homes={int(shard): as_text(folder) for shard, folder in as_pairs(homes)},
        reports={int(shard): msgspec.json.decode(blob, type=ShardReport) for shard, blob in as_pairs(reports)},
        promised={int(shard): int(pages) for shard, pages in as_pairs(promised)},
        bytes=sum(map(int, sizes)),
        run=_parse_run(run),
        seeds=seeds,
        starving=bool(starving),
    )


def _parse_run(answer: Any) -> CrawlRun | None:
    found = {as_text(name): as_text(value) for name, value in as_pairs(answer)}
    return msgspec.convert(found, CrawlRun, strict=False) if found else None


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
