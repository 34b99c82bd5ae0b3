"""Administration of a frontier in Redis, whose nodes may be anywhere."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from webmill.crawl.cluster.cluster_state import ClusterState
from webmill.crawl.cluster.copying import NodesCopying
from webmill.crawl.cluster.join import load_or_create_cluster_layout, read_folder_id
from webmill.crawl.frontier.base import domain_of
from webmill.crawl.frontier.framed_file import read_frames, write_frames
from webmill.crawl.frontier.redis.backup import restore
from webmill.crawl.frontier.redis.frontier import decode_robots
from webmill.crawl.frontier.redis.owner import RESTORING, key_prefix, read_meta
from webmill.crawl.frontier.redis.server import as_pairs
from webmill.crawl.frontier.redis.state import RedisState
from webmill.crawl.frontier.redis.takeover import is_home
from webmill.crawl.frontier_admin.backend import ShardOverview
from webmill.crawl.frontier_admin.url_state import UrlState, find_url
from webmill.crawl.layout import CrawlFolder, read_seeds
from webmill.crawl.reload import describe_differences
from webmill.crawl.scope import check_patterns
from webmill.crawl.stored_settings import OWN, crawl_values, drop, reread_for_nodes, settings_of_node
from webmill.errors import Conflict, NotFound
from webmill.formats.url.normalise import origin_of
from webmill.infra import atomic
from webmill.settings import Sources

MESSAGES_AT_ONCE = 100  # read at once
PAGE = 1000
SHARED = "shared.frames"
_pair = msgspec.msgpack.Decoder(tuple[str, list[bytes]])


class RedisFrontierBackend:
    """Shards are known by the names of their folders, inboxes by those of their files."""

    is_shared = True

    def __init__(self, url: str, cluster: ClusterState) -> None:
        self._url, self._cluster, self._server = url, cluster, cluster.server
        self._prefix = key_prefix(cluster.name)

    def read_overview(self, folder: Path) -> ShardOverview:
        prefix = key_prefix(f"{self._cluster.name}:{folder.name}")
        if not read_meta(self._server, prefix):
            raise NotFound(f"no frontier {prefix} in Redis at {self._server.place} yet")
        state = RedisState(self._server, prefix, epoch=0, number=0)  # it only reads
        return ShardOverview(
            state.stats(), self._server.ask("ZCARD", prefix + "excluded"), state.next_turn(revisits=False)
        )

    def is_here(self, folder: Path) -> bool:
        meta = read_meta(self._server, key_prefix(f"{self._cluster.name}:{folder.name}"))
        return not meta or is_home(folder, meta)

    def change_numbers(self, paths: CrawlFolder, shards: int) -> dict[str, str]:
        names = [paths.shard(shard).name for shard in range(shards)]
        return {
            name: read_meta(self._server, key_prefix(f"{self._cluster.name}:{name}")).get("change", "")
            for name in names
        }

    def join_copying(self, shards: list[int]) -> NodesCopying:
        return NodesCopying(self._server, self._prefix, shards)

    def find_url(self, folder: Path, url: str) -> UrlState:
        prefix = key_prefix(f"{self._cluster.name}:{folder.name}")
        if not read_meta(self._server, prefix):
            return UrlState(known="unknown", domain=domain_of(url))
        state = RedisState(self._server, prefix, epoch=0, number=0)  # it only reads
        robots = decode_robots(self._server.ask("HGET", prefix + "robots", origin_of(url)))
        # The URLs that were never asked for are in files of the shard's node.
        return find_url(state, url, queues=None, robots=robots)

    def read_messages(self, file: Path) -> Iterator[bytes]:
        start = "-"
        while page := self._server.ask("XRANGE", self._prefix + file.stem, start, "+", "COUNT", MESSAGES_AT_ONCE):
            yield from (fields[b"letter"] for _, fields in page)
            start = "(" + page[-1][0].decode()

    def is_used_elsewhere(self) -> bool:
        return self._cluster.has_living_nodes()

    def stop_run(self) -> bool:
        return self._cluster.stop_run()

    def change_settings(self, sources: Sources) -> str:
        stored, running = self._cluster.flags(), self._cluster.run_limits()
        if running is None:
            raise NotFound(f"no crawl {self._cluster.name} is running in Redis at {self._server.place}")
        flags, limits = reread_for_nodes(sources.file, stored=stored, running=running)
        before = settings_of_node(Sources(), {}, stored=stored, running=running)
        after = settings_of_node(Sources(), {}, stored=flags, running=limits)
        check_patterns(*after.crawl.include, *after.crawl.exclude)
        if not self._cluster.change_settings(flags=flags, limits=limits):
            raise NotFound(f"no crawl {self._cluster.name} is running in Redis at {self._server.place}")
        return describe_differences(before, after, in_file=drop(crawl_values(sources.file), OWN))

    def settle_layout(self, paths: CrawlFolder, shards: int | None) -> None:
        count = load_or_create_cluster_layout(paths, self._cluster, shards)
        self._claim_shards(count, read_folder_id(paths.path))

    def _claim_shards(self, shards: int, place: str) -> None:
        """Note that the files of the shards are here: no node is to begin with others elsewhere."""
        self._server.ask_all(("HSETNX", self._prefix + "homes", shard, place) for shard in range(shards))

    def save_shared(self, paths: CrawlFolder, shards: int, folder: Path) -> None:
        """Copy flags and budgets of the crawl. The times of domains are in the shards; those of hosts pass."""
        write_frames(folder / SHARED, map(msgspec.msgpack.encode, self._read_shared(paths, shards)))

    def _read_shared(self, paths: CrawlFolder, shards: int) -> Iterator[tuple[str, list[bytes]]]:
        flags = self._server.ask("GET", self._prefix + "flags")
        if flags:
            yield "flags", [flags]
        for shard in range(shards):
            name, cursor = f"quota:{paths.shard(shard).name}", 0
            while True:
                cursor, page = self._server.ask("HSCAN", self._prefix + name, cursor, "COUNT", PAGE)
                yield name, [part for pair in as_pairs(page) for part in pair]
                if not int(cursor):
                    break

    @contextmanager
    def restore_guard(self) -> Iterator[None]:
        """Refuse to restore over another crawl. A restore that was cut short has left its sign, and may begin anew."""
        sign = self._prefix + "restoring"
        if self._server.ask("EXISTS", self._prefix + "layout") and not self._server.ask("EXISTS", sign):
            message = f"there is a crawl {self._cluster.name} in Redis at {self._server.place}: "
            raise Conflict(message + "give another --name, or another Redis")
        self._server.ask("SET", sign, "1")
        yield
        self._server.ask("DEL", sign)

    def restore_shard(self, source: Path, folder: Path) -> None:
        name = f"{self._cluster.name}:{folder.name}"
        if read_meta(self._server, key_prefix(name)):  # of a restore that was cut short
            self._server.ask("HSET", key_prefix(name) + "meta", RESTORING, "1")
        self._server.ask("DEL", f"{self._prefix}mail-{folder.name.removeprefix('shard-')}")
        restore(self._url, source, folder, prefix=name)

    def load_shared(self, paths: CrawlFolder, shards: int, *, saved: Path, draft: Path) -> None:
        for frame in read_frames(saved / SHARED):
            name, parts = _pair.decode(frame)
            if name == "flags":
                self._server.ask("SET", self._prefix + name, parts[0])
            elif parts:
                self._server.ask("HSET", self._prefix + name, *parts)
        seeds = saved / paths.seeds.name
        if seeds.exists():
            self._cluster.add_seeds(read_seeds(seeds))
        self._cluster.layout(shards, default=shards)
        place = secrets.token_hex(8)
        atomic.write_bytes(draft / "place", place.encode())
        self._server.ask("DEL", self._prefix + "homes")
        self._claim_shards(shards, place)

    def close(self) -> None:
        self._cluster.close()
