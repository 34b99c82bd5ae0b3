"""The keys of a frontier as commands that make them anew: in any Redis, under any prefix, a page at a time.

Redis has DUMP, whose bytes only a Redis of the same age reads, and which answers with a key of gigabytes at once.
The filter is left out: it is made anew from the exact set. So is `meta`, which tells whose the keys are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.frontier.framed_file import read_frames, write_frames
from webmill.crawl.frontier.redis.changes import ChangeSender
from webmill.crawl.frontier.redis.rows import escape_pattern
from webmill.crawl.frontier.redis.server import Command, RedisServer, as_text

KEY_KINDS = {
    "domain", "ready", "in_hand", "turns", "leases", "retries", "revisits", "visited", "excluded", "robots", "notes",
    "tally", "errands",
}  # fmt: skip
JOURNAL = "journal"
AT_ONCE = 1000
FRAME = 1 << 20  # bytes, about

_commands = msgspec.msgpack.Decoder(list[list[bytes]])


def write_dump(path: Path, server: RedisServer, prefix: str) -> None:
    write_frames(path, map(msgspec.msgpack.encode, group_commands(dump_commands(server, prefix))))


def load_dump(path: Path, changes: ChangeSender, prefix: str) -> None:
    for frame in read_frames(path):
        some = [(name, prefix.encode() + key, *rest) for name, key, *rest in _commands.decode(frame)]
        changes.make(some, then=None, is_claim=False)


def group_commands(commands: Iterable[Command]) -> Iterator[list[Command]]:
    group: list[Command] = []
    size = 0
    for command in commands:
        group.append(command)
        size += sum(map(len, command))
        if size >= FRAME or len(group) >= AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def scan_keys(server: RedisServer, prefix: str) -> Iterator[list[bytes]]:
    """Yield the keys of a frontier, a page at a time, some maybe twice."""
    cursor, pattern = 0, escape_pattern(prefix) + "*"
    while True:
        cursor, found = server.ask("SCAN", cursor, "MATCH", pattern, "COUNT", AT_ONCE)
        if page := [key for key in found if as_text(key)[len(prefix) :].partition(":")[0] in KEY_KINDS]:
            yield page
        if not int(cursor):
            return


def dump_commands(server: RedisServer, prefix: str) -> Iterator[Command]:
    """Yield the commands that make the keys anew, without the prefix. What comes twice changes nothing."""
    for page in scan_keys(server, prefix):
        kinds = map(as_text, server.ask_all(("TYPE", key) for key in page))
        known = [(key, kind) for key, kind in zip(page, kinds, strict=True) if kind in ("string", "hash", "zset")]
        answers = server.ask_all(scan_command(key, kind) for key, kind in known) if known else []
        for (key, kind), answer in zip(known, answers, strict=True):
            for part in read_pages(server, key, kind, answer):
                yield restore_command(key[len(prefix.encode()) :], kind, part)
    number = 0
    while (entry := server.ask("LINDEX", prefix + JOURNAL, number)) is not None:
        number += 1
        yield (b"RPUSH", JOURNAL.encode(), entry)


def scan_command(key: bytes, kind: str, cursor: int = 0) -> Sequence[bytes | str | float]:
    """Return the command that reads the next page of a key."""
    if kind == "string":
        return ("GET", key)
    return ("HSCAN" if kind == "hash" else "ZSCAN", key, cursor, "COUNT", AT_ONCE)


def read_pages(server: RedisServer, key: bytes, kind: str, answer: Any) -> Iterator[Any]:
    if kind == "string":
        yield answer
        return
    while True:
        cursor, part = answer
        if part:
            yield part
        if not int(cursor):
            return
        answer = server.ask(*scan_command(key, kind, int(cursor)))


def restore_command(name: bytes, kind: str, part: Any) -> Command:
    if kind == "string":
        return (b"SET", name, part)
    if kind == "hash":
        return (b"HSET", name, *(value for pair in part.items() for value in pair))
    return (b"ZADD", name, *(value for member, score in part for value in (repr(float(score)).encode(), member)))
