"""What a crawl's frontier holds, read from its files by docs/reference/frontier.md: shares no code with webmill.

Every shard's own domains, URLs in their order, visits, times; the messages of its inbox; the tables beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from tests.contracts.frontier_checker import file_bytes, lines, seen_hashes, unpack
from tests.contracts.sqlite_copy import copy_of

FILE_SIZE = 1 << 20


def owner(domain: str, shards: int) -> int:
    return int.from_bytes(hashlib.blake2b(domain.encode(), digest_size=8).digest(), "big") % shards


def domain_of(url: str) -> str:
    """Of the names of these tests: the last two labels."""
    return ".".join(url.split("/")[2].split(".")[-2:])


class CrawlFound:
    def __init__(self, frontier: Path) -> None:
        self.shards: int = json.loads(frontier.joinpath("crawl.json").read_text())["shards"]
        self.domains: dict[str, Any] = {}
        self.waiting: dict[tuple[str, int], list[str]] = {}
        self.retries: list[Any] = []
        self.visits: list[Any] = []
        self.robots: dict[str, Any] = {}
        self.messages: Counter[str] = Counter()
        self.tables: dict[str, list[Any]] = {}
        self.pages = 0
        for shard in range(self.shards):
            self._read_shard(frontier / f"shard-{shard:02d}", shard)
            self._read_inbox(frontier / f"mail-{shard:02d}.sqlite", shard)
        self.retries.sort()
        self.visits.sort()
        for rows in self.tables.values():
            rows.sort()

    def _read_shard(self, folder: Path, shard: int) -> None:
        if not (folder / "state.sqlite").exists():
            return
        with copy_of(folder / "state.sqlite") as copy, closing(apsw.Connection(str(copy))) as connection:
            self._read_state(folder, shard, connection)
        for name, table in (("quota", "domain"), ("yields", "domain"), ("scores", "score"), ("payloads", "payload")):
            self._read_table(folder / f"{name}.sqlite", table)
        self._read_table(folder / "cookies.db", "site")

    def _read_state(self, folder: Path, shard: int, connection: apsw.Connection) -> None:
        urls: list[str] = []
        names: dict[int, str] = {}
        journal = [part for (blob,) in connection.execute("SELECT lines FROM journal") for part in unpack(blob)]
        assert not connection.execute("SELECT 1 FROM turn").fetchall()
        rows = connection.execute(
            "SELECT id, name, excluded, token, next, due, again, errand, retries, revisits, rank, lanes FROM domain"
        )
        for id_, name, *rest, lanes in rows.fetchall():
            names[id_] = name
            if owner(name, self.shards) != shard:  # only that it is excluded
                assert rest[0]
                assert not any(read < end for read, end in json.loads(lanes).values())
                continue
            assert name not in self.domains
            self.domains[name] = (*rest, lanes)
            for priority, (read, end) in json.loads(lanes).items():
                data = file_bytes(folder, name, int(priority), read, end, size=FILE_SIZE)
                self.waiting[name, int(priority)] = lines(data)
                urls += lines(data)
        retries = connection.execute(
            "SELECT domain, priority, place, not_before, attempts, depth, url, hops FROM retry"
        ).fetchall()
        self.retries += [(names[id_], *row) for id_, *row in retries]
        visits = connection.execute("SELECT domain, priority, time, again, attempts, body FROM visit").fetchall()
        self.visits += [(names[id_], *row[:2], row[2] or -1.0, *row[3:]) for id_, *row in visits]
        urls += [row[6] for row in retries] + [json.loads(row[5])["url"] for row in visits]
        for url in urls:
            assert owner(domain_of(url), self.shards) == shard, url
        assert max(Counter(urls).values(), default=1) == 1
        known = seen_hashes(folder, connection, journal)
        assert sorted(known) == sorted(hashlib.blake2b(url.encode(), digest_size=16).digest() for url in urls)
        tally = dict(connection.execute("SELECT name, value FROM tally").fetchall())
        assert tally.get("waiting", 0) == len(urls) - len(visits)
        assert tally.get("visited", 0) == len(visits)
        assert tally.get("revisits", 0) == sum(row[3] is not None for row in visits)
        assert tally.get("in_hand", 0) == 0
        self.pages += tally.get("pages", 0)
        for origin, *row in connection.execute("SELECT * FROM robots").fetchall():
            if owner(domain_of(origin), self.shards) == shard:
                self.robots[origin] = tuple(row)

    def _read_inbox(self, file: Path, shard: int) -> None:
        import msgpack

        if not file.exists():
            return
        with copy_of(file) as copy, closing(apsw.Connection(str(copy))) as connection:
            for (body,) in connection.execute("SELECT body FROM body ORDER BY seq").fetchall():
                message = msgpack.unpackb(body)
                if isinstance(message, list):
                    for link in message:
                        assert owner(domain_of(link["url"]), self.shards) == shard
                        self.messages[json.dumps(link, sort_keys=True)] += 1
                else:
                    for domain in message.get("domains", ("",)):
                        self.messages[f"{message['type']} {domain}"] = 1

    def _read_table(self, file: Path, table: str) -> None:
        if file.exists():
            with copy_of(file) as copy, closing(apsw.Connection(str(copy))) as connection:
                rows = connection.execute(f"SELECT * FROM {table}").fetchall()
                self.tables.setdefault(file.name, []).extend(rows)

    def content(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "shards"}
