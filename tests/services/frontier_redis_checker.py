"""Where every URL of a frontier in Redis is, read by docs/reference/frontier-redis.md: shares no code with it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import redis

from tests.contracts.frontier_checker import Found, lane_bytes, lines, unpack
from tests.contracts.sqlite_copy import copy_of


class RedisFound(Found):
    def __init__(self, url: str, prefix: str, folder: Path) -> None:
        self.at = f"{{{prefix}}}:"
        with redis.Redis.from_url(url) as client:
            self.read(client, folder)

    def read(self, client: Any, folder: Path) -> None:
        at = self.at
        names = [key.decode()[len(at + "domain:") :] for key in client.scan_iter(at + "domain:*")]
        rows = {name: client.hgetall(at + "domain:" + name) for name in names}
        journal = [part for blob in client.lrange(at + "journal", 0, -1) for part in unpack(blob)]
        waiting: list[str] = []
        for name, row in rows.items():
            for priority, (read, end) in json.loads(row[b"lanes"]).items():
                newest = [part[2:] for part in journal if part[:2] == [name, int(priority)]]
                waiting += lines(lane_bytes(folder, name, int(priority), read, end, newest))
        for key in client.scan_iter(at + "retries:*"):
            waiting += [json.loads(member)[4] for member in client.zrange(key, 0, -1)]
        turns = {int(token): json.loads(body) for token, body in client.hgetall(at + "turns").items()}
        hand = [item for _, items in turns.values() for item in items]
        again = {item[0] for item in hand if item[5]}
        visited = [unpack(body)[4][0] for body in client.hgetall(at + "visited").values()]
        self.waiting, self.in_hand = Counter(waiting), Counter(item[0] for item in hand)
        self.visited = Counter(url for url in visited if url not in again)
        self.hashes = Counter(self.known(journal, folder))
        self.held = {name: int(row[b"token"]) for name, row in rows.items() if int(row.get(b"token", 0))}
        self.turns = {name: token for token, (name, _) in turns.items()}
        self.tally = {name.decode(): int(value) for name, value in client.hgetall(at + "tally").items()}
        assert {int(token) for token in client.zrange(at + "leases", 0, -1)} == turns.keys()
        due = {member.partition(b" ")[2].decode() for member in client.zrange(at + "ready", 0, -1)}
        assert due == {name for name, row in rows.items() if row.get(b"due")}

    def known(self, journal: list[Any], folder: Path) -> set[bytes]:
        """In a run, or in the journal; in both only between a checkpoint and the end of the journal."""
        with copy_of(folder / "seen.sqlite") as copy, closing(apsw.Connection(str(copy))) as connection:
            runs = Counter(run_hashes(folder, connection))
        assert set(runs.values()) <= {1}
        found = set(runs)
        for *_, data in journal:
            found |= {hashlib.blake2b(url.encode(), digest_size=16).digest() for url in lines(data)}
        return found


def run_hashes(folder: Path, connection: apsw.Connection) -> list[bytes]:
    found: list[bytes] = []
    for (number,) in connection.execute("SELECT number FROM run"):
        data = (folder / "seen" / f"{number:08d}.run").read_bytes()
        (count,) = struct.unpack_from("=Q", data, 8)
        found += [data[32 + 16 * at : 48 + 16 * at] for at in range(count)]
    return found
