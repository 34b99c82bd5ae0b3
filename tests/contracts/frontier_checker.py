"""Where every URL of a local frontier is, read from its files by docs/reference/frontier.md: shares no code with it."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from tests.contracts.sqlite_copy import copy_of


class Found:
    def __init__(self, folder: Path) -> None:
        with copy_of(folder / "state.sqlite") as copy, closing(apsw.Connection(str(copy))) as connection:
            self._read(folder, connection)

    def _read(self, folder: Path, connection: apsw.Connection) -> None:
        rows = connection.execute("SELECT id, name, token, lanes FROM domain").fetchall()
        journal = [part for (blob,) in connection.execute("SELECT lines FROM journal") for part in unpack(blob)]
        waiting: list[str] = []
        for id_, name, _, lanes in rows:
            for priority, (read, end) in json.loads(lanes).items():
                newest = [part[2:] for part in journal if part[:2] == [id_, int(priority)]]
                waiting += lines(lane_bytes(folder, name, int(priority), read, end, newest))
        waiting += [url for (url,) in connection.execute("SELECT url FROM retry")]
        turns = connection.execute("SELECT token, domain, items FROM turn").fetchall()
        hand = [item for _, _, items in turns for item in json.loads(items)]
        revisits = {item[5] for item in hand if item[5]}
        visits = connection.execute("SELECT id, body FROM visit").fetchall()
        self.waiting, self.in_hand = Counter(waiting), Counter(item[0] for item in hand)
        self.visited = Counter(json.loads(body)["url"] for id_, body in visits if id_ not in revisits)
        self.hashes = Counter(seen_hashes(folder, connection, journal))
        self.held = {id_: token for id_, _, token, _ in rows if token}
        self.turns = {domain: token for token, domain, _ in turns}
        self.tally: dict[str, Any] = dict(connection.execute("SELECT name, value FROM tally").fetchall())

    def check(self) -> set[str]:
        """Nothing is in two states, nothing is known but nowhere, nothing is somewhere but not known. All URLs."""
        everywhere = self.waiting + self.in_hand + self.visited
        assert set(everywhere.values()) <= {1}, everywhere.most_common(3)
        assert set(self.hashes.values()) <= {1}
        assert self.hashes.keys() == {hashlib.blake2b(url.encode(), digest_size=16).digest() for url in everywhere}
        assert self.held == self.turns
        counted = {"waiting": self.waiting.total(), "in_hand": self.in_hand.total(), "visited": self.visited.total()}
        assert {name: self.tally.get(name, 0) for name in counted} == counted
        return set(everywhere)


def lane_bytes(folder: Path, domain: str, priority: int, read: int, end: int, newest: list[Any]) -> bytes:
    """`newest` are the positions and lines that the journal has of it: they need not be in its files yet."""
    parts = [(position, part) for position, part in newest if position >= 0]
    sure = max(read, min([end, *(position for position, _ in parts)]))
    data = file_bytes(folder, domain, priority, read, sure)
    for position, part in parts:
        data += part[max(0, sure - position) :]
    assert len(data) == end - read
    return data


def file_bytes(folder: Path, domain: str, priority: int, read: int, end: int, *, size: int = 400) -> bytes:
    name = hashlib.blake2b(domain.encode(), digest_size=16).hexdigest()
    data = b""
    while read < end:
        number, offset = divmod(read, size)
        with (folder / "domains" / name[:2] / f"{name}.{priority}.{number}").open("rb") as file:
            file.seek(offset)
            part = file.read(min(size - offset, end - read))
        assert part, "a lane is shorter than it should be"
        data, read = data + part, read + len(part)
    return data


def lines(data: bytes) -> list[str]:
    urls, at = [], 0
    while at < len(data):
        check, length, _ = struct.unpack_from("<III", data, at)
        line = data[at + 4 : at + 12 + length]
        assert zlib.crc32(line) == check
        urls.append(line[8:].decode())
        at += 12 + length
    return urls


def seen_hashes(folder: Path, connection: apsw.Connection, journal: list[Any]) -> list[bytes]:
    found: list[bytes] = []
    for (number,) in connection.execute("SELECT number FROM run"):
        data = (folder / "seen" / f"{number:08d}.run").read_bytes()
        (count,) = struct.unpack_from("=Q", data, 8)
        run = [data[32 + 16 * at : 48 + 16 * at] for at in range(count)]
        assert run == sorted(run)
        found += run
    for *_, data in journal:  # of lines in files, and of URLs that came as visited
        found += [hashlib.blake2b(url.encode(), digest_size=16).digest() for url in lines(data)]
    return found


def unpack(blob: bytes) -> list[list[Any]]:
    import msgpack

    unpacked: list[list[Any]] = msgpack.unpackb(blob)
    return unpacked
